package collector_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// C9: watching only reads.
func TestOnlyReads(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		target collector.Target
		want   []queuetest.Operation
	}{
		"a watched queue is counted and peeked at": {
			collector.Target{Mode: collector.ModeWatch}, []queuetest.Operation{queuetest.OpPeek, queuetest.OpProperties},
		},
		"a consumed queue too": {
			collector.Target{Mode: collector.ModeConsume}, []queuetest.Operation{queuetest.OpPeek, queuetest.OpProperties},
		},
		"counts only never peeks": {
			collector.Target{CountsOnly: true}, []queuetest.Operation{queuetest.OpProperties},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				tt.target.Queue = create(t, s.acct, "orders")
				send(t, tt.target.Queue, 3, queue.SendOptions{})
				s.ResetCounts()
				run(t, collector.Config{Targets: []collector.Target{tt.target}})
				time.Sleep(time.Hour)
				want, got := map[queuetest.Op]bool{}, map[queuetest.Op]bool{}
				for _, q := range []string{"orders", "orders-poison"} {
					for _, op := range tt.want {
						want[queuetest.Op{Account: queuetest.AccountName, Queue: q, Operation: op}] = true
					}
				}
				for op, n := range s.Counts() {
					got[op] = true
					if n > 67 { // one at once, and one in each minute, or a little earlier
						t.Errorf("%d requests in an hour: %v", n, op)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("requests in an hour (-want +got):\n%s", diff)
				}
				for _, m := range s.Messages(queuetest.AccountName, "orders") {
					if m.DequeueCount != 0 || !m.Visible {
						t.Errorf("a message was touched: %+v", m)
					}
				}
			})
		})
	}
}

// C3: a poll, retries included, takes no longer than its interval, and never more than 10 s.
func TestAPollIsBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		every time.Duration
		fault queuetest.Fault
		want  float64
	}{
		"a hanging service, long interval":          {time.Minute, queuetest.Fault{Hang: true}, 10},
		"a hanging service, short interval":         {2 * time.Second, queuetest.Fault{Hang: true}, 2},
		"a hanging peek":                            {time.Minute, queuetest.Fault{Operation: queuetest.OpPeek, Hang: true}, 10},
		"a slow service that answers with failures": {time.Minute, queuetest.Fault{Delay: 4 * time.Second, Status: 503}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				q := create(t, s.acct, "orders")
				s.Inject(tt.fault)
				c := run(t, collector.Config{Targets: targets(q), Interval: tt.every})
				time.Sleep(min(tt.every, 10*time.Second) + time.Millisecond)
				expect(t, "after the first poll", about(t, c, "orders", "main"), map[string]float64{up: 0, duration: tt.want, polls: 1})
			})
		})
	}
}

// B46: ages are told by the service's clock, and the difference is exported.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]time.Duration{"the service is ahead": 2 * time.Hour, "the service is behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{NoAuth: true}) // shared keys are refused with such a clock
				s.SetClockOffset(offset)
				q := create(t, s.acct, "orders")
				send(t, q, 1, queue.SendOptions{})
				time.Sleep(5 * time.Minute)
				c := run(t, collector.Config{Targets: targets(q), Interval: time.Hour})
				time.Sleep(time.Second)
				expect(t, "age", about(t, c, "orders", "main"), map[string]float64{up: 1, age: 300, clamped: 0})
				got := samples(t, c)[`qwatch_clock_skew_seconds{account="acct"}`]
				if math.Abs(got-offset.Seconds()) > resolution.Seconds() {
					t.Errorf("the skew is %v, want about %v", got, offset.Seconds())
				}
				if a := c.Snapshot().Accounts; len(a) != 1 || (a[0].Skew-offset).Abs() > resolution || !a[0].Answered {
					t.Errorf("the snapshot's accounts are %+v", a)
				}
			})
		})
	}
}

// B46: a service whose clock goes backwards makes no negative age.
func TestNegativeAgesAreClamped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{NoAuth: true})
		q := create(t, s.acct, "orders")
		send(t, q, 2, queue.SendOptions{})
		s.SetClockOffset(-2 * time.Hour)
		c := run(t, collector.Config{Targets: targets(q), Interval: time.Hour})
		time.Sleep(time.Second)
		expect(t, "main", about(t, c, "orders", "main"), map[string]float64{up: 1, peeked: 2, age: 0, clamped: 1})
		expect(t, "poison", about(t, c, "orders", "poison"), map[string]float64{up: 1, age: 0, clamped: 0})
	})
}

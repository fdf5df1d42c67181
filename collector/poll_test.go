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

var absent = math.NaN()

const (
	up         = "queue_up"
	exists     = "queue_exists"
	messages   = "queue_approximate_messages"
	peeked     = "queue_peeked_messages"
	age        = "queue_oldest_visible_message_age_seconds"
	expires    = "queue_next_expiration_timestamp_seconds"
	attempts   = "queue_peeked_delivery_attempts_max"
	success    = "queue_last_poll_success_timestamp_seconds"
	duration   = "queue_last_poll_duration_seconds"
	interval   = "queue_poll_interval_seconds"
	polls      = "queue_polls_total"
	clamped    = "queue_ages_clamped_total"
	resolution = time.Second // of the service's times
)

// unix is a time as a sample has it.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func TestWhatAPollTells(t *testing.T) {
	t.Parallel()
	type world struct {
		*storage
		q *queue.Queue
	}
	empty := map[string]float64{up: 1, exists: 1, messages: 0, peeked: 0, age: 0, expires: absent, attempts: 0}
	for name, tt := range map[string]struct {
		prepare      func(*testing.T, world)
		target       collector.Target
		main, poison map[string]float64
		mainFailures map[string]float64
		poisonFails  map[string]float64
	}{
		"B60 B61: an empty queue has zeros": {
			prepare: func(*testing.T, world) {},
			main:    empty, poison: empty,
		},
		"B61: one stuck message has an age": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 1, queue.SendOptions{TimeToLive: queue.Never})
				time.Sleep(90 * time.Second)
			},
			main:   map[string]float64{up: 1, messages: 1, peeked: 1, age: 90, expires: absent, attempts: 0},
			poison: empty,
		},
		"B01: leased messages count and are not visible": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 7, queue.SendOptions{})
				lease(t, w.q, 7, time.Hour)
				time.Sleep(time.Minute)
			},
			main: map[string]float64{up: 1, messages: 7, peeked: 0, age: 0, expires: absent, attempts: 0},
		},
		"B03: a message with a delay is not visible": {
			prepare: func(t *testing.T, w world) { send(t, w.q, 1, queue.SendOptions{Delay: time.Hour}) },
			main:    map[string]float64{messages: 1, peeked: 0, age: 0},
		},
		"fewer than 32 visible messages are counted exactly": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 40, queue.SendOptions{})
				lease(t, w.q, 9, time.Hour)
			},
			main: map[string]float64{messages: 40, peeked: 31},
		},
		"32 visible messages or more are a floor": {
			prepare: func(t *testing.T, w world) { send(t, w.q, 50, queue.SendOptions{}) },
			main:    map[string]float64{messages: 50, peeked: 32},
		},
		"the earliest expiry and the most deliveries are told": {
			prepare: func(t *testing.T, w world) {
				for range 3 {
					send(t, w.q, 1, queue.SendOptions{TimeToLive: time.Hour})
					send(t, w.q, 1, queue.SendOptions{TimeToLive: 30 * time.Minute})
					send(t, w.q, 1, queue.SendOptions{TimeToLive: queue.Never})
				}
				for _, n := range []int{9, 1} {
					for _, m := range lease(t, w.q, n, time.Minute) {
						if err := m.Abandon(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
			main: map[string]float64{
				messages: 9, peeked: 9,
				expires: unix(time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)), attempts: 2,
			},
		},
		"a poison queue is told under the main queue's name": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q.Poison(), 3, queue.SendOptions{TimeToLive: queue.Never})
				time.Sleep(time.Hour)
			},
			main:   empty,
			poison: map[string]float64{up: 1, exists: 1, messages: 3, peeked: 3, age: 3600, expires: absent},
		},
		"a poison queue that is not there is empty": {
			prepare: func(t *testing.T, w world) {
				if err := w.q.Poison().Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			main:   empty,
			poison: map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0, age: 0, expires: absent, attempts: 0, success: unix(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))},
		},
		"a main queue that is not there is down and has no depth": {
			prepare: func(t *testing.T, w world) {
				if err := w.q.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			main:         map[string]float64{up: 0, exists: 0, messages: absent, peeked: absent, age: absent, attempts: absent, success: 0},
			mainFailures: map[string]float64{"not_found": 1},
			poison:       empty,
		},
		"B53: a queue that cannot be read has no depth": {
			prepare: func(_ *testing.T, w world) { w.Inject(queuetest.Fault{Queue: "orders", Status: 500}) },
			main: map[string]float64{
				up: 0, exists: absent, messages: absent, peeked: absent, age: absent, attempts: absent, success: 0, polls: 1,
			},
			mainFailures: map[string]float64{"server": 1},
			poison:       empty,
		},
		"a poison queue that cannot be read does not hide the main queue": {
			prepare:     func(_ *testing.T, w world) { w.Inject(queuetest.Fault{Queue: "orders-poison", Refuse: true}) },
			main:        empty,
			poison:      map[string]float64{up: 0, messages: absent, exists: absent},
			poisonFails: map[string]float64{"network": 1},
		},
		"without permission to peek the count is there and the poll failed": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 5, queue.SendOptions{})
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403, Code: "AuthorizationPermissionMismatch"})
			},
			main:         map[string]float64{up: 0, exists: 1, messages: 5, peeked: absent, age: absent, attempts: absent, success: 0},
			mainFailures: map[string]float64{"auth": 1},
			poison:       map[string]float64{up: 0, exists: 1, messages: 0, peeked: absent},
			poisonFails:  map[string]float64{"auth": 1},
		},
		"C9: counts only needs no permission to peek": {
			target: collector.Target{CountsOnly: true},
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 5, queue.SendOptions{})
				if err := w.q.Poison().Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403, Code: "AuthorizationPermissionMismatch"})
			},
			main:   map[string]float64{up: 1, exists: 1, messages: 5, peeked: absent, age: absent, attempts: absent, expires: absent},
			poison: map[string]float64{up: 1, exists: 0, messages: 0, peeked: absent, age: absent, attempts: absent, expires: absent},
		},
		"a queue deleted between count and peek is gone": {
			prepare: func(_ *testing.T, w world) {
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 404, Code: "QueueNotFound"})
			},
			main:         map[string]float64{up: 0, exists: 0, messages: absent, peeked: absent},
			mainFailures: map[string]float64{"not_found": 1},
			poison:       map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0},
		},
		"throttling is told as such": {
			prepare:      func(_ *testing.T, w world) { w.Inject(queuetest.Busy(0)) },
			main:         map[string]float64{up: 0},
			mainFailures: map[string]float64{"throttled": 1},
			poisonFails:  map[string]float64{"throttled": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				w := world{s, create(t, s.acct, "orders")}
				tt.prepare(t, w)
				tt.target.Queue = w.q
				c := run(t, collector.Config{Targets: []collector.Target{tt.target}, Interval: time.Hour})
				time.Sleep(11 * time.Second) // retries
				expect(t, "main", about(t, c, "orders", "main"), tt.main)
				expect(t, "poison", about(t, c, "orders", "poison"), tt.poison)
				if tt.mainFailures == nil {
					tt.mainFailures = map[string]float64{}
				}
				if tt.poisonFails == nil {
					tt.poisonFails = map[string]float64{}
				}
				if diff := cmp.Diff(tt.mainFailures, failures(t, c, "orders", "main")); diff != "" {
					t.Errorf("failed polls of the main queue (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.poisonFails, failures(t, c, "orders", "poison")); diff != "" {
					t.Errorf("failed polls of the poison queue (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// B53, B63: the last value stays for three intervals, then there is none.
func TestStalenessLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		send(t, q, 5, queue.SendOptions{})
		c := run(t, collector.Config{Targets: targets(q), Interval: time.Minute})
		time.Sleep(30 * time.Minute)
		before := about(t, c, "orders", "main")
		lastGood := only(c.Snapshot(), collector.KindMain)["orders"].LastSuccess

		remove := s.Inject(queuetest.Fault{Queue: "orders", Refuse: true})
		time.Sleep(time.Until(lastGood.Add(75 * time.Second))) // one failed poll
		expect(t, "after a failed poll", about(t, c, "orders", "main"), map[string]float64{
			up: 0, exists: 1, messages: 5, peeked: 5, age: before[age], success: before[success],
		})
		time.Sleep(time.Until(lastGood.Add(3 * time.Minute)))
		expect(t, "at the limit", about(t, c, "orders", "main"), map[string]float64{up: 0, exists: 1, messages: 5, peeked: 5})
		if got := only(c.Snapshot(), collector.KindMain)["orders"]; !got.Count.Known || !got.Peek.Known || got.Up != collector.No {
			t.Errorf("at the limit the snapshot says %+v", got)
		}
		time.Sleep(time.Second)
		gone := map[string]float64{
			up: 0, exists: absent, messages: absent, peeked: absent, age: absent, attempts: absent, expires: absent, success: before[success],
		}
		expect(t, "past the limit", about(t, c, "orders", "main"), gone)
		state := only(c.Snapshot(), collector.KindMain)["orders"]
		if state.Count.Known || state.Peek.Known || state.Exists != 0 || state.Reason != queue.ResultNetwork || !state.LastSuccess.Equal(lastGood) {
			t.Errorf("past the limit the snapshot says %+v", state)
		}
		if _, _, ok := state.Visible(); ok {
			t.Error("past the limit visible messages are known")
		}
		time.Sleep(24 * time.Hour)
		expect(t, "a day later", about(t, c, "orders", "main"), gone)
		expect(t, "a day later, the poison queue", about(t, c, "orders", "poison"), map[string]float64{up: 1, messages: 0})

		remove()
		time.Sleep(time.Minute + time.Second)
		expect(t, "after recovery", about(t, c, "orders", "main"), map[string]float64{up: 1, exists: 1, messages: 5, peeked: 5})
	})
}

// B41: every poll asks anew, and says when it last succeeded.
func TestEveryPollAsksAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := run(t, collector.Config{Targets: targets(q)})
		var last float64
		for n := range 5 {
			time.Sleep(time.Minute)
			got := about(t, c, "orders", "main")
			if got[success] <= last {
				t.Errorf("minute %d: the last success is at %v, as before", n, got[success])
			}
			last = got[success]
			expect(t, "each minute", got, map[string]float64{messages: float64(n)})
			send(t, q, 1, queue.SendOptions{})
		}
	})
}

// B77: what comes in is seen within one interval, and the rhythm is exact.
func TestRhythm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := run(t, collector.Config{Targets: targets(q), Interval: time.Minute})
		time.Sleep(10*time.Minute + time.Second)
		expect(t, "in ten minutes", about(t, c, "orders", "main"), map[string]float64{polls: 11, interval: 60})
		for range 20 {
			time.Sleep(time.Minute)
			send(t, q.Poison(), 1, queue.SendOptions{})
			had := about(t, c, "orders", "poison")[messages]
			time.Sleep(time.Minute)
			if got := about(t, c, "orders", "poison")[messages]; got != had+1 {
				t.Fatalf("a minute after it was sent %v of %v messages are seen", got, had+1)
			}
		}
	})
}

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
				want := map[queuetest.Op]int{}
				for _, q := range []string{"orders", "orders-poison"} {
					for _, op := range tt.want {
						want[queuetest.Op{Account: queuetest.AccountName, Queue: q, Operation: op}] = 61
					}
				}
				got := s.Counts()
				for op := range got {
					if got[op] == 60 { // the hour ends with a poll, or just before
						got[op] = 61
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

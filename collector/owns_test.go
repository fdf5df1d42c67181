package collector_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// C8: a replica lists everything and polls what it owns, poison queues with their main queues.
func TestOwns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		given := create(t, s.acct, "given")
		createAll(t, s.acct, "aaa", "aaa-poison", "bbb", "bbb-poison")
		var owned atomic.Pointer[[]string]
		owned.Store(&[]string{"aaa", "given"})
		c := run(t, collector.Config{
			Targets: targets(given), Discovery: []collector.Discovery{{Account: s.acct}}, Interval: time.Minute,
			Owns: func(account, name string) bool { return account == "acct" && slices.Contains(*owned.Load(), name) },
		})
		for _, step := range []struct {
			owns, want []string
		}{
			{[]string{"aaa", "given"}, []string{"aaa main", "aaa poison", "given main", "given poison"}},
			{[]string{"bbb"}, []string{"bbb main", "bbb poison"}},
			{nil, nil},
			{[]string{"aaa", "bbb", "given"}, []string{"aaa main", "aaa poison", "bbb main", "bbb poison", "given main", "given poison"}},
		} {
			owned.Store(&step.owns)
			c.Reselect()
			if diff := cmp.Diff(step.want, watchedQueues(c)); len(step.want) < 4 && diff != "" { // at the first step nothing is listed yet
				t.Errorf("%v: right after Reselect (-want +got):\n%s", step.owns, diff)
			}
			time.Sleep(5 * time.Second)
			s.ResetCounts()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if diff := cmp.Diff(step.want, watchedQueues(c)); diff != "" {
				t.Errorf("%v: watched (-want +got):\n%s", step.owns, diff)
			}
			for _, q := range c.Snapshot().Queues {
				if q.Up != collector.Yes {
					t.Errorf("%v: %s %s was not polled", step.owns, q.Queue, q.Kind)
				}
			}
			for op, n := range s.Counts() {
				if main := strings.TrimSuffix(op.Queue, "-poison"); main != "" && !slices.Contains(step.owns, main) {
					t.Errorf("%v: %d times %s of %s", step.owns, n, op.Operation, op.Queue)
				}
			}
			if d := c.Snapshot().Accounts[0].Discovery; d == nil || d.Queues != 2 || time.Since(d.LastSuccess) > 6*time.Minute {
				t.Errorf("%v: discovery %+v", step.owns, d)
			}
		}
	})
}

// A poll that runs when its queue goes to another replica is given up, retries included.
func TestReselectEndsRunningPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := open(t, s.acct, "orders", queue.Config{NoPoison: true})
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		var away atomic.Bool
		s.Inject(queuetest.Fault{Queue: "orders", Hang: true})
		s.ResetCounts()
		c := run(t, collector.Config{
			Targets: targets(q), Discovery: []collector.Discovery{{Account: s.acct, Exclude: []string{"*"}}},
			Owns: func(string, string) bool { return !away.Load() },
		})
		time.Sleep(time.Second)
		away.Store(true)
		c.Reselect()
		time.Sleep(4 * time.Minute)
		polls := func() (n int) {
			for op, times := range s.Counts() {
				if op.Queue == "orders" {
					n += times
				}
			}
			return n
		}
		if n := polls(); n != 1 {
			t.Errorf("%d requests, want the one that was running when the queue was given away", n)
		}
		s.RemoveFaults()
		away.Store(false)
		c.Reselect()
		time.Sleep(time.Second)
		if got := c.Queue("acct", "orders"); len(got) != 1 || got[0].Up != collector.Yes {
			t.Errorf("taken back: %+v", got)
		}
	})
}

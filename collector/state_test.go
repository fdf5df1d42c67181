package collector_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// C1: what is visible and what is hidden, exactly or as a floor.
func TestVisibleAndHidden(t *testing.T) {
	t.Parallel()
	type numbers struct {
		Visible           int64
		Saturated, OK     bool
		Hidden            int64
		Floor, HiddenOK   bool
		Known, CountKnown bool
	}
	for name, tt := range map[string]struct {
		held    int
		prepare func(*testing.T, *storage, *queue.Queue)
		want    numbers
	}{
		"an empty queue": {
			prepare: func(*testing.T, *storage, *queue.Queue) {},
			want:    numbers{OK: true, HiddenOK: true},
		},
		"a peek that is not full is exact, whatever we hold": {
			held: 20,
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) {
				send(t, q, 30, queue.SendOptions{})
				lease(t, q, 8, time.Hour)
			},
			want: numbers{Visible: 22, OK: true, Hidden: 8, HiddenOK: true},
		},
		"a full peek and nothing known to be hidden": {
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) { send(t, q, 100, queue.SendOptions{}) },
			want:    numbers{Visible: 100, Saturated: true, OK: true, Floor: true, HiddenOK: true},
		},
		"a full peek less what we hold ourselves": {
			held:    12,
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) { send(t, q, 100, queue.SendOptions{}) },
			want:    numbers{Visible: 88, Saturated: true, OK: true, Hidden: 12, Floor: true, HiddenOK: true},
		},
		"a full peek less what a fresh one that was not full showed to be hidden": {
			held: 3,
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) {
				send(t, q, 7, queue.SendOptions{Delay: time.Hour})
				time.Sleep(2 * time.Minute) // polled
				send(t, q, 100, queue.SendOptions{})
			},
			want: numbers{Visible: 100, Saturated: true, OK: true, Hidden: 7, Floor: true, HiddenOK: true},
		},
		"a full peek long after one that was not": {
			held: 3,
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) {
				send(t, q, 7, queue.SendOptions{Delay: time.Hour})
				time.Sleep(2 * time.Minute)
				send(t, q, 100, queue.SendOptions{})
				time.Sleep(5 * time.Minute)
			},
			want: numbers{Visible: 104, Saturated: true, OK: true, Hidden: 3, Floor: true, HiddenOK: true},
		},
		"no fewer are visible than were seen": {
			held:    1000,
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) { send(t, q, 40, queue.SendOptions{}) },
			want:    numbers{Visible: 32, Saturated: true, OK: true, Hidden: 8, Floor: true, HiddenOK: true},
		},
		"without a peek nothing is known": {
			prepare: func(t *testing.T, s *storage, q *queue.Queue) {
				send(t, q, 5, queue.SendOptions{})
				s.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403})
			},
			want: numbers{},
		},
		"without the queue nothing is known": {
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) {
				if err := q.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			want: numbers{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				q := create(t, s.acct, "orders")
				c := run(t, collector.Config{Targets: []collector.Target{{Queue: q, Held: func() int { return tt.held }}}})
				time.Sleep(time.Second)
				tt.prepare(t, s, q)
				time.Sleep(time.Minute)
				states := c.Queue("acct", "orders")
				if len(states) != 2 || states[0].Kind != collector.KindMain || states[1].Kind != collector.KindPoison {
					t.Fatalf("the states of main and poison are %+v", states)
				}
				var got numbers
				got.Visible, got.Saturated, got.OK = states[0].Visible()
				got.Hidden, got.Floor, got.HiddenOK = states[0].Hidden()
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("numbers (-want +got):\n%s", diff)
				}
				if states[1].Held != 0 || states[0].Held != tt.held {
					t.Errorf("held: main %d, poison %d; want %d and none", states[0].Held, states[1].Held, tt.held)
				}
			})
		})
	}
}

func TestSnapshotTellsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		send(t, q, 2, queue.SendOptions{TimeToLive: time.Hour})
		target := collector.Target{
			Queue: q, Mode: collector.ModeConsume, Team: "payments", Tier: 1, Objective: 5 * time.Minute, ObjectiveRatio: 0.99,
			HandlerTimeLimit: 10 * time.Minute, MonitorOnly: true, Held: func() int { return 1 },
		}
		c := run(t, collector.Config{Targets: []collector.Target{target}})
		start := time.Now()
		before := c.Snapshot()
		time.Sleep(30 * time.Second)
		if got := before.Queues[0]; got.Up != 0 || got.Exists != 0 || got.Count.Known || got.Peek.Known || !got.LastPoll.IsZero() || got.Polls != 0 {
			t.Errorf("before the first poll the snapshot says %+v", got)
		}
		snap := c.Snapshot()
		if len(snap.Queues) != 2 || !snap.At.Equal(time.Now()) {
			t.Fatalf("the snapshot has %d queues at %v", len(snap.Queues), snap.At)
		}
		got := snap.Queues[0]
		want := collector.QueueState{
			Account: "acct", StorageAccount: queuetest.AccountName, Queue: "orders", Kind: collector.KindMain,
			PhysicalName: "orders", PoisonQueue: "orders-poison", Mode: collector.ModeConsume, Team: "payments", Tier: 1,
			Objective: 5 * time.Minute, ObjectiveRatio: 0.99, HandlerTimeLimit: 10 * time.Minute, MonitorOnly: true,
			Interval: time.Minute, StaleAfter: 3 * time.Minute, Polls: got.Polls, LastPoll: got.LastPoll, LastSuccess: got.LastPoll,
			Up: collector.Yes, Exists: collector.Yes, Held: 1, Status: collector.StatusUnknown,
			Count: collector.Count{Known: true, Messages: 2, At: got.Count.At},
			Peek: collector.Peek{
				Known: true, At: got.Peek.At, Visible: 2, OldestAge: got.Peek.OldestAge, NextExpiration: start.Add(time.Hour).UTC(),
			},
		}
		if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
			f, ok := p.Last().(cmp.StructField)
			return ok && slices.Contains([]string{"partial", "partialKnown", "history", "Rule", "Since", "HeadUnchanged"}, f.Name())
		}, cmp.Ignore())); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
		if a := got.Count.Age(snap.At); a < 0 || a > 30*time.Second || got.Peek.Age(snap.At) != a {
			t.Errorf("the numbers are %v and %v old", a, got.Peek.Age(snap.At))
		}
		if p := snap.Queues[1]; p.Kind != collector.KindPoison || p.Queue != "orders" || p.PhysicalName != "orders-poison" {
			t.Errorf("the poison queue is %+v", p)
		}
		if got := c.Queue("acct", "nobody"); got != nil {
			t.Errorf("a queue that is not watched is %+v", got)
		}
		if before.Queues[0].Up != 0 {
			t.Error("an old snapshot changed")
		}
	})
}

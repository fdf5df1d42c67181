package triage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// rig is a queue service with the queues orders and bills, which share a poison queue without anybody's
// configuration saying so.
type rig struct {
	*testing.T
	service      *queuetest.Server
	orders, bill *queue.Queue
}

func onRig(t *testing.T, run func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, service: queuetest.New(queuetest.Options{})}
		account, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(r.service.ConnectionString()), Transport: r.service})
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		open := func(name string) *queue.Queue {
			q, err := account.Queue(name, queue.Config{CreateIfMissing: true, PoisonQueue: "dead"})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		r.orders, r.bill = open("orders"), open("bills")
		run(r)
	})
}

func (r *rig) poison(q *queue.Queue, n int) {
	r.Helper()
	for i := range n {
		if _, err := q.SendText(r.Context(), fmt.Sprintf("%s %d", q.Name(), i), queue.SendOptions{}); err != nil {
			r.Fatal(err)
		}
		ms, err := q.Receive(r.Context(), 1, 30*time.Second)
		if err != nil || len(ms) != 1 {
			r.Fatalf("received %d, %v", len(ms), err)
		}
		if err := poison.Move(r.Context(), ms[0], poison.CategoryHandler, "no such article"); err != nil {
			r.Fatal(err)
		}
	}
}

// run carries a command out on orders and returns its result.
func (r *rig) run(c triage.Command, hooks triage.Hooks) (poison.Result, error) {
	r.Helper()
	var res poison.Result
	err := triage.Run(r.Context(), triage.Queue{Queue: r.orders}, c, hooks, func(e triage.Event) error {
		if e.Result != nil {
			res = *e.Result
		}
		return nil
	})
	return res, err
}

// left are how many messages of each queue are on the poison queue.
func (r *rig) left() map[string]int {
	r.Helper()
	n := map[string]int{}
	for _, q := range []*queue.Queue{r.orders, r.bill} {
		l, err := poison.Walk(r.Context(), q, poison.WalkOptions{}, func(*poison.Entry) error { n[q.Name()]++; return nil })
		if err != nil {
			r.Fatal(err, l)
		}
	}
	return n
}

// A purge takes nothing that is another queue's, however deep that lies, and nothing that it did not see.
func TestPurgeTakesOnlyWhatBelongs(t *testing.T) {
	for name, tc := range map[string]struct {
		orders, bills, later int
	}{
		"alone and shallow":                     {orders: 3},
		"alone and deep":                        {orders: 70},
		"another queue's among the first":       {orders: 3, bills: 2},
		"another queue's behind the first 32":   {orders: 40, bills: 5},
		"another queue's arrives meanwhile":     {orders: 3, later: 1},
		"another queue's arrives, and are deep": {orders: 40, bills: 1, later: 2},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.poison(r.orders, tc.orders)
				r.poison(r.bill, tc.bills)
				arrive := tc.later
				res, err := r.run(triage.Command{Operation: triage.Purge}, triage.Hooks{Deleted: func(context.Context, *poison.Entry) {
					r.poison(r.bill, arrive)
					arrive = 0
				}})
				if err != nil || res.Done != tc.orders || res.Left != 0 {
					t.Errorf("%+v, %v", res, err)
				}
				if got := r.left(); got["orders"] != 0 || got["bills"] != tc.bills+tc.later {
					t.Errorf("left: %v", got)
				}
				if arrive != 0 {
					t.Error("nobody heard of what was deleted")
				}
			})
		})
	}
}

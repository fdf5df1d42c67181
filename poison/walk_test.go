package poison_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// D4.
func TestWalkSeesEverythingOnceAndGivesItBackInOrder(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint(i))
		}
		f.poison(want...)
		var got []string
		l, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{}, func(e *poison.Entry) error {
			got = append(got, string(e.Message().Body))
			return nil
		})
		if err != nil || l.Peeked != 100 || l.Total != 100 || l.Partial || l.Unseen != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		var again []string
		_, err = poison.Walk(f.ctx, f.q, poison.WalkOptions{}, func(e *poison.Entry) error {
			again = append(again, string(e.Message().Body))
			if n := e.Message().DequeueCount; n != 2 {
				t.Errorf("delivery %d", n)
			}
			return nil
		})
		if d := cmp.Diff(want, again); d != "" || err != nil {
			t.Error("released in another order", d, err)
		}
	})
}

func TestWalkHoldsNothingWhenItEnds(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for i := range 70 {
			f.poison(fmt.Sprint(i))
		}
		broken := errors.New("broken")
		for name, visit := range map[string]func(cancel func()) error{
			"the context ends":  func(cancel func()) error { cancel(); return nil },
			"the visitor fails": func(func()) error { return broken },
		} {
			ctx, cancel := context.WithCancel(f.ctx)
			n := 0
			l, err := poison.Walk(ctx, f.q, poison.WalkOptions{}, func(*poison.Entry) error {
				if n++; n == 40 {
					return visit(cancel)
				}
				return nil
			})
			if err == nil || !l.Partial {
				t.Errorf("%s: %+v, %v", name, l, err)
			}
			for _, m := range f.poisoned() {
				if !m.Visible {
					t.Fatalf("%s: %s is hidden", name, m.ID)
				}
			}
			cancel()
		}
		_, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{Max: 50}, func(*poison.Entry) error { return nil })
		if !errors.Is(err, poison.ErrTooDeep) {
			t.Errorf("error %v", err)
		}
	})
}

func TestDeleteRemovesWhatIsChosen(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.poison("a", "b", "c")
		id := f.list().Entries[1].MessageID
		r, err := poison.Delete(f.ctx, f.q, poison.DeleteOptions{Selection: poison.Selection{Filter: poison.Filter{IDs: []string{id}}}})
		if err != nil || r.Done != 1 || len(f.poisoned()) != 2 || len(f.texts("orders")) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = poison.Delete(f.ctx, f.q, poison.DeleteOptions{Selection: poison.Selection{All: true}})
		if err != nil || r.Done != 2 || len(f.poisoned()) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// hide receives messages of the poison queue and forgets them, as a process does that is killed.
func (f *fixture) hide(n int, lease time.Duration) {
	f.Helper()
	if ms, err := f.q.Poison().Receive(f.ctx, n, lease); err != nil || len(ms) != n {
		f.Fatalf("received %d, %v", len(ms), err)
	}
}

// What a killed run hid comes back behind everything that was released meanwhile, on a queue of any depth.
func TestRunAfterAKillFinishesADeepPoisonQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		lease    time.Duration
		patience time.Duration
		unseen   int64
	}{
		"hidden for a lease":                   {poison.MaxLease, 0, 0},
		"hidden for an hour":                   {time.Hour, 0, 32},
		"hidden for a lease, without patience": {poison.MaxLease, -1, 32},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				for i := range 100 {
					f.poison(fmt.Sprint(i))
				}
				f.hide(queue.MaxReceive, tc.lease)
				var waiting int64
				s := poison.Selection{All: true, Patience: tc.patience, Waiting: func(n int64) { waiting = n }}
				dry := f.replay(poison.ReplayOptions{Selection: s, DryRun: true})
				want := 100 - int(tc.unseen)
				if dry.Chosen != want || dry.Unseen != tc.unseen || waiting != 32 && tc.patience == 0 {
					t.Errorf("dry run: %+v, waited for %d", dry, waiting)
				}
				if tc.unseen == 0 {
					f.hide(queue.MaxReceive, tc.lease) // it took that long
				}
				r := f.replay(poison.ReplayOptions{Selection: s})
				if r.Done != want || r.Unseen != tc.unseen || r.Left != 0 || len(f.texts("orders")) != want || len(f.poisoned()) != int(tc.unseen) {
					t.Errorf("%+v, %d on the poison queue", r, len(f.poisoned()))
				}
			})
		})
	}
}

// An export that is imported at once does not feed itself.
func TestWalkThatFeedsItsQueueEnds(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		if err := f.q.Poison().Create(f.ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if _, err := f.q.Poison().SendText(f.ctx, fmt.Sprint(i), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		n, began := 0, time.Now()
		_, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{}, func(e *poison.Entry) error {
			if later := e.InsertedAt.Sub(began); later > 3*time.Second {
				return fmt.Errorf("it visits what was put there %v after it began", later)
			}
			n++
			time.Sleep(200 * time.Millisecond)
			var errs []error
			for range 3 {
				_, err := f.q.Poison().SendText(f.ctx, string(e.Message().Body), queue.SendOptions{})
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
		if err != nil || n < 40 {
			t.Errorf("%d visited, %v", n, err)
		}
	})
}

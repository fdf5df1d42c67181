package poison_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

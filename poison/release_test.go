package poison_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A walk that cannot give back what it took ends there, soon, and says so: going on, it would hide the whole queue.
func TestAWalkThatCannotGiveBackEnds(t *testing.T) {
	limit := errors.New("the visitor's")
	for name, fault := range map[string]queuetest.Fault{
		"a signature without update": {Operation: queuetest.OpUpdate, Status: 403, Code: "AuthorizationFailure"},
		"the service is busy":        {Operation: queuetest.OpUpdate, Status: 503, Code: "ServerBusy"},
		"one of many fails":          {Operation: queuetest.OpUpdate, Status: 403, Code: "AuthorizationFailure", Skip: 5, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for what, walk := range map[string]func(*fixture) error{
				"a walk": func(f *fixture) error {
					l, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{Lease: 10 * time.Second}, func(*poison.Entry) error { return nil })
					if !l.Partial || l.Peeked != queue.MaxReceive {
						t.Errorf("%s: %+v", name, l)
					}
					return err
				},
				"a visitor that fails": func(f *fixture) error {
					n := 0
					_, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{Lease: 10 * time.Second}, func(*poison.Entry) error {
						if n++; n == 20 {
							return limit
						}
						return nil
					})
					if !errors.Is(err, limit) {
						t.Errorf("error %v", err)
					}
					return err
				},
				"a replay": func(f *fixture) error {
					_, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{DryRun: true, Selection: poison.Selection{All: true, Walk: poison.WalkOptions{Lease: 10 * time.Second}}})
					return err
				},
			} {
				each(t, queue.Config{}, func(f *fixture) {
					f.lay("x", 100)
					defer f.srv.Inject(fault)()
					began := time.Now()
					err := walk(f)
					if !errors.Is(err, poison.ErrNotReleased) || !strings.Contains(err.Error(), "stay hidden until their lease of 10s ends: ") {
						t.Errorf("%s: error %v", what, err)
					}
					if took := time.Since(began); took > 9*time.Second {
						t.Errorf("%s took %v", what, took)
					}
					hidden := 0
					for _, m := range f.poisoned() {
						if !m.Visible {
							hidden++
						}
					}
					if hidden > queue.MaxReceive || fault.Times == 1 && hidden != 1 {
						t.Errorf("%s: %d are hidden", what, hidden)
					}
					if want := fmt.Sprintf("given back: %d of them", hidden); hidden > 0 && err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %d are hidden: %v", what, hidden, err)
					}
				})
			}
		})
	}
}

// What somebody else took meanwhile, and a queue that is gone, keep a walk from nothing.
func TestAWalkNeedNotGiveBackWhatIsNotItsOwn(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.lay("x", 40)
		n := 0
		l, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{Lease: time.Second}, func(*poison.Entry) error {
			if n++; n == 1 {
				time.Sleep(2 * time.Second)
				f.hide(10, time.Minute)
			}
			return nil
		})
		if err != nil || n == 0 {
			t.Errorf("%+v, %v", l, err)
		}
		time.Sleep(time.Minute)
		gone := sync.OnceValue(func() error { return f.q.Poison().Delete(f.ctx) })
		if _, err = poison.Walk(f.ctx, f.q, poison.WalkOptions{}, func(*poison.Entry) error { return gone() }); err != nil {
			t.Errorf("of a queue that is gone: %v", err)
		}
	})
}

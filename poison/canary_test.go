package poison_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

func TestCanary(t *testing.T) {
	for name, tc := range map[string]struct {
		handle  func(f *fixture, m *queue.Message) error // of the canaries; nil: nobody does
		outcome poison.CanaryOutcome
		done    int
		ids     int
		waiting int // on the queue before them
	}{
		"they are handled": {func(f *fixture, m *queue.Message) error { return m.Complete(f.ctx) }, poison.CanaryPassed, 6, 0, 0},
		"they fail again": {func(f *fixture, m *queue.Message) error {
			return poison.Move(f.ctx, m, poison.CategoryHandler, "again")
		}, poison.CanaryFailed, 2, 1, 0},
		"they fail again, with a bare copy": {func(f *fixture, m *queue.Message) error {
			if _, err := f.q.Poison().SendText(f.ctx, m.Text, queue.SendOptions{}); err != nil {
				return err
			}
			return m.Complete(f.ctx)
		}, poison.CanaryFailed, 2, 1, 0},
		"nobody handles them":         {nil, poison.CanaryUnhandled, 2, 0, 0},
		"a backlog is before them":    {nil, poison.CanaryUnhandled, 2, 0, 40},
		"they are retried for longer": {func(f *fixture, m *queue.Message) error { return m.Abandon(f.ctx, time.Hour) }, poison.CanaryPassed, 6, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				f.poison("0", "1", "2", "3", "4", "5")
				for range tc.waiting {
					if _, err := f.q.Send(f.ctx, "waiting", queue.SendOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				handler := func(context.Context, poison.Replayed) {}
				if tc.handle != nil {
					handler = func(ctx context.Context, s poison.Replayed) {
						ms, err := f.q.Receive(ctx, 1, 0)
						if err != nil || len(ms) == 0 {
							return
						}
						if err := tc.handle(f, ms[0]); err != nil {
							t.Error(err)
						}
					}
				}
				r, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{Canary: 2, Sent: handler})
				if wantErr := tc.outcome != poison.CanaryPassed; wantErr != errors.Is(err, poison.ErrCanary) {
					t.Errorf("error %v", err)
				}
				if r.Canary == nil || r.Canary.Outcome != tc.outcome || r.Canary.Messages != 2 || r.Done != tc.done || min(1, len(r.Canary.Failed)) != tc.ids {
					t.Errorf("%+v, canary %+v", r, r.Canary)
				}
			})
		})
	}
}

// answer has a replay's messages handled as soon as they are sent.
func (f *fixture) answer(handle func(*queue.Message) error) func(context.Context, poison.Replayed) {
	return func(ctx context.Context, _ poison.Replayed) {
		ms, err := f.q.Receive(ctx, 1, 0)
		if err != nil || len(ms) != 1 {
			f.Errorf("received %d, %v", len(ms), err)
			return
		}
		if err := handle(ms[0]); err != nil {
			f.Error(err)
		}
	}
}

// Behind 32 others nobody sees the canaries that failed: the count tells, taken before the first was sent.
func TestCanariesThatFailAtOnceOnADeepPoisonQueue(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for i := range 100 {
			f.poison(fmt.Sprint(i))
		}
		r, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{
			Selection: poison.Selection{All: true}, Canary: 5,
			Sent: f.answer(func(m *queue.Message) error { return poison.Move(f.ctx, m, poison.CategoryHandler, "again") }),
		})
		if !errors.Is(err, poison.ErrCanary) || r.Canary.Outcome != poison.CanaryFailed || r.Done != 5 || r.Canary.Grown != 5 {
			t.Errorf("%+v, canary %+v, %v", r, r.Canary, err)
		}
	})
}

// Bare copies may hold the same text: those that were there before are no canaries that failed.
func TestCanariesAmongBareCopiesOfTheSameText(t *testing.T) {
	for name, tc := range map[string]struct {
		fail    int
		outcome poison.CanaryOutcome
		done    int
	}{
		"all are handled": {0, poison.CanaryPassed, 6},
		"one fails":       {1, poison.CanaryFailed, 3},
		"all fail":        {3, poison.CanaryFailed, 3},
	} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all %v", name, all), func(t *testing.T) {
				each(t, queue.Config{}, func(f *fixture) {
					if err := errors.Join(f.q.Create(f.ctx), f.q.Poison().Create(f.ctx)); err != nil {
						t.Fatal(err)
					}
					bare := func(text string) error {
						_, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{})
						return err
					}
					for range 6 {
						if err := bare("same"); err != nil {
							t.Fatal(err)
						}
					}
					n := 0
					r, err := poison.Replay(f.ctx, f.q, poison.ReplayOptions{
						Selection: poison.Selection{All: all}, Canary: 3,
						Sent: f.answer(func(m *queue.Message) error {
							if n++; n <= tc.fail {
								if err := bare(m.Text); err != nil {
									return err
								}
							}
							return m.Complete(f.ctx)
						}),
					})
					if (tc.fail > 0) != errors.Is(err, poison.ErrCanary) || r.Canary.Outcome != tc.outcome || r.Done != tc.done || len(r.Canary.Failed) != tc.fail {
						t.Errorf("%+v, canary %+v, %v", r, r.Canary, err)
					}
					seen := map[string]bool{}
					for _, id := range r.Canary.Failed {
						if seen[id] {
							t.Errorf("%s is named twice", id)
						}
						seen[id] = true
					}
				})
			})
		}
	}
}

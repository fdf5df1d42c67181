package poison_test

import (
	"context"
	"errors"
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

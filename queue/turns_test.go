package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestACallWaitsForItsTurnNoLongerThanItsContext(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.send("x", queue.SendOptions{})
		m := f.one(time.Minute)
		f.inject(queue.OpDelete, queuetest.Fault{Delay: 5 * time.Second, Times: 1})
		done := make(chan error, 1)
		go func() { done <- m.Complete(f.ctx) }()
		time.Sleep(time.Second)

		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		began := time.Now()
		if err := m.Renew(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("renew gave up after %v with %v", time.Since(began), err)
		}
		if err := m.Renew(f.ctx, time.Minute); !errors.Is(err, queue.ErrSettled) || time.Since(began) != 4*time.Second {
			t.Errorf("renew had its turn after %v with %v", time.Since(began), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := f.requests(queue.OpUpdate); n != 0 {
			t.Errorf("%d updates", n)
		}
	})
}

// A delete was done, its call ended without knowing; what comes next finds the message gone.
func TestADeleteInDoubtIsDoneOnceTheMessageIsGone(t *testing.T) {
	next := map[string]struct {
		call func(context.Context, *queue.Message) error
		want error
	}{
		"by another delete": {func(ctx context.Context, m *queue.Message) error { return m.Complete(ctx) }, nil},
		"by a renewal":      {func(ctx context.Context, m *queue.Message) error { return m.Renew(ctx, time.Minute) }, queue.ErrSettled},
	}
	for name, next := range next {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				f.send("x", queue.SendOptions{})
				m := f.one(10 * time.Minute)
				f.inject(queue.OpDelete, queuetest.Fault{DropResponse: true, Times: 1})
				f.inject(queue.OpDelete, queuetest.Fault{Hang: true, Times: 3})
				if err := m.Complete(f.ctx); err == nil || m.Settlement() != queue.Unsettled {
					t.Fatalf("complete: %v, %v", err, m.Settlement())
				}
				if err := next.call(f.ctx, m); !errors.Is(err, next.want) {
					t.Errorf("then: %v, want %v", err, next.want)
				}
				if m.Settlement() != queue.Completed || !m.AmbiguousDelete() {
					t.Errorf("%v, ambiguous %v", m.Settlement(), m.AmbiguousDelete())
				}
			})
		})
	}
}

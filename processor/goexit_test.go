package processor_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A hook that ends its goroutine has the message settled once, as one that panics does.
func TestAHookThatEndsItsGoroutine(t *testing.T) {
	for name, h := range map[string]processor.HandlerFunc{
		"failing at last": fail,
		"permanently":     func(context.Context, *processor.Message) error { return processor.Permanent(errBroken) },
		"by the handler":  func(ctx context.Context, m *processor.Message) error { return m.DeadLetter(ctx, "said so") },
		"recovering": func(ctx context.Context, m *processor.Message) error {
			if m.Attempt() == 2 {
				return m.DeadLetter(ctx, "said so")
			}
			return errBroken
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var keys atomic.Int32
				r.send("m")
				r.runFor(time.Minute, fast(processor.Config{
					MaxDequeueCount: 2, Failures: &hook{r: r, wrong: runtime.Goexit},
					BusinessKey: func(*processor.Message) (string, error) { keys.Add(1); runtime.Goexit(); panic(0) },
				}), r.handle(h))
				r.left(0, 1)
				if n := keys.Load(); n != 1 {
					t.Errorf("asked %d times for the key", n)
				}
				if l := r.logs.find("failure hook did not return"); len(l) == 0 || l[0]["error"] != "handler called runtime.Goexit" {
					t.Errorf("logged as %v", l)
				}
			})
		})
	}
}

// One that does not return is left behind when its time is over.
func TestAHookThatDoesNotReturn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		over := make(chan struct{})
		wait := func() { <-over }
		r.send("m")
		r.runFor(time.Minute, processor.Config{
			MaxDequeueCount: 1, Failures: &hook{r: r, wrong: wait},
			BusinessKey: func(*processor.Message) (string, error) { wait(); return "late", nil },
		}, r.handle(fail))
		r.left(0, 1)
		if key := r.poisoned()[0].BusinessKey; key != "" {
			t.Errorf("business key %q", key)
		}
		if l := r.logged("failure hook did not return", 1)[0]; l["error"] != "context deadline exceeded" {
			t.Errorf("logged as %v", l)
		}
		close(over)
	})
}

// exits is a log handler that ends the goroutine of whoever logs about a message.
type exits struct {
	slog.Handler
	armed bool
}

func (h exits) Handle(ctx context.Context, rec slog.Record) error {
	if h.armed {
		runtime.Goexit()
	}
	return h.Handler.Handle(ctx, rec)
}

func (h exits) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.armed = h.armed || a.Key == "message_id"
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// Whatever else ends the goroutine does not have a message settled, or copied, without end.
func TestALoggerThatEndsTheGoroutine(t *testing.T) {
	for name, cfg := range map[string]processor.Config{"after the handler": {MaxDequeueCount: 1}, "before it": {MaxAge: time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				time.Sleep(5 * time.Second)
				cfg.Logger = slog.New(exits{Handler: r.logger.Handler()})
				r.runFor(time.Minute, cfg, r.handle(fail))
				if n := r.srv.Len(queuetest.AccountName, "orders-poison"); n < 1 || n > 4 {
					t.Errorf("%d copies", n)
				}
			})
		})
	}
}

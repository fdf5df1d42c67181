package processor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// through notes when it is entered and left.
func through(trail *[]string, name string) processor.Middleware {
	return func(next processor.Handler) processor.Handler {
		return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
			*trail = append(*trail, name+" in")
			err := next.Handle(ctx, m)
			*trail = append(*trail, name+" out")
			return err
		})
	}
}

// instead does not call the handler.
func instead(f func(context.Context, *processor.Message) error) processor.Middleware {
	return func(processor.Handler) processor.Handler { return processor.HandlerFunc(f) }
}

func TestMiddlewareRunsInItsOrder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var trail []string
		r.send(order{ID: "a"})
		r.runFor(time.Second, processor.Config{Middleware: []processor.Middleware{through(&trail, "one"), through(&trail, "two")}},
			processor.Typed(func(_ context.Context, job *processor.Job[order]) error {
				trail = append(trail, "handler "+job.Value.ID)
				return nil
			}))
		want := []string{"one in", "two in", "handler a", "two out", "one out"}
		if diff := cmp.Diff(want, trail); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.left(0, 0)
	})
}

// What a middleware returns is the handler's result.
func TestWhatMiddlewareReturnsCounts(t *testing.T) {
	tests := map[string]struct {
		middleware processor.Middleware
		main       int
		poison     int
		category   string
		counted    map[string]float64
	}{
		"the handler is not called": {
			middleware: instead(succeed),
			counted:    map[string]float64{"queue_messages_processed_total": 1, "queue_messages_failed_total": 0, "queue_message_processing_duration_seconds{queue_outcome=completed}": 1},
		},
		"an error of its own": {
			middleware: instead(fail), poison: 1, category: "max_dequeue",
			counted: map[string]float64{"queue_messages_failed_total": 2, "queue_message_retries_total{category=handler}": 1},
		},
		"the policy's rule": {
			middleware: instead(func(context.Context, *processor.Message) error { return OutOfStockError{"tea"} }), poison: 1, category: "handler",
			counted: map[string]float64{"queue_messages_failed_total": 1},
		},
		"a wish": {
			middleware: instead(func(context.Context, *processor.Message) error { return processor.RetryAfter(time.Hour, errBroken) }), main: 1,
			counted: map[string]float64{"queue_messages_failed_total": 1},
		},
		"a panic": {
			middleware: instead(func(context.Context, *processor.Message) error { panic("in the middle") }), poison: 1, category: "max_dequeue",
			counted: map[string]float64{"queue_messages_failed_total": 2, "queue_message_retries_total{category=panic}": 1},
		},
		"an error turned into success": {
			middleware: func(next processor.Handler) processor.Handler {
				return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
					if err := next.Handle(ctx, m); !errors.Is(err, errBroken) {
						return err
					}
					return nil
				})
			},
			counted: map[string]float64{"queue_messages_processed_total": 1, "queue_messages_failed_total": 0},
		},
		"settled by it": {
			middleware: instead(func(ctx context.Context, m *processor.Message) error { return m.DeadLetter(ctx, "said so") }), poison: 1, category: "handler",
			counted: map[string]float64{"queue_messages_failed_total": 0},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.runFor(4*time.Minute, processor.Config{
					MaxDequeueCount: 2, Middleware: []processor.Middleware{tt.middleware},
					Policy: processor.ErrorPolicy{DeadLetter: []func(error) bool{processor.DeadLetterOn[OutOfStockError]()}},
				}, r.handle(fail))
				r.left(tt.main, tt.poison)
				if tt.poison > 0 {
					if rec := r.poisoned()[0]; rec.Category != tt.category {
						t.Errorf("record %+v", rec)
					}
				}
				r.counted(tt.counted)
			})
		})
	}
}

// The lease is lost, and the middleware's context says so; drain cancels it.
func TestMiddlewareGetsTheHandlersContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var cause error
		r.send("m")
		run := r.start(processor.Config{DrainTimeout: processor.Off, Middleware: []processor.Middleware{instead(func(ctx context.Context, _ *processor.Message) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		})}}, r.handle(succeed))
		time.Sleep(3 * time.Minute)
		if n := r.metric("queue_lease_renewals_total"); n < 5 {
			t.Errorf("%v renewals while the middleware runs", n)
		}
		r.end(run)
		if !errors.Is(cause, processor.ErrDraining) {
			t.Errorf("cause %v", cause)
		}
		r.left(1, 0)
		r.counted(map[string]float64{"queue_shutdown_released_messages_total": 1})
	})
}

func TestUnreadableBodiesDoNotReachMiddleware(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var trail []string
		r.send("not an order")
		r.runFor(time.Second, processor.Config{Middleware: []processor.Middleware{through(&trail, "one")}},
			processor.Typed(func(context.Context, *processor.Job[order]) error { return nil }))
		if len(trail) > 0 {
			t.Errorf("trail %v", trail)
		}
		r.left(0, 1)
	})
}

func TestMiddlewareMustBeThere(t *testing.T) {
	r := newRig(t, queue.Config{})
	for want, m := range map[string]processor.Middleware{
		"middleware 0 is nil":                 nil,
		"a middleware returned a nil handler": func(processor.Handler) processor.Handler { return nil },
	} {
		if _, err := processor.New(r.q, processor.HandlerFunc(succeed), processor.Config{Middleware: []processor.Middleware{m}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

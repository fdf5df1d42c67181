package processor_test

import (
	"context"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestABurstOfBadMessagesDoesNotOpenIt(t *testing.T) {
	storms := map[string]func(i int) bool{
		"every other one":     func(i int) bool { return i%2 == 0 },
		"nine out of ten":     func(i int) bool { return i%10 != 0 },
		"eighty in a row":     func(i int) bool { return i >= 60 && i < 140 },
		"at the queue's head": func(i int) bool { return i < 80 },
	}
	errs := map[string]error{"plain": errBroken, "network": errAway, "permanent": processor.Permanent(errBroken), "panic": nil}
	for name, bad := range storms {
		for kind, err := range errs {
			t.Run(name+", "+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					poison := 0
					for i := range 200 {
						if bad(i) {
							r.send("bad")
							poison++
						} else {
							r.send("good")
						}
					}
					run := r.start(processor.Config{Concurrency: 2}, r.handle(func(_ context.Context, m *processor.Message) error {
						time.Sleep(20 * time.Millisecond)
						if string(m.Body) == "good" {
							return nil
						}
						if err == nil {
							panic("bad message")
						}
						return err
					}))
					for range 30 { // good ones keep coming
						time.Sleep(5 * time.Second)
						r.send("good")
					}
					time.Sleep(10 * time.Minute)
					r.end(run)
					r.logged(opened, 0)
					r.left(0, poison)
				})
			})
		}
	}
}

func TestPermanentFailuresDoNotOpenIt(t *testing.T) {
	for name, h := range map[string]processor.Handler{
		"permanent":   processor.HandlerFunc(func(context.Context, *processor.Message) error { return processor.Permanent(errBroken) }),
		"unreadable":  processor.Typed(func(context.Context, *processor.Job[struct{ N int }]) error { return nil }),
		"done before": processor.HandlerFunc(func(context.Context, *processor.Message) error { return processor.Discard(errBroken) }),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fill(100)
				r.runFor(time.Minute, processor.Config{Breaker: processor.BreakerConfig{After: processor.Off}}, h)
				r.logged(opened, 0)
				if n := r.srv.Len(queuetest.AccountName, "orders"); n != 0 {
					t.Errorf("%d messages left", n)
				}
			})
		})
	}
}

// A handler that settles by itself can fail as a whole too.
func TestABreakerForHandlersThatSettle(t *testing.T) {
	ways := map[string]processor.HandlerFunc{
		"leaving the message": fail,
		"giving it back": func(ctx context.Context, m *processor.Message) error {
			if err := m.Abandon(ctx, 5*time.Second); err != nil {
				return err
			}
			return errBroken
		},
	}
	for name, h := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fill(30)
				run := r.start(processor.Config{ManualSettle: true}, r.handle(h))
				time.Sleep(2 * time.Minute)
				if !run.Status().BreakerOpen {
					t.Error("the breaker is closed")
				}
				if n := r.calls.count(); n > 2000 {
					t.Errorf("%d deliveries", n)
				}
				r.end(run)
				r.left(30, 0)
			})
		})
	}
	t.Run("giving it back without a failure", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.fill(30)
			r.runFor(2*time.Minute, processor.Config{ManualSettle: true, MaxDequeueCount: 100}, r.handle(func(ctx context.Context, m *processor.Message) error {
				return m.Abandon(ctx, 5*time.Second)
			}))
			r.logged(opened, 0)
		})
	})
}

// Leases that lapse, and handlers that are cancelled for it, are storage's trouble.
func TestHandlersCutShortDoNotOpenIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(20)
		r.runFor(5*time.Minute, processor.Config{NoRenew: true, VisibilityTimeout: 10 * time.Second, Concurrency: 4, MaxDequeueCount: 1000}, r.handle(func(ctx context.Context, _ *processor.Message) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		r.logged(opened, 0)
	})
}

// A delay that the handler asked for is kept, however soon the next probe is.
func TestAnOutageKeepsTheDelayAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(5)
		run := r.start(processor.Config{}, r.handle(func(context.Context, *processor.Message) error { return processor.Throttled(20*time.Minute, errBroken) }))
		time.Sleep(10 * time.Second)
		r.fill(5)
		time.Sleep(10 * time.Minute)
		if !run.Status().BreakerOpen {
			t.Error("the breaker is closed")
		}
		if n := r.calls.count(); n != 10 {
			t.Errorf("%d deliveries of 10 messages, want one each", n)
		}
		r.end(run)
	})
}

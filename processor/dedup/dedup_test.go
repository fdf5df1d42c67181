package dedup_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/queue"
)

func TestKeyIsHandledOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		var work counter
		h := dedup.Middleware(&dedup.Memory{}, dedup.Body(byOperation), dedup.Options{})(work.does(succeed))
		r.send(r.q, payment{secret, 100}, payment{secret, 100}, payment{secret + "-2", 5})
		r.run(r.q, time.Minute, processor.Config{Concurrency: 2}, h)
		work.is(t, 2)
		if n := r.left(r.q); n != 0 {
			t.Errorf("%d messages left", n)
		}
		r.counted(3, 1)
		r.secretive()
	})
}

func TestFailureLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, *processor.Message) error{
		"an error":    func(context.Context, *processor.Message) error { return errBroken },
		"a panic":     func(context.Context, *processor.Message) error { panic("the widget exploded") },
		"a wish":      func(context.Context, *processor.Message) error { return processor.RetryAfter(0, errBroken) },
		"an abandon":  func(ctx context.Context, m *processor.Message) error { return m.Abandon(ctx, 0) },
		"a discarded": func(context.Context, *processor.Message) error { return processor.Discard(errBroken) },
		"its own dead letter": func(ctx context.Context, m *processor.Message) error {
			return m.DeadLetter(ctx, "not mine")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, r *rig) {
				var work counter
				h := dedup.Middleware(&dedup.Memory{}, dedup.Header("operation"), dedup.Options{})(work.does(
					func(ctx context.Context, m *processor.Message, call int) error {
						if call == 1 {
							return fail(ctx, m)
						}
						return nil
					}))
				for range 2 {
					if _, err := r.q.Send(t.Context(), "x", queue.SendOptions{Headers: map[string]string{"operation": secret}}); err != nil {
						t.Fatal(err)
					}
				}
				r.run(r.q, 2*time.Minute, processor.Config{}, h)
				work.is(t, 2)
				if n := r.left(r.q); n != 0 {
					t.Errorf("%d messages left", n)
				}
				r.secretive()
			})
		})
	}
}

func TestUnfitKeysGoToPoison(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key      func(*processor.Message) (string, error)
		body     string
		category poison.Category
		reason   string
	}{
		"no header": {
			key: dedup.Header("operation"), body: "{}",
			category: poison.CategoryHandler, reason: "the message has no business key",
		},
		"an empty field": {
			key: dedup.Body(byOperation), body: "{}",
			category: poison.CategoryHandler, reason: "the message has no business key",
		},
		"a body that does not fit": {
			key: dedup.Body(byOperation), body: "[1]",
			category: poison.CategoryDeserialization, reason: "an array where dedup_test.payment is wanted",
		},
		"a body that is refused": {
			key: dedup.Body(byOperation), body: `{"Operation":"` + secret + `","Cents":-1}`,
			category: poison.CategoryHandler, reason: "negative amount",
		},
		"an error of the function": {
			key: func(*processor.Message) (string, error) { return "", errBroken }, body: "{}",
			category: poison.CategoryHandler, reason: "the widget is broken",
		},
		"too long": {
			key: func(*processor.Message) (string, error) { return strings.Repeat("k", 1025), nil }, body: "{}",
			category: poison.CategoryHandler, reason: "the business key has 1025 bytes, more than 1024",
		},
		"not UTF-8": {
			key: func(*processor.Message) (string, error) { return "k\xff", nil }, body: "{}",
			category: poison.CategoryHandler, reason: "the business key is not UTF-8",
		},
		"a NUL": {
			key: func(*processor.Message) (string, error) { return "k\x00", nil }, body: "{}",
			category: poison.CategoryHandler, reason: "the business key has a NUL in it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, r *rig) {
				var work counter
				h := dedup.Middleware(&dedup.Memory{}, tt.key, dedup.Options{})(work.does(succeed))
				if _, err := r.q.SendText(t.Context(), tt.body, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				r.run(r.q, time.Minute, processor.Config{}, h)
				work.is(t, 0)
				r.counted(0, 0)
				records := r.poisoned()
				if len(records) != 1 || records[0].Category != string(tt.category) || !strings.Contains(records[0].Reason, tt.reason) || records[0].DequeueCount != 1 {
					t.Errorf("poison records %+v", records)
				}
				r.secretive()
			})
		})
	}
}

func TestTypedHandlerGetsItsJob(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		var got []payment
		typed := processor.Typed(func(_ context.Context, job *processor.Job[payment]) error {
			got = append(got, job.Value)
			return nil
		})
		r.send(r.q, payment{secret, 7})
		r.run(r.q, time.Minute, processor.Config{}, dedup.Middleware(&dedup.Memory{}, dedup.Body(byOperation), dedup.Options{})(typed))
		if diff := cmp.Diff([]payment{{secret, 7}}, got); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
	})
}

func TestKeysOfTwoQueuesAreTwoUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scope string
		want  int
	}{
		"by default":       {"", 2},
		"in a scope alike": {"shop", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, r *rig) {
				var work counter
				h := dedup.Middleware(&dedup.Memory{}, dedup.Body(byOperation), dedup.Options{Scope: tt.scope})(work.does(succeed))
				for _, q := range []*queue.Queue{r.q, r.other} {
					r.send(q, payment{secret, 1})
					r.run(q, time.Minute, processor.Config{}, h)
				}
				work.is(t, tt.want)
			})
		})
	}
}

func TestResultOfAHitIsHandedOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		var work counter
		var told []string
		opts := dedup.Options{OnHit: func(_ context.Context, m *processor.Message, result []byte) error {
			told = append(told, fmt.Sprintf("%s on attempt %d", result, m.Attempt()))
			if m.Attempt() == 1 {
				return errBroken
			}
			return nil
		}}
		h := dedup.Middleware(&dedup.Memory{}, dedup.Body(byOperation), opts)(work.does(func(ctx context.Context, _ *processor.Message, _ int) error {
			if err := dedup.SetResult(ctx, make([]byte, dedup.MaxResult+1)); err == nil {
				t.Error("a result over the limit was taken")
			}
			return dedup.SetResult(ctx, []byte("receipt 12"))
		}))
		r.send(r.q, payment{secret, 1}, payment{secret, 1})
		r.run(r.q, time.Minute, processor.Config{}, h)
		work.is(t, 1)
		if diff := cmp.Diff([]string{"receipt 12 on attempt 1", "receipt 12 on attempt 2"}, told); diff != "" {
			t.Errorf("hits (-want +got):\n%s", diff)
		}
		if n := r.left(r.q); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

// busy is a store whose keys another worker has in hand for a while.
type busy struct {
	dedup.Memory
	mu    sync.Mutex
	until time.Time
	asked []time.Duration // how long before that
}

func (b *busy) Once(ctx context.Context, key dedup.Key, do func(context.Context) ([]byte, error)) (dedup.Outcome, error) {
	b.mu.Lock()
	left := time.Until(b.until)
	b.asked = append(b.asked, left)
	b.mu.Unlock()
	if left > 0 {
		return dedup.Outcome{}, fmt.Errorf("wrapped: %w", &dedup.ClaimedError{For: min(left, 30*time.Second)})
	}
	return b.Memory.Once(ctx, key, do)
}

func TestKeyInOtherHandsIsWaitedFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		var work counter
		store := &busy{until: time.Now().Add(10 * time.Minute)}
		h := dedup.Middleware(store, dedup.Body(byOperation), dedup.Options{})(work.does(succeed))
		r.send(r.q, payment{secret, 1})
		r.run(r.q, 9*time.Minute, processor.Config{MaxDequeueCount: 3}, h)
		work.is(t, 0)
		if n := r.left(r.q); n != 1 || len(r.poisoned()) != 0 {
			t.Errorf("while it is in other hands: %d messages on the queue, poison %+v", n, r.poisoned())
		}
		if len(store.asked) > 25 {
			t.Errorf("the store was asked %d times in nine minutes", len(store.asked))
		}
		r.counted(3, 0)
		r.secretive()
	})
}

func TestKeyInOtherHandsIsHandledWhenItIsFree(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, r *rig) {
		var work counter
		store := &busy{until: time.Now().Add(10 * time.Minute)}
		h := dedup.Middleware(store, dedup.Body(byOperation), dedup.Options{})(work.does(succeed))
		r.send(r.q, payment{secret, 1})
		r.run(r.q, 11*time.Minute, processor.Config{MaxDequeueCount: 3}, h)
		work.is(t, 1)
		if n := r.left(r.q); n != 0 || len(r.poisoned()) != 0 {
			t.Errorf("%d messages left, poison %+v", n, r.poisoned())
		}
	})
}

// prober is a handler that says whether what it calls is there.
type prober struct {
	processor.Handler
	err error
}

func (p prober) Probe(context.Context) error { return p.err }

func TestHandlerIsStillProbed(t *testing.T) {
	t.Parallel()
	var work counter
	once := dedup.Middleware(&dedup.Memory{}, dedup.Header("x"), dedup.Options{})
	if err := once(work.does(succeed)).(processor.Prober).Probe(t.Context()); err != nil {
		t.Errorf("a handler that cannot tell: %v", err)
	}
	if err := once(prober{work.does(succeed), errBroken}).(processor.Prober).Probe(t.Context()); err != errBroken {
		t.Errorf("a handler that can: %v", err)
	}
	work.is(t, 0)
}

func TestKeysPrintAsNothing(t *testing.T) {
	t.Parallel()
	key := dedup.Key{Scope: "s", Value: secret, Partition: secret}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("claimed", "key", key, "pointer", &key)
	for _, s := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s %q", key, &key, key, key, key), log.String()} {
		if strings.Contains(s, secret) {
			t.Errorf("printed: %s", s)
		}
	}
}

func TestNothingIsThereOutsideAHandler(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	if dedup.Tx(ctx) != nil || dedup.Batch(ctx) != nil {
		t.Error("a transaction outside a handler")
	}
	if err := dedup.SetResult(ctx, nil); err != dedup.ErrNoMiddleware {
		t.Errorf("SetResult: %v", err)
	}
	if err := dedup.Batch(ctx).Add(); err != dedup.ErrNoMiddleware {
		t.Errorf("Add: %v", err)
	}
}

func TestMiddlewareNeedsStoreAndKey(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"no store": func() { dedup.Middleware(nil, dedup.Header("x"), dedup.Options{}) },
		"no key":   func() { dedup.Middleware(&dedup.Memory{}, nil, dedup.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

package processor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// The recorder of package failures is a hook.
var _ processor.FailureHook = (*failures.Recorder)(nil)

func bodyKey(m *processor.Message) (string, error) {
	switch key := string(m.Body); key {
	case "no key":
		return "", errors.New("there is none")
	case "no mercy":
		panic("there is none")
	default:
		return "key of " + key, nil
	}
}

func TestThePoisonRecordTellsTheAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.srv.SetClockOffset(10 * time.Minute) // times are the service's
		began := time.Now().Add(10 * time.Minute)
		r.send("m")
		r.runFor(10*time.Minute, fast(processor.Config{MaxDequeueCount: 3, Retry: processor.RetryConfig{Jitter: processor.Off}, BusinessKey: bodyKey}),
			r.handle(func(_ context.Context, m *processor.Message) error {
				time.Sleep(time.Second)
				switch m.Attempt() {
				case 1:
					return fmt.Errorf("first: %w", context.DeadlineExceeded)
				case 2:
					panic("second")
				}
				return errBroken
			}))
		rec := r.poisoned()[0]
		if rec.BusinessKey != "key of m" || rec.Category != "max_dequeue" {
			t.Errorf("record %+v", rec)
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		worker := fmt.Sprintf("%s/%d", host, os.Getpid())
		want := []queue.Attempt{
			{Number: 1, At: began, Category: "timeout", Error: "first: context deadline exceeded", Worker: worker},
			{Number: 2, At: began.Add(6 * time.Second), Category: "panic", Error: "handler panicked: second", Worker: worker},
			{Number: 3, At: began.Add(17 * time.Second), Category: "handler", Error: errBroken.Error(), Worker: worker},
		}
		if diff := cmp.Diff(want, rec.Attempts, cmpopts.EquateApproxTime(2*time.Second)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Every way to the poison queue.
func TestEveryPoisonRecordHasTheBusinessKey(t *testing.T) {
	ways := map[string]processor.HandlerFunc{
		"permanent":         func(context.Context, *processor.Message) error { return processor.Permanent(errBroken) },
		"the last attempt":  fail,
		"the handler's own": func(ctx context.Context, m *processor.Message) error { return m.DeadLetter(ctx, "said so") },
	}
	for name, h := range ways {
		for body, want := range map[string]string{"m": "key of m", "no key": "", "no mercy": ""} {
			bubble(t, func(t *testing.T, r *rig) {
				r.send(body)
				r.runFor(time.Minute, processor.Config{MaxDequeueCount: 1, BusinessKey: bodyKey}, h)
				if rec := r.poisoned()[0]; rec.BusinessKey != want {
					t.Errorf("%s: business key %q, want %q", name, rec.BusinessKey, want)
				}
			})
		}
	}
}

// What is remembered is bounded, per message and in all.
func TestTheHistoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(2*time.Hour, fast(processor.Config{MaxDequeueCount: 60, Retry: processor.RetryConfig{Initial: time.Second, Max: time.Second}}), r.handle(fail))
		rec := r.poisoned()[0]
		if n := len(rec.Attempts); n != 21 || rec.Attempts[0].Number != 40 || rec.Attempts[20].Number != 60 {
			t.Errorf("%d attempts: %+v", n, rec.Attempts)
		}
	})
}

// hook notes what it hears.
type hook struct {
	r     *rig
	mu    sync.Mutex
	heard []string
	wrong func()
}

func (h *hook) note(format string, args ...any) {
	h.mu.Lock()
	h.heard = append(h.heard, fmt.Sprintf(format, args...))
	h.mu.Unlock()
	if h.wrong != nil {
		h.wrong()
	}
}

func (h *hook) Failed(_ context.Context, m *processor.Message, category string, err error, started time.Time, took time.Duration) {
	h.note("failed %s %d: %s, %v; called %v, took %v, %v", m.Body, m.Attempt(), category, err, !started.IsZero(), took, m.Settlement())
}

func (h *hook) DeadLettered(_ context.Context, m *processor.Message, category poison.Category, reason string, err error, started time.Time, took time.Duration) {
	h.note("dead-lettered %s %d: %s, %s, %v; called %v, took %v; %d copies, %v", m.Body, m.Attempt(), category, reason, err, !started.IsZero(), took,
		h.r.srv.Len(queuetest.AccountName, "orders-poison"), m.Settlement())
}

func (h *hook) Recovered(_ context.Context, m *processor.Message) {
	h.note("recovered %s %d: %v", m.Body, m.Attempt(), m.Settlement())
}

func TestTheHookHearsOfFailures(t *testing.T) {
	slow := func(err error) func(context.Context, *processor.Message) error {
		return func(context.Context, *processor.Message) error {
			time.Sleep(2 * time.Second)
			return err
		}
	}
	tests := map[string]struct {
		handler func(context.Context, *processor.Message) error
		want    []string
	}{
		"success at once": {slow(nil), nil},
		"success at last": {func(ctx context.Context, m *processor.Message) error {
			if m.Attempt() == 1 {
				return slow(errBroken)(ctx, m)
			}
			return nil
		}, []string{"failed m 1: handler, the widget is broken; called true, took 2s, unsettled", "recovered m 2: completed"}},
		"failure at last": {slow(errBroken), []string{
			"failed m 1: handler, the widget is broken; called true, took 2s, unsettled",
			"dead-lettered m 2: max_dequeue, the widget is broken, the widget is broken; called true, took 2s; 1 copies, unsettled",
		}},
		"failure for good": {slow(processor.Permanent(errBroken)), []string{
			"dead-lettered m 1: handler, the widget is broken, the widget is broken; called true, took 2s; 1 copies, unsettled",
		}},
		"by the handler": {func(ctx context.Context, m *processor.Message) error {
			time.Sleep(time.Second)
			return m.DeadLetter(ctx, "said so")
		}, []string{"dead-lettered m 1: handler, said so, <nil>; called true, took 1s; 1 copies, unsettled"}},
	}
	for name, tt := range tests {
		for how, wrong := range map[string]func(){"": nil, ", panicking": func() { panic("the hook's") }, ", slowly": func() { time.Sleep(10 * time.Second) }} {
			t.Run(name+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					h := &hook{r: r, wrong: wrong}
					r.send("m")
					r.runFor(2*time.Minute, fast(processor.Config{MaxDequeueCount: 2, Failures: h, VisibilityTimeout: 5 * time.Second}), r.handle(tt.handler))
					if diff := cmp.Diff(tt.want, h.heard); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					if n := r.srv.Len(queuetest.AccountName, "orders"); n != 0 {
						t.Errorf("%d messages left", n)
					}
				})
			})
		}
	}
}

func TestTheHookHearsOfMessagesThatReachNoHandler(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		h := &hook{r: r}
		r.send("m")
		for range 6 {
			if _, err := r.q.Receive(t.Context(), 1, time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		r.runFor(time.Minute, processor.Config{Failures: h}, r.handle(succeed))
		want := []string{"dead-lettered m 7: max_dequeue, delivered 7 times, 5 allowed, and never completed, <nil>; called false, took 0s; 1 copies, unsettled"}
		if diff := cmp.Diff(want, h.heard); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A message is as old as since it could first be received, where that is known.
func TestADelayDoesNotAge(t *testing.T) {
	for name, opts := range map[string]queue.SendOptions{
		"with an envelope":    {Delay: time.Hour, Headers: map[string]string{"a": "b"}},
		"without an envelope": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if _, err := r.q.Send(t.Context(), "m", opts); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour + 5*time.Minute)
				r.runFor(time.Minute, processor.Config{MaxAge: 10 * time.Minute, Objective: 10 * time.Minute}, r.handle(succeed))
				known := opts.Headers != nil
				if got := r.calls.count() == 1; got != known {
					t.Errorf("handled: %v, want %v", got, known)
				}
				if known {
					r.counted(map[string]float64{"queue_messages_late_total": 0})
				} else if rec := r.poisoned()[0]; !strings.HasPrefix(rec.Reason, "waited 1h5m") {
					t.Errorf("reason %q", rec.Reason)
				}
			})
		})
	}
}

package processor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// fast polls every second, on the second, so that a test sees when a message reappears.
func fast(c processor.Config) processor.Config {
	c.EmptyBackoffMin, c.EmptyBackoffMax = time.Second, time.Second
	return c
}

// gaps are the times between calls, to the tenth of a second.
func (c *calls) gaps() []time.Duration {
	var gaps []time.Duration
	all := c.list()
	for i := 1; i < len(all); i++ {
		gaps = append(gaps, all[i].at.Sub(all[i-1].at).Round(100*time.Millisecond))
	}
	return gaps
}

func TestFailuresAreRetriedEverLaterThenDeadLettered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(`{"n":1}`)
		r.runFor(time.Hour, fast(processor.Config{MaxDequeueCount: 9, Retry: processor.RetryConfig{Jitter: processor.Off}}), r.handle(fail))
		want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second}
		if diff := cmp.Diff(want, r.calls.gaps()); diff != "" {
			t.Errorf("waits between attempts (-want +got):\n%s", diff)
		}
		r.left(0, 1)
		rec := r.poisoned()[0]
		if rec.Category != "max_dequeue" || rec.Reason != errBroken.Error() || rec.DequeueCount != 9 || rec.Queue != "orders" || rec.MessageID != r.calls.list()[0].id {
			t.Errorf("record %+v", rec)
		}
		for i, l := range r.logged("handler failed; the message is retried", 8) {
			if l["level"] != "WARN" || l["error"] != errBroken.Error() || l["dequeue_count"] != float64(i+1) || l["category"] != "handler" || l["queue"] != "orders" || l["account"] != account || l["message_id"] == nil {
				t.Errorf("attempt %d was logged as %v", i+1, l)
			}
		}
		if l := r.logged("message dead-lettered", 1)[0]; l["level"] != "ERROR" || l["category"] != "max_dequeue" || l["reason"] != errBroken.Error() {
			t.Errorf("the last attempt was logged as %v", l)
		}
		r.counted(map[string]float64{
			"queue_messages_failed_total":                                              9,
			"queue_message_retries_total{category=handler}":                            8,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_dequeue}": 1,
			"queue_messages_started_total":                                             1, // first deliveries only
			"queue_message_time_in_queue_seconds":                                      9,
			"queue_message_processing_duration_seconds{queue_outcome=abandoned}":       8,
			"queue_message_processing_duration_seconds{queue_outcome=dead_lettered}":   1,
			"queue_messages_processed_total":                                           0,
		})
	})
}

func TestRetriesAreSpread(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 32 {
			r.send(fmt.Sprint(i))
		}
		r.runFor(time.Minute, fast(processor.Config{Concurrency: 32, MaxDequeueCount: 2, Breaker: processor.BreakerConfig{Off: true}, Retry: processor.RetryConfig{Initial: 20 * time.Second}}), r.handle(fail))
		seen := map[time.Duration]int{}
		for _, c := range r.calls.list()[32:] {
			wait := c.at.Sub(r.calls.list()[0].at).Round(time.Second)
			seen[wait]++
			if wait < 18*time.Second || wait > 22*time.Second {
				t.Errorf("a retry after %v, want 20s give or take a tenth", wait)
			}
		}
		if len(seen) < 3 {
			t.Errorf("32 retries fell on %v", seen)
		}
	})
}

// B20: lease and retry delay are two settings.
func TestLeaseAndRetryDelayAreTwoSettings(t *testing.T) {
	cfg := fast(processor.Config{VisibilityTimeout: 10 * time.Minute, Retry: processor.RetryConfig{Initial: 7 * time.Second, Jitter: processor.Off}})
	t.Run("after an error it reappears within the retry delay", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.send("m")
			r.runFor(8*time.Second, cfg, r.handle(fail))
			if diff := cmp.Diff([]time.Duration{7 * time.Second}, r.calls.gaps()); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("after a crash it reappears within the lease", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.send("m")
			if _, err := r.q.Receive(t.Context(), 1, cfg.VisibilityTimeout); err != nil { // by a process that dies
				t.Fatal(err)
			}
			died := time.Now()
			r.runFor(11*time.Minute, cfg, r.handle(succeed))
			if got := r.calls.list(); len(got) != 1 || got[0].at.Sub(died).Round(time.Second) != 10*time.Minute || got[0].attempt != 2 {
				t.Errorf("calls %+v", got)
			}
		})
	})
}

// B21: 65–142 deliveries with a maximum of 5.
func TestACrashingHandlerIsNotEnteredMoreOftenThanAllowed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		for range 20 { // crashes: received, and never settled
			if _, err := r.q.Receive(t.Context(), 1, time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		r.runFor(time.Minute, processor.Config{}, r.handle(succeed))
		if n := r.calls.count(); n != 0 {
			t.Errorf("the handler was entered %d times", n)
		}
		r.left(0, 1)
		if rec := r.poisoned()[0]; rec.Category != "max_dequeue" || rec.DequeueCount != 21 {
			t.Errorf("record %+v", rec)
		}
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_dequeue}": 1,
			"queue_messages_started_total":                                             0,
			"queue_messages_failed_total":                                              0,
			"queue_message_time_in_queue_seconds":                                      0,
		})
	})
}

// B23: a maximum of 1 ran twice.
func TestAMaximumOfOneMeansOneCall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(time.Hour, processor.Config{MaxDequeueCount: 1}, r.handle(func(_ context.Context, m *processor.Message) error {
			if m.Attempt() != 1 || !m.LastAttempt() {
				t.Errorf("attempt %d, last %v", m.Attempt(), m.LastAttempt())
			}
			return errBroken
		}))
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		r.left(0, 1)
	})
}

func TestTheHandlerKnowsItsAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		var last []bool
		r.runFor(time.Hour, processor.Config{MaxDequeueCount: 3}, r.handle(func(_ context.Context, m *processor.Message) error {
			last = append(last, m.LastAttempt())
			return errBroken
		}))
		if diff := cmp.Diff([]bool{false, false, true}, last); diff != "" {
			t.Error(diff)
		}
		for i, c := range r.calls.list() {
			if c.attempt != i+1 {
				t.Errorf("call %d was told it is attempt %d", i+1, c.attempt)
			}
		}
	})
}

func TestWithoutAMaximumAMessageIsRetriedForEver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		q, err := r.acct.Queue("orders", queue.Config{NoPoison: true})
		if err != nil {
			t.Fatal(err)
		}
		r.send("m")
		run := r.startOn(q, processor.Config{MaxDequeueCount: processor.Off, Retry: processor.RetryConfig{Initial: time.Second, Max: time.Second}}, r.handle(func(_ context.Context, m *processor.Message) error {
			if m.LastAttempt() {
				t.Error("no attempt is the last")
			}
			if m.Attempt()%2 == 0 {
				return processor.Permanent(errBroken) // and nowhere to put it
			}
			return errBroken
		}))
		time.Sleep(2 * time.Minute)
		r.end(run)
		if n := r.calls.count(); n < 50 {
			t.Errorf("%d calls, want many", n)
		}
		r.left(1, 0)
	})
}

// B22: a panic restarts the host, and the message never reaches the poison queue.
func TestAPanicIsOneFailedAttempt(t *testing.T) {
	ways := map[string]struct {
		do       func()
		category string
		reason   string
	}{
		"a string":        {func() { panic("boom") }, "panic", "handler panicked: boom"},
		"an error":        {func() { panic(errBroken) }, "panic", "handler panicked: the widget is broken"},
		"a runtime error": {func() { var v any = 1; _ = v.(string) }, "panic", "handler panicked: interface conversion: interface {} is int, not string"},
		"nil":             {func() { panic(nil) }, "panic", "handler panicked: panic called with nil argument"},
		"Goexit":          {runtime.Goexit, "other", "handler called runtime.Goexit"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("bad", "good")
				r.runFor(10*time.Minute, processor.Config{MaxDequeueCount: 2}, r.handle(func(_ context.Context, m *processor.Message) error {
					if string(m.Body) == "bad" {
						way.do()
					}
					return nil
				}))
				if n := r.calls.count(); n != 3 {
					t.Errorf("%d calls, want the bad one twice and the good one once", n)
				}
				r.left(0, 1)
				if rec := r.poisoned()[0]; rec.Category != "max_dequeue" || rec.Reason != way.reason {
					t.Errorf("record %+v", rec)
				}
				r.counted(map[string]float64{
					"queue_messages_failed_total":                                2,
					"queue_messages_processed_total":                             1,
					"queue_message_retries_total{category=" + way.category + "}": 1,
				})
				l := r.logged("handler failed; the message is retried", 1)[0]
				if stack, _ := l["stack"].(string); way.category == "panic" && (!strings.Contains(stack, "goroutine") || len(stack) > 4<<10) {
					t.Errorf("stack of %d bytes: %.80s", len(stack), stack)
				}
			})
		})
	}
}

// A handler that hangs is one failed attempt, once renewal has an end.
func TestAHungHandlerReachesThePoisonQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(time.Hour, processor.Config{MaxDequeueCount: 2, MaxRenewal: 5 * time.Minute}, r.handle(func(ctx context.Context, _ *processor.Message) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		if n := r.calls.count(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		r.left(0, 1)
	})
}

func TestRetryCategories(t *testing.T) {
	errs := map[string]struct {
		err      error
		category string
	}{
		"a plain error":              {errBroken, "handler"},
		"told to slow down":          {processor.Throttled(time.Second, errBroken), "throttled"},
		"what it calls is down":      {processor.Unavailable(errBroken), "transient"},
		"a wrapped wish":             {fmt.Errorf("while working: %w", processor.Unavailable(errBroken)), "transient"},
		"a deadline":                 {context.DeadlineExceeded, "timeout"},
		"a network timeout":          {&net.DNSError{IsTimeout: true}, "timeout"},
		"a network failure":          {&net.OpError{Op: "read", Err: errBroken}, "transient"},
		"a refused connection":       {syscall.ECONNREFUSED, "transient"},
		"to be tried again later":    {processor.RetryAfter(time.Second, errBroken), "handler"},
		"a timeout, tried again":     {processor.RetryAfter(time.Second, context.DeadlineExceeded), "timeout"},
		"somebody's cancelled works": {context.Canceled, "handler"},
	}
	for name, test := range errs {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.runFor(4*time.Minute, processor.Config{MaxDequeueCount: 2, Breaker: processor.BreakerConfig{Off: true}}, r.handle(func(context.Context, *processor.Message) error { return test.err }))
				r.counted(map[string]float64{"queue_message_retries_total{category=" + test.category + "}": 1})
			})
		})
	}
}

func TestAHandlerMayChooseTheDelay(t *testing.T) {
	delays := map[string]struct {
		err  error
		want time.Duration
	}{
		"a minute":             {processor.RetryAfter(time.Minute, errBroken), time.Minute},
		"rounded up":           {processor.RetryAfter(1500*time.Millisecond, errBroken), 2 * time.Second},
		"at once":              {processor.RetryAfter(0, errBroken), 0},
		"at once, if negative": {processor.RetryAfter(-time.Hour, errBroken), 0},
		"past all limits":      {processor.RetryAfter(math.MaxInt64, errBroken), 7 * 24 * time.Hour / 2}, // half of what the message has left
		"as storage told":      {processor.Throttled(20*time.Second, nil), 20 * time.Second},
	}
	for name, d := range delays {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				cfg := fast(processor.Config{MaxDequeueCount: 2, Breaker: processor.BreakerConfig{Off: true}})
				cfg.EmptyBackoffMax = max(time.Second, d.want/100)
				r.runFor(2*time.Minute+d.want+2*cfg.EmptyBackoffMax, cfg, r.handle(func(context.Context, *processor.Message) error { return d.err }))
				gaps := r.calls.gaps()
				if len(gaps) != 1 || gaps[0] < d.want || gaps[0] > d.want+cfg.EmptyBackoffMax { // at once: with the next poll
					t.Errorf("delays %v, want %v", gaps, d.want)
				}
			})
		})
	}
}

// A delay past the message's end would have the service drop it unseen.
func TestADelayStaysWithinTheMessagesLife(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if _, err := r.q.Send(t.Context(), "m", queue.SendOptions{TimeToLive: time.Hour}); err != nil {
			t.Fatal(err)
		}
		r.runFor(59*time.Minute, processor.Config{MaxDequeueCount: 2}, r.handle(func(context.Context, *processor.Message) error {
			return processor.RetryAfter(8*time.Hour, errBroken)
		}))
		r.left(0, 1)
		if n := r.calls.count(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

func TestAReasonIsOneBoundedLine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		long := errors.New("first line\n\tsecond\x00 line \xff " + strings.Repeat("é", 4000))
		r.runFor(time.Second, processor.Config{}, r.handle(func(context.Context, *processor.Message) error { return processor.Permanent(long) }))
		for _, reason := range []string{r.poisoned()[0].Reason, r.logged("message dead-lettered", 1)[0]["reason"].(string)} {
			if len(reason) > 1024 || strings.ContainsAny(reason, "\n\t") || !strings.HasPrefix(reason, "first line second") || !strings.HasSuffix(reason, "é…") {
				t.Errorf("reason of %d bytes: %.60q…", len(reason), reason)
			}
		}
	})
}

func TestNoBodyIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const secret = "hunter2"
		r.send(`{"password":"`+secret+`","n":"x"}`, `{"password":"`+secret+`"}`, `{"password": `+secret)
		type login struct {
			N int `json:"n"`
		}
		r.runFor(time.Hour, processor.Config{}, processor.Typed(func(context.Context, *processor.Job[login]) error { return errBroken }))
		r.left(0, 3)
		if strings.Contains(r.logs.String(), secret) {
			t.Errorf("a body is in the log:\n%s", r.logs)
		}
	})
}

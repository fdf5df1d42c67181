package processor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestTheRateLimitHolds(t *testing.T) {
	for _, concurrency := range []int{1, 32} {
		bubble(t, func(t *testing.T, r *rig) {
			r.fill(200)
			began := time.Now()
			r.runFor(30*time.Second+100*time.Millisecond, processor.Config{Concurrency: concurrency, RateLimit: rate.NewLimiter(4, 8)}, r.handle(succeed))
			calls := r.calls.list()
			if n := len(calls); n < 8+4*29 || n > 8+4*30 {
				t.Errorf("concurrency %d: %d messages in 30 s at 4 a second and a burst of 8", concurrency, n)
			}
			for i, c := range calls {
				if most := 8 + 4*c.at.Sub(began).Seconds(); float64(i) > most {
					t.Fatalf("concurrency %d: message %d came %v after the start", concurrency, i+1, c.at.Sub(began))
				}
			}
			// What was received was handled: nothing waits here for a permit.
			for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
				if m.DequeueCount != 0 {
					t.Errorf("message %s was received for nothing", m.ID)
				}
			}
		})
	}
}

// Permits that an empty or half-empty receive did not use serve the next.
func TestPermitsAreNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		limiter := rate.NewLimiter(rate.Every(time.Hour), 10) // ten, and hardly ever another
		run := r.start(fast(processor.Config{Concurrency: 8, RateLimit: limiter, Breaker: processor.BreakerConfig{Off: true}}), r.handle(succeed))
		for range 20 {
			time.Sleep(10 * time.Second)
		}
		r.fill(10)
		time.Sleep(10 * time.Second)
		if n := r.calls.count(); n != 10 {
			t.Errorf("%d of 10 messages after twenty empty receives", n)
		}
		r.fill(1)
		time.Sleep(10 * time.Second)
		if n := r.calls.count(); n != 10 {
			t.Errorf("%d messages with ten permits", n)
		}
		time.Sleep(time.Hour)
		if n := r.calls.count(); n != 11 {
			t.Errorf("%d messages an hour later, want 11", n)
		}
		r.end(run)
	})
}

func TestWaitingForAPermitIsInterrupted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var beats int
		r.fill(2)
		run := r.start(processor.Config{RateLimit: rate.NewLimiter(rate.Every(24*time.Hour), 1), Beat: func() { beats++ }}, r.handle(succeed))
		time.Sleep(time.Minute)
		run.Pause()
		run.Resume()
		time.Sleep(time.Minute)
		began := time.Now()
		r.end(run)
		if took := time.Since(began); took > time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if beats < 12 {
			t.Errorf("%d beats in two minutes", beats)
		}
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestProcessorsMayShareALimit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		limiter := rate.NewLimiter(2, 1)
		r.fill(100)
		one := r.start(processor.Config{RateLimit: limiter}, r.handle(succeed))
		r.runFor(20*time.Second, processor.Config{RateLimit: limiter}, r.handle(succeed))
		r.end(one)
		if n := r.calls.count(); n < 35 || n > 42 {
			t.Errorf("%d messages in 20 s at 2 a second", n)
		}
	})
}

func TestALimitThatLetsNothingThroughIsRefused(t *testing.T) {
	r := newRig(t, queue.Config{})
	for want, limiter := range map[string]*rate.Limiter{
		"rate limit 0 a second lets nothing through": rate.NewLimiter(0, 1),
		"rate limit's burst 0 is not at least 1":     rate.NewLimiter(1, 0),
	} {
		_, err := processor.New(r.q, processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil }), processor.Config{RateLimit: limiter})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := processor.New(r.q, processor.HandlerFunc(succeed), processor.Config{RateLimit: rate.NewLimiter(rate.Inf, 0)}); err != nil {
		t.Errorf("no limit: %v", err)
	}
}

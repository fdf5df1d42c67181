package processor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// Messages whose time has not come are nobody's failure, however many there are.
func TestPostponedMessagesAreNoFailures(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(10)
		free := time.Now().Add(time.Minute)
		run := r.start(processor.Config{Concurrency: 4}, r.handle(func(context.Context, *processor.Message) error {
			if left := time.Until(free); left > 0 {
				return processor.Postpone(left, errors.New("somebody else has it"))
			}
			return nil
		}))
		time.Sleep(30 * time.Second)
		if run.Status().BreakerOpen {
			t.Error("the breaker is open")
		}
		time.Sleep(time.Minute)
		r.end(run)
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 10, "queue_messages_failed_total": 0})
		r.logged(opened, 0)
		r.logged("handler failed; the message is retried", 0)
	})
}

// Somebody must hear of a message that is postponed for ever.
func TestPostponingCountsAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(1)
		r.runFor(time.Minute, processor.Config{}, r.handle(func(context.Context, *processor.Message) error {
			return processor.Postpone(time.Second, nil)
		}))
		r.left(0, 1)
		if n := r.calls.count(); n != 5 {
			t.Errorf("%d attempts, want 5", n)
		}
	})
}

// Deliveries that found the body away are not attempts of the handler's.
func TestAbsencesOfTheStoreLeaveTheHandlerItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &blinking{shelf: shelf{bodies: map[string][]byte{}}}
		r := newRig(t, queue.Config{BodyStore: store, BodyStoreThreshold: 1})
		r.send("a large body")
		store.absent.Store(true)
		last := 0
		run := r.start(processor.Config{}, r.handle(func(_ context.Context, m *processor.Message) error {
			if m.LastAttempt() {
				last = m.Attempt()
			}
			store.absent.Store(true) // the next fetch fails
			return errBroken
		}))
		time.Sleep(2 * time.Hour)
		r.end(run)
		r.left(0, 1)
		if n := r.calls.count(); n != 5 || last != 10 {
			t.Errorf("%d attempts, the last of them delivery %d; want 5 among 10 deliveries", n, last)
		}
	})
}

// A breaker is not open for ever because the messages it opened for are gone.
func TestAnOpenBreakerOnAnEmptyQueueCloses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(5)
		run := r.start(processor.Config{}, r.handle(fail))
		time.Sleep(2 * time.Minute)
		if !run.Status().BreakerOpen {
			t.Fatal("the breaker is closed")
		}
		if err := r.q.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		if !run.Status().BreakerOpen {
			t.Error("it closed soon")
		}
		time.Sleep(4 * time.Minute)
		if run.Status().BreakerOpen {
			t.Error("it is open still")
		}
		r.logged("the queue is empty; receiving, though no handler has succeeded", 1)
		r.fill(5)
		time.Sleep(2 * time.Minute)
		if !run.Status().BreakerOpen {
			t.Error("it did not open again")
		}
		r.end(run)
		r.left(5, 0)
	})
}

// A message that is postponed for no time at all would be back at once, over and over.
func TestPostponingTakesASecond(t *testing.T) {
	for _, delay := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T, r *rig) {
			r.fill(1)
			r.runFor(time.Minute, processor.Config{MaxDequeueCount: 2}, r.handle(func(context.Context, *processor.Message) error {
				return processor.Postpone(delay, nil)
			}))
			l := r.logged("handler postponed the message", 1)[0]
			if got := time.Duration(l["delay"].(float64)); got != time.Second {
				t.Errorf("postponed for %v: back after %v, want 1s", delay, got)
			}
		})
	}
}

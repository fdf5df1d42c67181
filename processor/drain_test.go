package processor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// shutdown stops the processor and returns how long that took, and Run's error.
func (run *running) shutdown() (time.Duration, error) {
	began := time.Now()
	run.stop()
	err := <-run.done
	return time.Since(began), err
}

func TestShutdownWaitsForHandlers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two", "three")
		run := r.start(processor.Config{Concurrency: 2}, r.handle(takes(20*time.Second)))
		time.Sleep(time.Second)
		go func() {
			time.Sleep(time.Second)
			if s := run.Status(); s.State != processor.StateDraining || s.Handlers != 2 {
				t.Errorf("status while draining: %+v", s)
			}
		}()
		took, err := run.shutdown()
		if took != 19*time.Second || err != nil {
			t.Errorf("shutdown took %v and ended with %v, want 19s and nothing", took, err)
		}
		r.left(1, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 2, "queue_shutdown_released_messages_total": 0})
		if s := run.Status(); s.State != processor.StateStopped || s.Handlers != 0 || s.Held != 0 {
			t.Errorf("status after the end: %+v", s)
		}
		before := r.requests("")
		time.Sleep(time.Hour)
		if n := r.requests("") - before; n != 0 {
			t.Errorf("%d requests after the end", n)
		}
	})
}

func TestShutdownCancelsAndReleasesWhatDoesNotFinish(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two")
		var causes atomic.Int32
		run := r.start(processor.Config{Concurrency: 2, DrainTimeout: 10 * time.Second}, r.handle(func(ctx context.Context, m *processor.Message) error {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), processor.ErrDraining) {
				causes.Add(1)
			}
			time.Sleep(2 * time.Second) // to tidy up
			return fmt.Errorf("stopped: %w", ctx.Err())
		}))
		time.Sleep(time.Second)
		took, err := run.shutdown()
		if took != 12*time.Second || err != nil || causes.Load() != 2 {
			t.Errorf("shutdown took %v, ended with %v, and cancelled %d", took, err, causes.Load())
		}
		for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
			if !m.Visible {
				t.Errorf("message %s is not visible at once", m.ID)
			}
		}
		r.left(2, 0)
		r.counted(map[string]float64{
			"queue_shutdown_released_messages_total":                               2,
			"queue_message_processing_duration_seconds{queue_outcome=interrupted}": 2,
			"queue_messages_failed_total":                                          0,
			"queue_message_retries_total{category=handler}":                        0,
		})
	})
}

func TestWhatAHandlerSaysWhenItIsCancelledStillCounts(t *testing.T) {
	ends := map[string]struct {
		err          error
		main, poison int
		outcome      string
		failed       float64
	}{
		"done after all":            {nil, 0, 0, "completed", 0},
		"nothing to do":             {processor.Discard(nil), 0, 0, "completed", 0},
		"never":                     {processor.Permanent(errBroken), 0, 1, "dead_lettered", 1},
		"a failure of its own":      {errBroken, 1, 0, "interrupted", 1},
		"the last attempt, cut off": {context.Canceled, 1, 0, "interrupted", 0},
	}
	for name, test := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				run := r.start(processor.Config{MaxDequeueCount: 1}, r.handle(func(ctx context.Context, _ *processor.Message) error {
					<-ctx.Done()
					return test.err
				}))
				time.Sleep(time.Second)
				if took, err := run.shutdown(); took != 30*time.Second || err != nil {
					t.Errorf("shutdown took %v and ended with %v", took, err)
				}
				r.left(test.main, test.poison)
				r.counted(map[string]float64{
					"queue_messages_failed_total": test.failed,
					"queue_message_processing_duration_seconds{queue_outcome=" + test.outcome + "}": 1,
				})
			})
		})
	}
}

// A message is never released while its handler runs: its lease lapses.
func TestAHandlerThatDoesNotStopKeepsItsMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		over := make(chan struct{})
		run := r.start(processor.Config{}, r.handle(func(context.Context, *processor.Message) error {
			<-over
			return nil
		}))
		time.Sleep(time.Second)
		took, err := run.shutdown()
		if took != time.Minute || err == nil || !strings.Contains(err.Error(), "1 handlers still running") {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		m := r.srv.Messages(queuetest.AccountName, "orders")
		if len(m) != 1 || m[0].Visible || m[0].VisibleAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("the message is %+v, want it hidden for the rest of its lease", m)
		}
		r.counted(map[string]float64{
			"queue_message_processing_duration_seconds{queue_outcome=interrupted}": 1,
			"queue_shutdown_released_messages_total":                               0,
			"queue_processor_active_handlers":                                      0,
		})
		before := r.requests("")
		close(over)
		time.Sleep(time.Hour)
		if n := r.requests("") - before; n != 0 {
			t.Errorf("%d requests after the end", n)
		}
		if m := r.srv.Messages(queuetest.AccountName, "orders"); !m[0].Visible {
			t.Error("the message has not come back")
		}
	})
}

func TestAHandlerThatDoesNotStopIsRenewedNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("hangs", "ends late")
		over := make(chan struct{})
		run := r.start(processor.Config{VisibilityTimeout: 4 * time.Second, Concurrency: 2, DrainTimeout: 10 * time.Second}, r.handle(func(_ context.Context, m *processor.Message) error {
			if string(m.Body) == "hangs" {
				<-over
				return nil
			}
			time.Sleep(19 * time.Second)
			return nil
		}))
		time.Sleep(time.Second)
		run.stop()
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Delay: 9 * time.Second}) // what shutdown waits for in the end
		time.Sleep(21 * time.Second)
		before := r.requests(queuetest.OpUpdate)
		if err := <-run.done; err == nil {
			t.Error("a handler left running is not told")
		}
		if n := r.requests(queuetest.OpUpdate) - before; n != 0 {
			t.Errorf("%d renewals after shutdown gave up", n)
		}
		r.left(1, 0)
		close(over)
	})
}

func TestLeasesAreRenewedWhileShutdownWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{VisibilityTimeout: 10 * time.Second, DrainTimeout: time.Minute}, r.handle(takes(50*time.Second)))
		time.Sleep(time.Second)
		if took, err := run.shutdown(); took != 49*time.Second || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		r.left(0, 0)
		if n := r.metric("queue_lease_renewals_total"); n < 8 {
			t.Errorf("%v renewals", n)
		}
	})
}

// B27: finished, but not deleted: SIGTERM in the instant the handler returns.
func TestADeleteThatIsOwedIsSentAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Delay: 3 * time.Second})
		var run *running
		started := make(chan struct{})
		run = r.start(processor.Config{}, r.handle(func(context.Context, *processor.Message) error {
			<-started
			run.stop()
			return nil
		}))
		close(started)
		if err := <-run.done; err != nil {
			t.Error(err)
		}
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
	})
}

func TestADeleteThatIsOwedIsTriedAgainAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		mend := r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 500})
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(time.Second)
		go func() {
			time.Sleep(40 * time.Second)
			mend()
		}()
		if took, err := run.shutdown(); took > 50*time.Second || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		r.left(0, 0)
	})
}

func TestShutdownEndsThoughStorageIsFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two")
		run := r.start(processor.Config{Concurrency: 2}, r.handle(takes(10*time.Second)))
		time.Sleep(time.Second)
		r.srv.Inject(queuetest.Fault{Hang: true})
		if took, err := run.shutdown(); took > 92*time.Second || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		r.counted(map[string]float64{"queue_message_processing_duration_seconds{queue_outcome=interrupted}": 2})
	})
}

// Q15: cancelling a receive whose response is lost hides messages for a lease. It may finish; what it brings is released.
func TestAReceiveUnderWayIsFinishedAndReleased(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two")
		r.inject(queuetest.Fault{Operation: queuetest.OpReceive, Delay: time.Second})
		// With the breaker on, the first receive asks for one message only.
		run := r.start(processor.Config{Concurrency: 8, Breaker: processor.BreakerConfig{Off: true}}, r.handle(succeed))
		time.Sleep(500 * time.Millisecond)
		if took, err := run.shutdown(); took != 500*time.Millisecond || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		if n := r.calls.count(); n != 0 {
			t.Errorf("%d handlers were started after shutdown had begun", n)
		}
		for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
			if !m.Visible || m.DequeueCount != 1 {
				t.Errorf("message %+v, want it visible at once", m)
			}
		}
		r.counted(map[string]float64{
			"queue_shutdown_released_messages_total":                     2,
			"queue_messages_received_total":                              2,
			"queue_receive_requests_total{queue_receive_result=message}": 1,
		})
	})
}

func TestAReceiveThatHangsIsCutOffAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.inject(queuetest.Fault{Operation: queuetest.OpReceive, Hang: true})
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(time.Second)
		if took, err := run.shutdown(); took != 2*time.Second || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
	})
}

func TestShutdownInterruptsEveryWait(t *testing.T) {
	waits := map[string]func(*rig) processor.Config{
		"an empty queue": func(*rig) processor.Config { return processor.Config{} },
		"an outage":      func(r *rig) processor.Config { r.inject(queuetest.Fault{Status: 500}); return processor.Config{} },
	}
	for name, setup := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				run := r.start(setup(r), r.handle(succeed))
				time.Sleep(10 * time.Minute)
				if took, err := run.shutdown(); took != 0 || err != nil {
					t.Errorf("shutdown took %v and ended with %v", took, err)
				}
			})
		})
	}
	t.Run("a pause", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			run := r.start(processor.Config{}, r.handle(succeed))
			run.Pause()
			time.Sleep(time.Minute)
			if took, err := run.shutdown(); took != 0 || err != nil {
				t.Errorf("shutdown took %v and ended with %v", took, err)
			}
		})
	})
}

func TestWithoutADrainTimeoutHandlersAreCancelledAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{DrainTimeout: processor.Off}, r.handle(takes(time.Hour)))
		time.Sleep(time.Second)
		if took, err := run.shutdown(); took != 0 || err != nil {
			t.Errorf("shutdown took %v and ended with %v", took, err)
		}
		if m := r.srv.Messages(queuetest.AccountName, "orders"); !m[0].Visible {
			t.Error("the message was not released")
		}
	})
}

func TestRunIsForOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.start(processor.Config{}, r.handle(succeed))
		synctest.Wait()
		if err := run.Run(t.Context()); err == nil || err.Error() != "processor of acct/orders: Run was called before" {
			t.Errorf("the second Run: %v", err)
		}
		r.end(run)
	})
}

// Two workers, one killed: everything is handled in the end, by the rules of the lease.
func TestAnotherWorkerTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 20 {
			r.send(fmt.Sprint(i))
		}
		first := r.start(processor.Config{Concurrency: 4, DrainTimeout: processor.Off}, r.handle(takes(10*time.Second)))
		time.Sleep(5 * time.Second)
		second := r.start(processor.Config{Concurrency: 4}, r.handle(takes(time.Second)))
		r.end(first)
		time.Sleep(time.Minute)
		r.end(second)
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 20, "queue_shutdown_released_messages_total": 4})
	})
}

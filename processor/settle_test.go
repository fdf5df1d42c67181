package processor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestTheHandlerMaySettleTheMessageItself(t *testing.T) {
	tests := map[string]struct {
		settle       func(context.Context, *processor.Message) error
		then         error
		main, poison int
		want         map[string]float64
	}{
		"complete": {
			func(ctx context.Context, m *processor.Message) error { return m.Complete(ctx) }, nil, 0, 0,
			map[string]float64{
				"queue_messages_processed_total":                                     1,
				"queue_message_processing_duration_seconds{queue_outcome=completed}": 1,
			},
		},
		"complete, then fail": {
			func(ctx context.Context, m *processor.Message) error { return m.Complete(ctx) }, errBroken, 0, 0,
			map[string]float64{
				"queue_messages_processed_total":                1,
				"queue_messages_failed_total":                   1,
				"queue_message_retries_total{category=handler}": 0,
			},
		},
		"abandon": {
			func(ctx context.Context, m *processor.Message) error { return m.Abandon(ctx, time.Hour) }, nil, 1, 0,
			map[string]float64{
				"queue_messages_processed_total":                                     0,
				"queue_messages_failed_total":                                        0,
				"queue_message_retries_total{category=handler}":                      1,
				"queue_message_processing_duration_seconds{queue_outcome=abandoned}": 1,
			},
		},
		"dead-letter": {
			func(ctx context.Context, m *processor.Message) error { return m.DeadLetter(ctx, "no such customer") }, nil, 0, 1,
			map[string]float64{
				"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}":   1,
				"queue_messages_failed_total":                                            0,
				"queue_message_processing_duration_seconds{queue_outcome=dead_lettered}": 1,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.runFor(10*time.Minute, processor.Config{}, r.handle(func(ctx context.Context, m *processor.Message) error {
					ctx, cancel := context.WithCancel(ctx)
					cancel() // settling goes through all the same
					if err := test.settle(ctx, m); err != nil {
						t.Error(err)
					}
					if err := m.Complete(ctx); !errors.Is(err, queue.ErrSettled) {
						t.Errorf("settling twice: %v", err)
					}
					return test.then
				}))
				if n := r.calls.count(); n != 1 {
					t.Errorf("%d calls, want 1", n)
				}
				r.left(test.main, test.poison)
				r.counted(test.want)
				if test.poison > 0 {
					if rec := r.poisoned()[0]; rec.Category != "handler" || rec.Reason != "no such customer" {
						t.Errorf("record %+v", rec)
					}
				}
			})
		})
	}
}

func TestAHandlersDeadLetterThatFailsIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Times: 1, Status: 403, Code: "AuthorizationPermissionMismatch"})
		r.runFor(time.Second, processor.Config{}, r.handle(func(ctx context.Context, m *processor.Message) error {
			if err := m.DeadLetter(ctx, "first"); err == nil {
				t.Error("the copy was refused, and nobody told")
			}
			return m.DeadLetter(ctx, "second")
		}))
		r.left(0, 1)
		r.counted(map[string]float64{
			"queue_dead_letter_failures_total{stage=send}":                         1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}": 1,
		})
	})
}

func TestAHandlerThatFindsItsLeaseLostWhenSettling(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Times: 1, Status: 404, Code: "MessageNotFound"})
		r.runFor(time.Second, processor.Config{}, r.handle(func(ctx context.Context, m *processor.Message) error {
			if err := m.Complete(ctx); !errors.Is(err, queue.ErrLeaseLost) {
				t.Errorf("complete: %v", err)
			}
			if err := context.Cause(ctx); !errors.Is(err, queue.ErrLeaseLost) {
				t.Errorf("the context's cause is %v", err)
			}
			return ctx.Err()
		}))
		r.counted(map[string]float64{
			"queue_pop_receipt_conflicts_total{operation=delete}":                 1,
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
			"queue_messages_failed_total":                                         0,
		})
	})
}

func TestWithManualSettleNothingIsSettledForTheHandler(t *testing.T) {
	ends := map[string]struct {
		end    func(context.Context, *processor.Message) error
		failed float64
		log    string
	}{
		"it returns": {succeed, 0, "handler returned without settling the message; it comes back when its lease lapses"},
		"it fails":   {fail, 1, "handler failed without settling the message; it comes back when its lease lapses"},
		"it panics":  {func(context.Context, *processor.Message) error { panic("x") }, 1, "handler failed without settling the message; it comes back when its lease lapses"},
	}
	for name, test := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				run := r.start(fast(processor.Config{ManualSettle: true, VisibilityTimeout: 40 * time.Second}), r.handle(func(ctx context.Context, m *processor.Message) error {
					if m.Attempt() > 1 {
						return m.Complete(ctx)
					}
					return test.end(ctx, m)
				}))
				time.Sleep(30 * time.Second)
				if held := run.Status().Held; held != 1 {
					t.Errorf("%d messages held, want the one whose lease still runs", held)
				}
				time.Sleep(30 * time.Second)
				r.end(run)
				if gaps := r.calls.gaps(); len(gaps) != 1 || gaps[0] != 40*time.Second {
					t.Errorf("delivered again after %v, want the lease of 40s", gaps)
				}
				r.left(0, 0)
				r.logged(test.log, 1)
				r.counted(map[string]float64{
					"queue_messages_failed_total":                                        test.failed,
					"queue_messages_processed_total":                                     1,
					"queue_message_processing_duration_seconds{queue_outcome=abandoned}": 1,
				})
			})
		})
	}
}

func TestWithManualSettleMessagesAreStillQuarantined(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("not a number")
		r.runFor(time.Second, processor.Config{ManualSettle: true}, processor.Typed(func(context.Context, *processor.Job[int]) error {
			t.Error("the handler was called")
			return nil
		}))
		r.left(0, 1)
	})
}

// B48: a delete whose response was lost fails with 404 for ever.
func TestADeleteWhoseResponseWasLostIsACompletion(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Times: 1, DropResponse: true})
		r.runFor(time.Minute, processor.Config{}, r.handle(succeed))
		r.left(0, 0)
		r.counted(map[string]float64{
			"queue_messages_processed_total":                                     1,
			"queue_ambiguous_deletes_total":                                      1,
			"queue_message_processing_duration_seconds{queue_outcome=completed}": 1,
		})
	})
}

// The work is done, so the delete is owed for as long as the lease can be kept.
func TestADeleteThatStorageRefusesIsTriedAgainWhileTheLeaseLasts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		mend := r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 500})
		run := r.start(processor.Config{VisibilityTimeout: 30 * time.Second}, r.handle(succeed))
		time.Sleep(2 * time.Minute)
		mend()
		time.Sleep(30 * time.Second)
		r.end(run)
		r.left(0, 0)
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
		r.logged("delete failed; trying again while the lease lasts", 1)
		r.logged("deletes work again", 1)
	})
}

func TestADeleteThatStorageRefusesForGoodIsGivenUpAndDeliveredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationPermissionMismatch"})
		r.runFor(time.Hour, processor.Config{MaxDequeueCount: 2}, r.handle(succeed))
		if n := r.calls.count(); n != 2 {
			t.Errorf("%d calls, want as many as allowed", n)
		}
		r.counted(map[string]float64{
			"queue_messages_processed_total":                                      0,
			"queue_messages_failed_total":                                         0,
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 2,
		})
		if lines := r.logs.find("message handled but not deleted; it will be delivered again"); len(lines) != 2 || lines[0]["level"] != "ERROR" {
			t.Errorf("told as %v", lines)
		}
	})
}

// Nobody received the message while it was free to be, so the service takes the delete.
func TestADeleteIsTriedOnceMoreAfterTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		mend := r.srv.Inject(queuetest.Fault{Refuse: true, Match: func(op queuetest.Op) bool { return op.Operation != queuetest.OpReceive }})
		run := r.start(processor.Config{VisibilityTimeout: 20 * time.Second}, r.handle(succeed))
		time.Sleep(time.Second)
		run.Pause()
		time.Sleep(20 * time.Second)
		mend()
		time.Sleep(10 * time.Second)
		r.left(0, 0)
		r.end(run)
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
	})
}

// A total outage: deletes and renewals fail until the lease is over, and then some.
func TestAnOutageAfterTheWorkEndsInAnotherDelivery(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{}, r.handle(takes(time.Second)))
		time.Sleep(500 * time.Millisecond)
		mend := r.srv.Inject(queuetest.Fault{Refuse: true})
		time.Sleep(30 * time.Minute)
		if s := run.Status(); s.Handlers != 0 || s.Held != 0 {
			t.Errorf("after the lease is over: %+v", s)
		}
		mend()
		time.Sleep(2 * time.Minute)
		r.end(run)
		r.left(0, 0)
		if n := r.calls.count(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

// Deletes that fail must not pile up messages: receiving waits.
func TestReceivingWaitsWhenSettlingFallsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 100 {
			r.send("m")
		}
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 500})
		run := r.start(processor.Config{Concurrency: 4}, r.handle(succeed))
		time.Sleep(2 * time.Minute)
		if n := r.calls.count(); n > 8 {
			t.Errorf("%d messages were taken while none could be deleted, want at most 8", n)
		}
		r.end(run)
	})
}

func TestAMessageThatCannotBeReleasedComesBackByItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Status: 403, Code: "AuthorizationPermissionMismatch"})
		r.runFor(2*time.Minute, fast(processor.Config{MaxDequeueCount: 2}), r.handle(fail)) // B33: 403 on update
		if gaps := r.calls.gaps(); len(gaps) != 1 || gaps[0] < time.Minute || gaps[0] > 61*time.Second {
			t.Errorf("delivered again after %v, want the lease of 1m", gaps)
		}
		r.left(0, 1)
		r.logged("release failed; the message comes back when its lease lapses", 1)
	})
}

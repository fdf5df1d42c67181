package processor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// B15, B79: a handler of three leases; the strict service refuses every receipt but the newest.
func TestALongHandlerKeepsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("long")
		run := r.start(processor.Config{VisibilityTimeout: 30 * time.Second, Concurrency: 2}, r.handle(takes(91*time.Second)))
		for range 90 {
			time.Sleep(time.Second)
			if m := r.srv.Messages(queuetest.AccountName, "orders"); len(m) != 1 || m[0].Visible {
				t.Fatalf("the message is %+v while its handler runs", m)
			}
		}
		time.Sleep(2 * time.Second)
		r.end(run)
		r.left(0, 0)
		if n := r.calls.count(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
		if n := r.requests(queuetest.OpDelete); n != 1 {
			t.Errorf("%d deletes, want 1", n)
		}
		r.counted(map[string]float64{
			"queue_lease_renewals_total":                          6, // at 15, 30, … 90 s
			"queue_messages_processed_total":                      1,
			"queue_pop_receipt_conflicts_total{operation=delete}": 0,
		})
	})
}

func TestRenewalLeavesTheMessageAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const body = `{"name":"<&>  é", "n": 1}`
		r.send(body)
		run := r.start(processor.Config{VisibilityTimeout: 10 * time.Second}, r.handle(takes(25*time.Second)))
		time.Sleep(20 * time.Second)
		if got := r.srv.Texts(queuetest.AccountName, "orders"); len(got) != 1 || got[0] != body {
			t.Errorf("after renewals the text is %q", got)
		}
		r.end(run)
	})
}

// Renewals that hang must not cost each other their leases.
func TestASlowRenewalDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 8 {
			r.send(fmt.Sprint(i))
		}
		r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Times: 8, Hang: true})
		r.runFor(70*time.Second, processor.Config{VisibilityTimeout: 20 * time.Second, Concurrency: 8}, r.handle(takes(time.Minute)))
		if n := r.calls.count(); n != 8 {
			t.Errorf("%d handler calls, want 8", n)
		}
		r.counted(map[string]float64{"queue_messages_processed_total": 8, "queue_lease_renewal_failures_total{reason=lost}": 0})
	})
}

func TestAHungRenewalIsCutOffInTimeForAnother(t *testing.T) {
	for _, lease := range []time.Duration{8 * time.Second, 30 * time.Second, 10 * time.Minute} {
		t.Run(fmt.Sprint("a lease of ", lease), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Times: 1, Hang: true})
				r.runFor(2*lease, processor.Config{VisibilityTimeout: lease}, r.handle(takes(3*lease/2)))
				if n := r.calls.count(); n != 1 {
					t.Errorf("%d handler calls, want 1", n)
				}
				r.counted(map[string]float64{"queue_messages_processed_total": 1})
			})
		})
	}
}

func TestAFailedRenewalIsTriedAgainWithinTheLease(t *testing.T) {
	faults := map[string]queuetest.Fault{
		"throttled": queuetest.Busy(0),
		"network":   {Refuse: true},
		"other":     {Status: 500},
	}
	for reason, fault := range faults {
		t.Run(reason, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				fault.Operation = queuetest.OpUpdate
				mend := r.inject(fault)
				run := r.start(processor.Config{VisibilityTimeout: time.Minute}, r.handle(takes(2*time.Minute)))
				time.Sleep(55 * time.Second) // the first renewal was due after 30 s
				mend()
				time.Sleep(66 * time.Second)
				r.end(run)
				r.left(0, 0)
				if r.calls.count() != 1 {
					t.Errorf("the handler ran %d times, want once", r.calls.count())
				}
				if n := r.metric("queue_lease_renewal_failures_total", "reason", reason); n < 2 {
					t.Errorf("%v failures of reason %s counted, want some", n, reason)
				}
				warned := 0
				for _, l := range r.logs.find("lease renewal failed; trying again") {
					if l["level"] == "WARN" {
						warned++
					}
				}
				if warned != 1 {
					t.Errorf("%d warnings, want one for the incident", warned)
				}
			})
		})
	}
}

// B17: the lease lapses, someone else has the message. No delete with a dead receipt.
func TestALostLeaseCancelsTheHandlerAndDeletesNothing(t *testing.T) {
	faults := map[string]queuetest.Fault{
		"message not found":    {Status: 404, Code: "MessageNotFound"},
		"pop receipt mismatch": {Status: 400, Code: "PopReceiptMismatch"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				fault.Operation, fault.Times = queuetest.OpUpdate, 1
				r.inject(fault)
				var cause atomic.Value
				run := r.start(processor.Config{VisibilityTimeout: 10 * time.Minute}, r.handle(func(ctx context.Context, _ *processor.Message) error {
					<-ctx.Done()
					cause.Store(context.Cause(ctx))
					return nil // as if the work were done all the same
				}))
				time.Sleep(5*time.Minute + time.Second)
				synctest.Wait()
				if err, _ := cause.Load().(error); !errors.Is(err, queue.ErrLeaseLost) || errors.Is(err, processor.ErrLeaseLapsed) {
					t.Errorf("the handler's context ended with cause %v, want lease lost", err)
				}
				r.end(run)
				if n := r.requests(queuetest.OpDelete); n != 0 {
					t.Errorf("%d deletes with a dead receipt", n)
				}
				r.counted(map[string]float64{
					"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
					"queue_lease_renewal_failures_total{reason=lost}":                     1,
					"queue_messages_processed_total":                                      0,
					"queue_messages_failed_total":                                         0,
				})
				r.logged("lease lost; handler cancelled", 1)
			})
		})
	}
}

func TestALeaseFoundLostByTheDeleteIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Times: 1, Status: 404, Code: "MessageNotFound"})
		r.runFor(time.Second, processor.Config{}, r.handle(succeed))
		r.counted(map[string]float64{
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
			"queue_pop_receipt_conflicts_total{operation=delete}":                 1,
			"queue_messages_processed_total":                                      0,
		})
		r.logged("lease lost before the message was settled; it may be handled twice", 1)
	})
}

func TestALeaseFoundLostByTheRetryIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Times: 1, Status: 400, Code: "PopReceiptMismatch"})
		r.runFor(time.Second, processor.Config{}, r.handle(fail))
		r.counted(map[string]float64{
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
			"queue_pop_receipt_conflicts_total{operation=update}":                 1,
			"queue_messages_failed_total":                                         1,
		})
	})
}

// Renewals fail until the lease has lapsed: others may have the message, so the handler is cancelled.
func TestALeaseThatLapsesCancelsTheHandler(t *testing.T) {
	tests := map[string]struct {
		cfg   processor.Config
		fault *queuetest.Fault
		after time.Duration // from receipt
	}{
		"renewals fail":       {processor.Config{VisibilityTimeout: 20 * time.Second}, &queuetest.Fault{Operation: queuetest.OpUpdate, Status: 500}, 20 * time.Second},
		"renewals hang":       {processor.Config{VisibilityTimeout: 20 * time.Second}, &queuetest.Fault{Operation: queuetest.OpUpdate, Hang: true}, 20 * time.Second},
		"renewal is off":      {processor.Config{VisibilityTimeout: 20 * time.Second, NoRenew: true}, nil, 20 * time.Second},
		"the longest is over": {processor.Config{VisibilityTimeout: 20 * time.Second, MaxRenewal: 65 * time.Second}, nil, 80 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				if test.fault != nil {
					r.inject(*test.fault)
				}
				began := time.Now()
				var lasted atomic.Int64
				var cause atomic.Value
				run := r.start(test.cfg, r.handle(func(ctx context.Context, m *processor.Message) error {
					if m.Attempt() > 1 {
						return nil
					}
					<-ctx.Done()
					lasted.Store(int64(time.Since(began)))
					cause.Store(context.Cause(ctx))
					return ctx.Err()
				}))
				time.Sleep(2 * time.Minute)
				r.end(run)
				if d := time.Duration(lasted.Load()); d != test.after {
					t.Errorf("the handler was cancelled after %v, want %v", d, test.after)
				}
				if err, _ := cause.Load().(error); !errors.Is(err, processor.ErrLeaseLapsed) || !errors.Is(err, queue.ErrLeaseLost) {
					t.Errorf("cause %v, want lapsed", err)
				}
				if n := r.calls.count(); n != 2 {
					t.Errorf("%d calls, want the message delivered again", n)
				}
				r.left(0, 0)
				r.counted(map[string]float64{
					"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
					"queue_messages_failed_total":                                         0,
				})
			})
		})
	}
}

// The work is done, the lease lapsed, and nobody has received the message since: the service accepts the delete.
func TestWorkFinishedOnALapsedLeaseIsStillDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{VisibilityTimeout: 10 * time.Second, NoRenew: true}, r.handle(func(context.Context, *processor.Message) error {
			time.Sleep(15 * time.Second) // does not look at its context
			return nil
		}))
		time.Sleep(16 * time.Second)
		r.end(run)
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
	})
}

func TestWorkFinishedOnALeaseTakenOverIsNotDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{VisibilityTimeout: 10 * time.Second, NoRenew: true}, r.handle(func(context.Context, *processor.Message) error {
			time.Sleep(15 * time.Second)
			return nil
		}))
		time.Sleep(12 * time.Second)
		if got, err := r.q.Receive(t.Context(), 1, time.Hour); err != nil || len(got) != 1 {
			t.Fatalf("another receiver got %v, %v", got, err)
		}
		time.Sleep(4 * time.Second)
		r.end(run)
		r.left(1, 0)
		r.counted(map[string]float64{
			"queue_messages_processed_total":                                      0,
			"queue_pop_receipt_conflicts_total{operation=delete}":                 1,
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}": 1,
		})
	})
}

func TestAHandlerThatRunsLongIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(61*time.Minute, processor.Config{}, r.handle(takes(time.Hour)))
		if l := r.logged("handler runs long", 1)[0]; l["level"] != "WARN" || l["lasted"] != float64(10*time.Minute) {
			t.Errorf("told as %v", l)
		}
	})
}

func TestTheLongRunningWarningCanBeOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(61*time.Minute, processor.Config{LongRunningWarning: processor.Off}, r.handle(takes(time.Hour)))
		r.logged("handler runs long", 0)
	})
}

func TestWithoutRenewalNothingIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(time.Minute, processor.Config{NoRenew: true}, r.handle(takes(59*time.Second)))
		if n := r.requests(queuetest.OpUpdate); n != 0 {
			t.Errorf("%d updates", n)
		}
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
	})
}

func TestTheHandlersContextEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		var ended context.Context
		r.runFor(time.Second, processor.Config{}, r.handle(func(ctx context.Context, _ *processor.Message) error {
			ended = ctx
			return ctx.Err()
		}))
		if ended.Err() == nil {
			t.Error("the context of a handler that returned is still live")
		}
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
	})
}

func TestAHandlerMayRenewForLonger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.runFor(31*time.Minute, processor.Config{VisibilityTimeout: 30 * time.Second}, r.handle(func(ctx context.Context, m *processor.Message) error {
			if err := m.Renew(ctx, 20*time.Minute); err != nil {
				return err
			}
			return takes(19*time.Minute)(ctx, m)
		}))
		r.counted(map[string]float64{"queue_messages_processed_total": 1, "queue_lease_renewals_total": 0})
	})
}

// The lease covers the move to the poison queue as well.
func TestTheLeaseIsKeptWhileAMessageIsDeadLettered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Times: 1, Delay: 8 * time.Second})
		r.runFor(time.Minute, processor.Config{VisibilityTimeout: 4 * time.Second}, r.handle(func(context.Context, *processor.Message) error {
			return processor.Permanent(errBroken)
		}))
		r.left(0, 1)
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		if n := r.metric("queue_lease_renewals_total"); n < 3 {
			t.Errorf("%v renewals during the move, want some", n)
		}
	})
}

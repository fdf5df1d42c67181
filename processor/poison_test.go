package processor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func permanently(context.Context, *processor.Message) error { return processor.Permanent(errBroken) }

// B24: some want the poison queue at once.
func TestAPermanentErrorIsDeadLetteredOnTheFirstAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(`{"order": 1}`)
		r.runFor(time.Minute, processor.Config{}, r.handle(permanently))
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		r.left(0, 1)
		if rec := r.poisoned()[0]; rec.Category != "handler" || rec.Reason != errBroken.Error() || rec.DequeueCount != 1 {
			t.Errorf("record %+v", rec)
		}
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}":   1,
			"queue_messages_failed_total":                                            1,
			"queue_message_processing_duration_seconds{queue_outcome=dead_lettered}": 1,
			"queue_message_retries_total{category=handler}":                          0,
		})
		// B25: poison vanishes after seven days.
		if m := r.srv.Messages(queuetest.AccountName, "orders-poison")[0]; m.ExpiresAt.Year() != 9999 {
			t.Errorf("the poison copy expires at %v", m.ExpiresAt)
		}
	})
}

// B18: a base64 mismatch fills the poison queue in silence.
func TestAnUnreadableMessageIsDeadLetteredWithoutACall(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		q, err := r.acct.Queue("orders", queue.Config{Encoding: queue.EncodingBase64})
		if err != nil {
			t.Fatal(err)
		}
		const text = `{"plain":"JSON"}`
		if _, err := q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		run := r.startOn(q, processor.Config{}, r.handle(succeed))
		time.Sleep(time.Second)
		r.end(run)
		if n := r.calls.count(); n != 0 {
			t.Errorf("the handler was called %d times", n)
		}
		if diff := cmp.Diff([]string{text}, r.srv.Texts(queuetest.AccountName, "orders-poison")); diff != "" {
			t.Errorf("the poison copy is not the text as it came: %s", diff)
		}
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=deserialization}": 1,
			"queue_messages_failed_total": 0,
		})
		if l := r.logged("message dead-lettered", 1)[0]; l["level"] != "ERROR" || l["category"] != "deserialization" || l["queue"] != "orders" || l["message_id"] == nil {
			t.Errorf("logged as %v", l)
		}
	})
}

func TestAnUnreadableMessageMayBeKept(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(`{"$azqs-envelope":99,"body":1}`)
		r.runFor(time.Second, processor.Config{KeepUnreadable: true}, r.handle(func(_ context.Context, m *processor.Message) error {
			if m.Err == nil || m.Text == "" {
				t.Errorf("message %+v", m.Message)
			}
			return nil
		}))
		if n := r.calls.count(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		r.left(0, 0)
	})
}

func TestAMessageThatWaitedTooLongIsDeadLettered(t *testing.T) {
	for wait, calls := range map[time.Duration]int{59 * time.Minute: 1, 61 * time.Minute: 0} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.srv.SetClockOffset(-10 * time.Minute) // ages are the service's
				r.send("m")
				time.Sleep(wait)
				r.runFor(time.Second, processor.Config{MaxAge: time.Hour}, r.handle(succeed))
				if n := r.calls.count(); n != calls {
					t.Errorf("%d calls, want %d", n, calls)
				}
				r.left(0, 1-calls)
				if calls == 0 {
					if rec := r.poisoned()[0]; rec.Category != "max_age" || rec.Reason != "waited 1h1m0s, 1h0m0s allowed" {
						t.Errorf("record %+v", rec)
					}
					r.counted(map[string]float64{"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_age}": 1})
				}
			})
		})
	}
}

// A failed copy abandons, never drops.
func TestAMessageThatCannotBeCopiedIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		mend := r.srv.Inject(queuetest.Fault{Queue: "orders-poison", Status: 403, Code: "AuthorizationPermissionMismatch"})
		run := r.start(processor.Config{MaxDequeueCount: 2}, r.handle(permanently))
		time.Sleep(10 * time.Minute)
		r.left(1, 0)
		mend()
		time.Sleep(10 * time.Minute)
		r.end(run)
		r.left(0, 1)
		if n := r.calls.count(); n != 2 {
			t.Errorf("%d calls, want no more than allowed", n)
		}
		if n := r.metric("queue_dead_letter_failures_total", "stage", "send"); n < 3 {
			t.Errorf("%v failed copies counted, want some", n)
		}
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_dequeue}": 1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}":     0,
		})
		r.logged("dead-lettering failed; the message is retried", 1)
		r.logged("dead-lettering works again", 1)
	})
}

// B14: copied, but the original could not be deleted: another copy every ten minutes.
func TestACopiedMessageIsDeletedAsSoonAsStorageLets(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		mend := r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 500})
		run := r.start(processor.Config{}, r.handle(permanently))
		time.Sleep(2 * time.Minute) // longer than the lease, which is renewed
		mend()
		time.Sleep(10 * time.Minute)
		r.end(run)
		r.left(0, 1) // one copy
		r.counted(map[string]float64{
			"queue_dead_letter_failures_total{stage=delete}":                       1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}": 1,
		})
	})
}

func TestAfterACrashBetweenCopyAndDeleteThereIsOneLogicalEntry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		// Neither deletes nor renewals go through: the lease lapses, the message comes back.
		remove := []func(){
			r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 500}),
			r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Status: 500}),
		}
		cfg := processor.Config{VisibilityTimeout: 20 * time.Second, EmptyBackoffMax: 2 * time.Second}
		run := r.start(cfg, r.handle(permanently))
		time.Sleep(30 * time.Second) // the lease has lapsed, and the message was received again
		for _, f := range remove {
			f()
		}
		time.Sleep(5 * time.Minute)
		r.end(run)
		recs := r.poisoned()
		if len(recs) != 2 || recs[0].MessageID != recs[1].MessageID {
			t.Errorf("records %+v, want two copies of one message", recs)
		}
		// Whether the first delivery's delete, answered 500 before, counts as done as well is chance.
		r.left(0, 2)
	})
}

// The delete's answers are lost; then the renewal finds the message gone.
func TestAMoveInDoubtIsCountedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, DropResponse: true, Times: 1})
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Hang: true, Times: 7})
		r.runFor(2*time.Minute, processor.Config{VisibilityTimeout: 70 * time.Second, MaxDequeueCount: 1}, r.handle(fail))
		r.left(0, 1)
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_dequeue}": 1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}":     0,
			"queue_message_processing_duration_seconds{queue_outcome=dead_lettered}":   1,
			"queue_pop_receipt_conflicts_total{operation=delete}":                      0,
		})
	})
}

func TestAMoveThatLosesItsLeaseIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		r.inject(queuetest.Fault{Operation: queuetest.OpDelete, Times: 1, Status: 404, Code: "MessageNotFound"})
		r.runFor(time.Second, processor.Config{}, r.handle(permanently))
		r.counted(map[string]float64{
			"queue_dead_letter_failures_total{stage=delete}":                       1,
			"queue_pop_receipt_conflicts_total{operation=delete}":                  1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}": 0,
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}":  1,
		})
	})
}

func TestBadMessagesDoNotHoldUpGoodOnes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 20 {
			r.send(fmt.Sprintf(`{"$azqs-envelope":99,"body":%d}`, i))
		}
		r.send("good")
		r.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Hang: true})
		var at atomic.Int64
		began := time.Now()
		run := r.start(processor.Config{Concurrency: 32}, r.handle(func(context.Context, *processor.Message) error {
			at.Store(int64(time.Since(began)))
			return nil
		}))
		time.Sleep(time.Second)
		if r.calls.count() != 1 || at.Load() != 0 {
			t.Error("the good message waited")
		}
		r.end(run)
	})
}

package processor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestAnErrorIsDealtWithForEachMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("twice")
		if ms, err := r.q.Receive(t.Context(), 1, time.Second); err != nil || len(ms) != 1 {
			t.Fatal(ms, err)
		}
		time.Sleep(2 * time.Second)
		r.send("once", "settled", "refused", "known")
		var mu sync.Mutex
		var asked []string
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{
			Breaker: wholeBatches, Retry: processor.RetryConfig{Initial: 10 * time.Second, Jitter: processor.Off},
			Policy: processor.ErrorPolicy{Func: func(_ context.Context, m *processor.Message, err error) processor.Action {
				if !errors.Is(err, errBroken) {
					t.Errorf("asked about %v", err)
				}
				mu.Lock()
				asked = append(asked, string(m.Body))
				mu.Unlock()
				switch string(m.Body) {
				case "refused":
					return processor.Action{Verdict: processor.DeadLetter}
				case "known":
					return processor.Action{Verdict: processor.Complete}
				}
				return processor.Action{}
			}},
		}}, processor.BatchHandlerFunc(func(ctx context.Context, messages []*processor.Message) error {
			for _, m := range messages {
				if string(m.Body) == "settled" {
					if err := m.Complete(ctx); err != nil {
						t.Error(err)
					}
				}
			}
			return errBroken
		}))
		time.Sleep(time.Second)
		run.stop()
		<-run.done
		slices.Sort(asked)
		if diff := cmp.Diff([]string{"known", "once", "refused", "twice"}, asked); diff != "" {
			t.Errorf("the policy was asked about: %s", diff)
		}
		delays := map[string]time.Duration{}
		for _, l := range r.logs.find("handler failed; the message is retried") {
			delays[fmt.Sprint(l["dequeue_count"])] = time.Duration(l["delay"].(float64))
		}
		for count, want := range map[string]time.Duration{"1": 10 * time.Second, "2": 20 * time.Second} {
			if got := delays[count]; got < want-time.Second || got > want {
				t.Errorf("delivery %s is retried after %v, want %v", count, got, want)
			}
		}
		r.left(2, 1)
		r.counted(map[string]float64{
			"queue_messages_processed_total": 2, "queue_message_retries_total{category=handler}": 2,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}": 1,
		})
	})
}

func TestABatchHandlerThatPanicsOrExitsFails(t *testing.T) {
	for name, f := range map[string]func(){"panics": func() { panic("oh") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.sendMany(3)
				calls := 0
				r.batchFor(time.Minute, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches}},
					func(_ context.Context, _ []*processor.Message) error {
						if calls++; calls == 1 {
							f()
						}
						return nil
					})
				r.left(0, 0)
				r.counted(map[string]float64{"queue_messages_failed_total": 3, "queue_messages_processed_total": 3})
			})
		})
	}
}

func TestShutdownGivesAnUnfinishedBatchBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(4)
		var took time.Duration
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches, DrainTimeout: 20 * time.Second}},
			processor.BatchHandlerFunc(func(ctx context.Context, messages []*processor.Message) error {
				if err := messages[0].Complete(ctx); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), processor.ErrDraining) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				return context.Cause(ctx)
			}))
		time.Sleep(time.Second)
		began := time.Now()
		r.end(run)
		took = time.Since(began)
		if took != 20*time.Second {
			t.Errorf("shutdown took %v, want the drain timeout of 20s", took)
		}
		ms, err := r.q.Receive(t.Context(), 32, time.Minute)
		if err != nil || len(ms) != 3 {
			t.Errorf("%d messages back at once, want 3; %v", len(ms), err)
		}
		r.counted(map[string]float64{"queue_shutdown_released_messages_total": 3, "queue_messages_failed_total": 0})
	})
}

func TestABatchThatOutlivesShutdownKeepsItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(2)
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches, DrainTimeout: time.Second}},
			processor.BatchHandlerFunc(func(context.Context, []*processor.Message) error {
				time.Sleep(time.Hour)
				return nil
			}))
		time.Sleep(time.Second)
		run.stop()
		if err := <-run.done; err == nil || !strings.Contains(err.Error(), "2 handlers still running") {
			t.Errorf("Run: %v", err)
		}
		if ms, err := r.q.Receive(t.Context(), 32, time.Minute); err != nil || len(ms) != 0 {
			t.Errorf("%d messages were given away while their handler ran; %v", len(ms), err)
		}
		time.Sleep(2 * time.Hour)
		r.left(2, 0)
	})
}

func TestALostLeaseCancelsTheBatchAndSparesTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("a", "b", "c")
		causes := make(chan error, 9)
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{VisibilityTimeout: 20 * time.Second, Breaker: wholeBatches}},
			processor.BatchHandlerFunc(func(ctx context.Context, messages []*processor.Message) error {
				if messages[0].Attempt() > 1 {
					return nil
				}
				if err := messages[1].Complete(ctx); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return context.Cause(ctx)
			}))
		r.inject(queuetest.Fault{Operation: "update", Times: 1, Status: 404, Code: "MessageNotFound"}) // a renewal's
		time.Sleep(11 * time.Second)
		run.Pause()
		if cause := <-causes; !errors.Is(cause, queue.ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		ms, err := r.q.Receive(t.Context(), 32, time.Second)
		if err != nil || len(ms) > 1 {
			t.Errorf("%d messages free, want the one that was spared, unless it was received again; %v", len(ms), err)
		}
		run.Resume()
		time.Sleep(5 * time.Minute)
		r.end(run)
		r.counted(map[string]float64{
			"queue_messages_failed_total": 0, "queue_shutdown_released_messages_total": 0, "queue_messages_processed_total": 3,
			"queue_message_processing_duration_seconds{queue_outcome=lease_lost}":  1,
			"queue_message_processing_duration_seconds{queue_outcome=interrupted}": 1,
		})
		r.left(0, 0)
	})
}

// A message that fails its whole batch again and again must not take the others with it: the last
// attempt is made alone, and with the breaker batches shrink long before.
func TestOneBadMessageDoesNotTakeItsBatchToThePoisonQueue(t *testing.T) {
	for _, off := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.sendMany(19)
			r.send("bad")
			alone := 0
			r.batchFor(3*time.Hour, processor.BatchConfig{Config: processor.Config{Breaker: processor.BreakerConfig{Off: off}}},
				func(_ context.Context, messages []*processor.Message) error {
					for _, m := range messages {
						if m.LastAttempt() && len(messages) == 1 {
							alone++
						} else if m.LastAttempt() {
							t.Error("a last attempt in company")
						}
					}
					if slices.Contains(bodies(messages), "bad") {
						return errBroken
					}
					return nil
				})
			r.left(0, 1)
			r.counted(map[string]float64{"queue_messages_processed_total": 19})
			if alone == 0 {
				t.Error("nothing was handled alone")
			}
		})
	}
}

func TestWhatAwaitsItsTurnIsGivenBackAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(3)
		if ms, err := r.q.Receive(t.Context(), 3, time.Second); err != nil || len(ms) != 3 {
			t.Fatal(ms, err)
		}
		time.Sleep(2 * time.Second)
		calls, asked := 0, 0
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{
			Breaker: wholeBatches, MaxDequeueCount: 2, DrainTimeout: 10 * time.Second, VisibilityTimeout: 5 * time.Second,
			Policy: processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action {
				asked++
				return processor.Action{}
			}},
		}}, processor.BatchHandlerFunc(func(ctx context.Context, _ []*processor.Message) error {
			calls++
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		time.Sleep(time.Minute)
		if st := run.Status(); st.Handlers != 3 {
			t.Errorf("%d messages in hand, want 3", st.Handlers)
		}
		r.end(run)
		if calls != 1 || asked != 1 {
			t.Errorf("called %d times, the policy %d times; want the first message's alone", calls, asked)
		}
		if ms, err := r.q.Receive(t.Context(), 32, time.Minute); err != nil || len(ms) != 3 {
			t.Errorf("%d messages back, want 3; %v", len(ms), err)
		}
		r.counted(map[string]float64{"queue_shutdown_released_messages_total": 3, "queue_messages_failed_total": 0})
	})
}

func TestAnOutageCostsABatchsMessagesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(100)
		began := time.Now()
		calls := 0
		r.batchFor(time.Hour, processor.BatchConfig{}, func(context.Context, []*processor.Message) error {
			calls++
			if time.Since(began) < 10*time.Minute {
				return processor.Unavailable(errBroken)
			}
			return nil
		})
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 100})
		if calls > 60 {
			t.Errorf("%d calls for 100 messages and ten minutes of outage", calls)
		}
	})
}

package processor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p, err := processor.New(r.q, processor.HandlerFunc(succeed), processor.Config{Concurrency: 3})
		if err != nil {
			t.Fatal(err)
		}
		want := processor.Status{Account: account, Queue: "orders", State: processor.StateWaiting, MaxHandlers: 3}
		if diff := cmp.Diff(want, p.Status()); diff != "" {
			t.Errorf("before Run: %s", diff)
		}

		r.send("one", "two")
		run := r.start(processor.Config{Concurrency: 3}, r.handle(takes(time.Minute)))
		began := time.Now()
		time.Sleep(10 * time.Second)
		s := run.Status()
		if !s.LastReceive.Before(time.Now()) || s.LastReceive.Before(began) || time.Since(s.LastTurn) > 10*time.Second {
			t.Errorf("last receive %v, last turn %v", s.LastReceive, s.LastTurn)
		}
		s.LastReceive, s.LastTurn = time.Time{}, time.Time{}
		want = processor.Status{Account: account, Queue: "orders", State: processor.StateRunning, Handlers: 2, MaxHandlers: 3, OldestHandler: 10 * time.Second, Held: 2}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("running: %s", diff)
		}
		r.counted(map[string]float64{
			"queue_processor_active_handlers":            2,
			"queue_processor_max_handlers":               3,
			"queue_processor_oldest_handler_age_seconds": 10,
			"queue_processor_paused":                     0,
		})
		time.Sleep(time.Minute)
		if s := run.Status(); s.Handlers != 0 || s.Held != 0 || s.OldestHandler != 0 {
			t.Errorf("idle: %+v", s)
		}
		r.end(run)
	})
}

// What is known to be hidden, for the watcher: leases, and messages in our own retry delays.
func TestHeldCountsRetryDelays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 10 {
			r.send(fmt.Sprint(i))
		}
		run := r.start(processor.Config{Concurrency: 10, Retry: processor.RetryConfig{Initial: 10 * time.Minute, Max: time.Hour}}, r.handle(func(_ context.Context, m *processor.Message) error {
			switch string(m.Body) {
			case "0", "1", "2", "3":
				return errBroken
			case "4":
				return processor.RetryAfter(2*time.Minute, errBroken)
			case "5":
				return m.Abandon(t.Context(), 4*time.Minute)
			}
			return nil
		}))
		for _, at := range []struct {
			wait time.Duration
			held int
		}{{time.Minute, 6}, {2 * time.Minute, 6}, {2 * time.Minute, 5}} { // the one of 2 m fails again, the one of 4 m is given back
			time.Sleep(at.wait)
			synctest.Wait()
			hidden := 0
			for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
				if !m.Visible {
					hidden++
				}
			}
			if held := run.Status().Held; held != hidden {
				t.Errorf("%d held, %d are hidden", held, hidden)
			}
		}
		r.end(run)
	})
}

func TestStates(t *testing.T) {
	var got []string
	for s := processor.StateWaiting; s <= processor.StateStopped+1; s++ {
		got = append(got, s.String())
	}
	if diff := cmp.Diff([]string{"waiting", "running", "paused", "draining", "stopped", "unknown"}, got); diff != "" {
		t.Error(diff)
	}
}

// P18: handlers get a logger that carries the scope.
func TestTheHandlersLoggerCarriesTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, queue.Config{PropagateTraceContext: true})
		const trace = "0af7651916cd43dd8448eb211c80319c"
		parent := "00-" + trace + "-b7ad6b7169203331-01"
		if _, err := r.q.Send(queue.ContextWithTrace(t.Context(), queue.TraceContext{Parent: parent, State: "a=b"}), "m", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		var id string
		r.runFor(time.Second, processor.Config{}, r.handle(func(ctx context.Context, m *processor.Message) error {
			id = m.ID
			m.Log().Info("at work")
			if got := queue.TraceFromContext(ctx); got.Parent != parent || got.State != "a=b" {
				t.Errorf("the context carries %+v", got)
			}
			return nil
		}))
		l := r.logged("at work", 1)[0]
		delete(l, "time")
		want := line{"level": "INFO", "msg": "at work", "account": account, "queue": "orders", "message_id": id, "dequeue_count": 1.0, "trace_id": trace}
		if diff := cmp.Diff(want, l); diff != "" {
			t.Error(diff)
		}
		if l := r.logged("message completed", 1)[0]; l["level"] != "DEBUG" || l["trace_id"] != trace {
			t.Errorf("completion was logged as %v", l)
		}
	})
}

func TestHealthyMessagesAreQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two", "three")
		var buf bytes.Buffer
		r.runFor(time.Hour, processor.Config{Logger: slog.New(slog.NewTextHandler(&buf, nil))}, r.handle(succeed))
		if buf.Len() != 0 {
			t.Errorf("an uneventful hour was told:\n%s", buf.String())
		}
	})
}

func TestLateness(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.srv.SetClockOffset(10 * time.Minute) // waits are by the service's clock
		r.send("late")
		time.Sleep(3 * time.Minute)
		r.send("in time")
		time.Sleep(time.Minute)
		r.runFor(5*time.Minute, processor.Config{Objective: 2 * time.Minute, Concurrency: 2, MaxDequeueCount: 3}, r.handle(fail))
		r.counted(map[string]float64{
			"queue_messages_started_total":        2, // first deliveries
			"queue_messages_late_total":           1,
			"queue_message_time_in_queue_seconds": 6, // every start
		})
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "queue_message_time_in_queue_seconds" {
				continue
			}
			if sum := f.GetMetric()[0].GetHistogram().GetSampleSum(); sum < 800 || sum > 1000 {
				t.Errorf("the waits add up to %v s, want 4+1 minutes, thrice, and the retry delays", sum)
			}
		}
	})
}

func TestAClosedProcessorLeavesNoSeries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(time.Second)
		r.end(run)
		r.counted(map[string]float64{"queue_messages_processed_total": 1})
		run.Close()
		families, err := r.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if strings.Contains(m.String(), "orders") {
					t.Errorf("%s still has %s", f.GetName(), m)
				}
			}
		}
	})
}

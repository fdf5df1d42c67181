package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

type order struct {
	ID    string `json:"id"`
	Total int    `json:"total"`
}

func (o order) Validate() error {
	switch {
	case o.Total < 0:
		return fmt.Errorf("total is negative")
	case o.ID == "panic":
		panic("validation gone wrong")
	}
	return nil
}

func TestATypedHandlerGetsTheBody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(order{ID: "a", Total: 42}, `{"ID":"b","total":"43"}`) // the second as other writers would
		var got []order
		r.runFor(time.Second, processor.Config{}, processor.Typed(func(_ context.Context, j *processor.Job[order]) error {
			if j.ID == "" || j.Attempt() != 1 {
				t.Errorf("job %+v", j)
			}
			got = append(got, j.Value)
			return nil
		}))
		if diff := cmp.Diff([]order{{"a", 42}, {"b", 43}}, got); diff != "" {
			t.Error(diff)
		}
		r.left(0, 0)
	})
}

func TestABodyThatDoesNotFitIsDeadLetteredWithoutACall(t *testing.T) {
	bodies := map[string]struct{ body, category string }{
		"not JSON":      {"hello", "deserialization"},
		"another shape": {`{"id": 7}`, "deserialization"},
		"empty":         {"", "deserialization"},
		"not valid":     {`{"id":"a","total":-1}`, "handler"},
	}
	never := processor.Typed(func(context.Context, *processor.Job[order]) error { panic("called") })
	handlers := map[string]processor.Handler{
		"by itself":              never,
		"behind another handler": processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return never.Handle(ctx, m) }),
	}
	for name, test := range bodies {
		for where, h := range handlers {
			t.Run(name+", "+where, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.send(test.body)
					r.runFor(time.Minute, processor.Config{}, h)
					r.left(0, 1)
					if rec := r.poisoned()[0]; rec.Category != test.category || rec.DequeueCount != 1 {
						t.Errorf("record %+v", rec)
					}
					want := map[string]float64{
						"queue_messages_dead_lettered_total{queue_dead_letter_reason=" + test.category + "}": 1,
						"queue_message_retries_total{category=handler}":                                      0,
					}
					if where == "by itself" {
						want["queue_messages_started_total"] = 0
						want["queue_messages_failed_total"] = 0
						want["queue_message_processing_duration_seconds{queue_outcome=dead_lettered}"] = 0
					}
					r.counted(want)
				})
			})
		}
	}
}

func TestAPanicWhileReadingABodyIsAFailedAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(order{ID: "panic"}, order{ID: "good"})
		n := 0
		r.runFor(time.Minute, processor.Config{MaxDequeueCount: 2}, processor.Typed(func(context.Context, *processor.Job[order]) error { n++; return nil }))
		if n != 1 {
			t.Errorf("%d calls, want the good one", n)
		}
		r.left(0, 1)
		r.counted(map[string]float64{"queue_messages_failed_total": 2, "queue_message_retries_total{category=panic}": 1})
	})
}

func TestATypedHandlerMayTakeBodiesAsTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("plain text")
		r.runFor(time.Second, processor.Config{}, processor.Typed(func(_ context.Context, j *processor.Job[string]) error {
			if j.Value != "plain text" {
				t.Errorf("got %q", j.Value)
			}
			return nil
		}))
		r.left(0, 0)
	})
}

func TestAHandlerCanBeCalledWithoutAProcessor(t *testing.T) {
	m := &processor.Message{Message: &queue.Message{ID: "x", DequeueCount: 3, Body: []byte(`{"id":"a","total":1}`)}}
	h := processor.Typed(func(_ context.Context, j *processor.Job[order]) error {
		j.Log().Info("seen")
		if j.Value.ID != "a" || j.Attempt() != 3 || j.LastAttempt() {
			t.Errorf("job %+v", j)
		}
		return j.Complete(t.Context())
	})
	if err := h.Handle(t.Context(), m); !errors.Is(err, queue.ErrNotLeased) {
		t.Errorf("completing a message that was never received: %v", err)
	}
	if err := m.Abandon(t.Context(), 0); !errors.Is(err, queue.ErrNotLeased) {
		t.Error(err)
	}
	if err := m.Renew(t.Context(), time.Minute); !errors.Is(err, queue.ErrNotLeased) {
		t.Error(err)
	}
}

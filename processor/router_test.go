package processor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func (r *rig) sendTyped(messageType string, body any) {
	r.t.Helper()
	if _, err := r.q.Send(r.t.Context(), body, queue.SendOptions{MessageType: messageType}); err != nil {
		r.t.Fatal(err)
	}
}

func TestMessagesAreRoutedByType(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var got, trail []string
		router := processor.NewRouter()
		processor.Route(router, "OrderCreated", func(_ context.Context, job *processor.Job[order]) error {
			got = append(got, "created "+job.Value.ID)
			return nil
		})
		processor.Route(router, "note", func(_ context.Context, job *processor.Job[string]) error {
			got = append(got, fmt.Sprint("note ", job.Value, " ", job.Attempt()))
			if job.Attempt() == 1 {
				return errBroken
			}
			return nil
		})
		r.sendTyped("OrderCreated", order{ID: "a"})
		r.sendTyped("note", "hello")
		r.sendTyped("OrderCreated", "not an order")
		r.sendTyped("ordercreated", order{ID: "b"})
		r.send(order{ID: "c"})
		r.runFor(time.Minute, processor.Config{Middleware: []processor.Middleware{through(&trail, "m")}}, router)

		if diff := cmp.Diff([]string{"created a", "note hello 1", "note hello 2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(trail) != 6 {
			t.Errorf("middleware ran as %v", trail)
		}
		reasons := map[string]string{}
		for _, rec := range r.poisoned() {
			reasons[rec.Reason] = rec.Category
			if rec.DequeueCount != 1 {
				t.Errorf("record %+v", rec)
			}
		}
		for reason, category := range reasons {
			if strings.HasPrefix(reason, "decode ") || category == "deserialization" {
				delete(reasons, reason)
			}
		}
		want := map[string]string{`nothing is routed for messages of type "ordercreated"`: "unroutable", "the message has no type": "unroutable"}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Errorf("poison (-want +got):\n%s", diff)
		}
		r.left(0, 3)
		r.counted(map[string]float64{
			"queue_messages_started_total":                                                 2,
			"queue_messages_failed_total":                                                  1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=unroutable}":      2,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=deserialization}": 1,
		})
		r.logged(opened, 0)
	})
}

func TestTheTypeHeaderCanBeNamed(t *testing.T) {
	bubble(t, func(t *testing.T, _ *rig) {
		r := newRig(t, queue.Config{TypeHeader: "kind"})
		n := 0
		router := processor.NewRouter()
		processor.Route(router, "a", func(context.Context, *processor.Job[string]) error { n++; return nil })
		r.sendTyped("a", "x")
		r.runFor(time.Second, processor.Config{}, router)
		if n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// Reached through another handler, the router reads the message itself.
func TestARouterCanStandBehindAnotherHandler(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		n := 0
		router := processor.NewRouter()
		processor.Route(router, "a", func(context.Context, *processor.Job[string]) error { n++; return nil })
		r.sendTyped("a", "x")
		r.sendTyped("b", "x")
		r.runFor(time.Second, processor.Config{}, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return router.Handle(ctx, m) }))
		if n != 1 {
			t.Errorf("%d calls", n)
		}
		r.left(0, 1)
		if rec := r.poisoned()[0]; rec.Category != "unroutable" {
			t.Errorf("record %+v", rec)
		}
	})
}

func TestAMessageThatCannotBeReadHasNoRoute(t *testing.T) {
	bubble(t, func(t *testing.T, _ *rig) {
		r := newRig(t, queue.Config{Encoding: queue.EncodingBase64})
		router := processor.NewRouter()
		processor.Route(router, "a", func(context.Context, *processor.Job[string]) error { t.Error("called"); return nil })
		if _, err := r.q.SendText(t.Context(), "not base64!", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		r.runFor(time.Second, processor.Config{KeepUnreadable: true}, router)
		r.left(0, 1)
		r.counted(map[string]float64{"queue_messages_dead_lettered_total{queue_dead_letter_reason=deserialization}": 1})
	})
}

func TestFaultyRoutesAreRefused(t *testing.T) {
	r := newRig(t, queue.Config{})
	if _, err := processor.New(r.q, processor.NewRouter(), processor.Config{}); err == nil || !strings.Contains(err.Error(), "the router has no routes") {
		t.Errorf("error %v", err)
	}
	router := processor.NewRouter()
	ok := func(context.Context, *processor.Job[string]) error { return nil }
	processor.Route(router, "", ok)
	processor.Route(router, "a", ok)
	processor.Route(router, "a", ok)
	processor.Route[string](router, "b", nil)
	_, err := processor.New(r.q, router, processor.Config{})
	for _, want := range []string{"a route names no message type", `two routes lead from type "a"`, `the route from type "b" leads to a nil function`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

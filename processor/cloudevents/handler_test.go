package cloudevents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/cloudevents"
	"github.com/qwatch/qwatch/queue"
)

type order struct {
	OrderID string
	Total   int
}

func (o order) Validate() error {
	if o.Total < 0 {
		return errors.New("the total is negative")
	}
	return nil
}

// of is an event of a type with data.
func of(id, eventType, data string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"/shop","type":"` + eventType + `","data":` + data + `}`
}

func TestTheHandlerGetsDataAndEvent(t *testing.T) {
	for _, enc := range []queue.Encoding{queue.EncodingNone, queue.EncodingBase64} {
		bubble(t, queue.Config{Encoding: enc}, func(t *testing.T, r *rig) {
			var got []string
			h := cloudevents.Handler(func(_ context.Context, e *cloudevents.Event[order]) error {
				got = append(got, fmt.Sprintf("%s %s %s %s %s %+v attempt %d", e.ID(), e.Type(), e.Source(), e.Subject(), e.Time().Format("15:04"), e.Value, e.Message.Attempt()))
				return e.Err
			})
			r.deliver(h, processor.Config{},
				`{"specversion":"1.0","id":"1","source":"/shop","type":"created","subject":"s","time":"2026-01-02T03:04:05Z","data":{"orderId":"a","total":"42"}}`,
				`{"id":"2","topic":"/grid","eventType":"created","subject":"t","eventTime":"2026-01-02T03:05:05Z","dataVersion":"1","data":{"orderId":"b","total":43}}`)
			want := []string{"1 created /shop s 03:04 {OrderID:a Total:42} attempt 1", "2 created /grid t 03:05 {OrderID:b Total:43} attempt 1"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			r.left(0, 0)
		})
	}
}

func TestDataComeAsTheFunctionsType(t *testing.T) {
	text := func(media, data string) string {
		return `{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"` + media + `",` + data + `}`
	}
	check := func(t *testing.T, body string, h processor.Handler, called *bool) {
		t.Helper()
		bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
			r.deliver(h, processor.Config{}, body)
			r.left(0, 0)
		})
		if !*called {
			t.Errorf("not called for %s", body)
		}
	}
	expect := func(t *testing.T, body string, want any, h func(called *bool, want any) processor.Handler) {
		t.Helper()
		var called bool
		check(t, body, h(&called, want), &called)
	}
	expect(t, text("application/octet-stream", `"data_base64":"AAH/"`), []byte{0, 1, 255}, gets[[]byte](t))
	expect(t, text("text/csv", `"data":"a,b"`), []byte("a,b"), gets[[]byte](t))
	expect(t, text("application/json", `"data":"x"`), []byte(`"x"`), gets[[]byte](t))
	expect(t, text("text/csv", `"data":"a,b"`), "a,b", gets[string](t))
	expect(t, text("application/json", `"data":"a\"b"`), `a"b`, gets[string](t))
	expect(t, text("application/json", `"data":{"a":1}`), `{"a":1}`, gets[string](t))
	expect(t, text("application/json", `"data_base64":"eyJvcmRlcklkIjoiYSJ9"`), order{OrderID: "a"}, gets[order](t))
	expect(t, base(""), (*order)(nil), gets[*order](t))
	expect(t, base(`,"data":null`), (*order)(nil), gets[*order](t))
	expect(t, base(`,"data":{"total":1}`), &order{Total: 1}, gets[*order](t))
	expect(t, base(""), order{}, gets[order](t))
	expect(t, base(""), []byte(nil), gets[[]byte](t))
}

func gets[T any](t *testing.T) func(*bool, any) processor.Handler {
	return func(called *bool, want any) processor.Handler {
		return cloudevents.Handler(func(_ context.Context, e *cloudevents.Event[T]) error {
			*called = true
			if diff := cmp.Diff(want, any(e.Value)); diff != "" {
				t.Error(diff)
			}
			return nil
		})
	}
}

func TestWhatCannotBeReadIsDeadLetteredWithoutACall(t *testing.T) {
	h := cloudevents.Handler(func(context.Context, *cloudevents.Event[order]) error { panic("called") })
	for name, tt := range map[string]struct{ body, category, reason string }{
		"data that do not fit": {
			of("7", "created", `{"total":true}`), "deserialization",
			"event 7 of type created: unreadable message: read the body as cloudevents_test.order: a bool where field Total wants int",
		},
		"data that make no sense":     {of("7", "created", `{"total":-1}`), "handler", "event 7 of type created: the body is not valid: the total is negative"},
		"no event":                    {`{"total":1}`, "deserialization", "the body is not an event: it has neither a specversion, as a CloudEvent, nor eventType and eventTime, as Event Grid's schema"},
		"one bad event in a batch":    {"[" + of("6", "created", `{}`) + "," + of("7", "created", `"x"`) + "]", "deserialization", "event 7 of type created: unreadable message: read the body as cloudevents_test.order: a string where cloudevents_test.order is wanted"},
		"a body of another wire form": {"{\"$azqs-envelope\":9,\"body\":1}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
				r.deliver(h, processor.Config{}, tt.body)
				if tt.category == "" { // dead-lettered unchanged, without a record
					if r.srv.Len("devstoreaccount1", "events-poison") != 1 {
						t.Error("not dead-lettered")
					}
					return
				}
				got := r.left(0, 1)[0]
				if got.Category != tt.category || got.Reason != tt.reason {
					t.Errorf("dead-lettered as %s: %s\nwant %s: %s", got.Category, got.Reason, tt.category, tt.reason)
				}
				if n := r.failed(); n != 0 {
					t.Errorf("%v failures of a handler counted", n)
				}
			})
		})
	}
}

func TestUnreadableEventsAreHandledOnRequest(t *testing.T) {
	bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
		var got []string
		h := cloudevents.Handler(func(_ context.Context, e *cloudevents.Event[order]) error {
			if e.Err == nil || e.Value != (order{}) {
				t.Errorf("value %v, error %v", e.Value, e.Err)
			}
			got = append(got, e.ID())
			return nil
		})
		r.deliver(h, processor.Config{KeepUnreadable: true, Concurrency: 1}, of("7", "created", `{"orderId":"a","total":true}`), "hello")
		if diff := cmp.Diff([]string{"7", ""}, got); diff != "" {
			t.Error(diff)
		}
		r.left(0, 0)
	})
}

func TestTheRouterLeadsByType(t *testing.T) {
	bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
		var got []string
		h, err := cloudevents.NewRouter(
			cloudevents.On("created", func(_ context.Context, e *cloudevents.Event[order]) error {
				got = append(got, "created "+e.Value.OrderID)
				return nil
			}),
			cloudevents.On("renamed", func(_ context.Context, e *cloudevents.Event[string]) error {
				got = append(got, "renamed "+e.Value)
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		r.deliver(h, processor.Config{}, of("1", "created", `{"orderId":"a"}`), of("2", "renamed", `"b"`), of("3", "Created", `{}`),
			"["+of("4", "created", `{"orderId":"d"}`)+","+of("5", "deleted", `{}`)+"]")
		if diff := cmp.Diff([]string{"created a", "renamed b"}, got); diff != "" {
			t.Error(diff)
		}
		var reasons []string
		for _, rec := range r.left(0, 2) {
			reasons = append(reasons, rec.Category+": "+rec.Reason)
		}
		slices.Sort(reasons) // they were dead-lettered side by side
		want := []string{"unroutable: event 3 of type Created: nothing is routed for the type", "unroutable: event 5 of type deleted: nothing is routed for the type"}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Error(diff)
		}
		if n := r.failed(); n != 0 {
			t.Errorf("%v failures of a handler counted", n)
		}
	})
}

func TestEveryFaultOfARouterIsTold(t *testing.T) {
	t.Parallel()
	ok := func(context.Context, *cloudevents.Event[order]) error { return nil }
	_, err := cloudevents.NewRouter(cloudevents.On("a", ok), cloudevents.On("a", ok), cloudevents.On("", ok), cloudevents.On[order]("b", nil))
	want := "router of events: two routes lead from type \"a\": an event goes to one\nroute 2 names no event type\nthe route from type \"b\" leads to a nil function"
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
	if _, err := cloudevents.NewRouter(); err == nil {
		t.Error("a router without routes was made")
	}
	if cloudevents.Handler[order](nil) != nil {
		t.Error("a handler without a function was made")
	}
}

func TestABatchInOneMessageIsSettledOnce(t *testing.T) {
	errDown := errors.New("down")
	three := "[" + of("1", "t", `{}`) + "," + of("2", "t", `{}`) + "," + of("3", "t", `{}`) + "]"
	for name, tt := range map[string]struct {
		second        func(ctx context.Context, e *cloudevents.Event[order]) error
		policy        processor.ErrorPolicy
		handled       []string
		main, poisons int
		reason        string
	}{
		"all succeed": {
			second:  func(context.Context, *cloudevents.Event[order]) error { return nil },
			handled: []string{"1", "2", "3"},
		},
		"one was done before: the others are handled": {
			second:  func(context.Context, *cloudevents.Event[order]) error { return processor.Discard(errDown) },
			handled: []string{"1", "2", "3"},
		},
		"one fails: the others are handled, and all come back": {
			second:  func(context.Context, *cloudevents.Event[order]) error { return errDown },
			handled: []string{"1", "2", "3"}, main: 1,
		},
		"one fails for good: the message goes, with all of its events": {
			second:  func(context.Context, *cloudevents.Event[order]) error { return processor.Permanent(errDown) },
			handled: []string{"1", "2", "3"}, poisons: 1, reason: "event 2 of type t: down",
		},
		"a policy that completes loses none": {
			second: func(context.Context, *cloudevents.Event[order]) error { return errDown },
			policy: processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action {
				return processor.Action{Verdict: processor.Complete}
			}},
			handled: []string{"1", "2", "3"},
		},
		"one handler completes the message: the others are handled": {
			second:  func(ctx context.Context, e *cloudevents.Event[order]) error { return e.Message.Complete(ctx) },
			handled: []string{"1", "2", "3"},
		},
		"one handler gives the message back: the others come with it": {
			second:  func(ctx context.Context, e *cloudevents.Event[order]) error { return e.Message.Abandon(ctx, 1e9*60) },
			handled: []string{"1", "2"}, main: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
				var got []string
				h := cloudevents.Handler(func(ctx context.Context, e *cloudevents.Event[order]) error {
					got = append(got, e.ID())
					if e.ID() == "2" {
						return tt.second(ctx, e)
					}
					return nil
				})
				r.deliver(h, processor.Config{Policy: tt.policy}, three, "[]")
				if diff := cmp.Diff(tt.handled, got); diff != "" {
					t.Error(diff)
				}
				if records := r.left(tt.main, tt.poisons); tt.reason != "" && records[0].Reason != tt.reason {
					t.Errorf("reason %q, want %q", records[0].Reason, tt.reason)
				}
			})
		})
	}
}

// One event of a message that can never be handled does not take those with it that can be, later.
func TestAnEventThatCannotBeHandledWaitsForThoseThatCan(t *testing.T) {
	bubble(t, queue.Config{}, func(t *testing.T, r *rig) {
		calls := map[string]int{}
		h := cloudevents.Handler(func(_ context.Context, e *cloudevents.Event[string]) error {
			calls[e.ID()]++
			switch {
			case e.ID() == "never":
				return processor.Permanent(errors.New("no such article"))
			case calls[e.ID()] < 3:
				return errors.New("stock service is away")
			}
			return nil
		})
		event := func(id string) string {
			return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"t","data":"x"}`
		}
		r.deliver(h, processor.Config{}, "["+event("never")+","+event("later")+"]")
		for range 2 {
			time.Sleep(time.Minute) // longer than the retry delays
			r.deliver(h, processor.Config{})
		}
		recs := r.left(0, 1)
		if calls["later"] != 3 || len(recs) != 1 || recs[0].Category != "handler" || recs[0].DequeueCount != 3 {
			t.Errorf("handled %v, records %+v", calls, recs)
		}
	})
}

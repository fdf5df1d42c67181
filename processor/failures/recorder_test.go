package failures_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
	"github.com/qwatch/qwatch/queue"
)

func recorder(t *testing.T, s failures.Store, opts failures.Options) *failures.Recorder {
	t.Helper()
	opts.Worker = "host/1"
	r, err := failures.NewRecorder(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecorderTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, _ *tabletest.Service, s *failures.TablesStore) {
		m := receive(t, func(q *queue.Queue) error {
			_, err := q.Send(t.Context(), map[string]int{"id": 42}, queue.SendOptions{Headers: map[string]string{"operation": "order-42"}})
			return err
		})
		r := recorder(t, s, failures.Options{
			MaxBody: 1 << 10, Key: func(m *processor.Message) (string, error) { return m.Headers["operation"], nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the handler's has ended
		first := time.Now()
		r.Failed(ctx, m, "timeout", context.DeadlineExceeded, first, 250*time.Millisecond)
		time.Sleep(time.Minute)
		m.DequeueCount = 2
		cause := &fs.PathError{Op: "open", Path: "stock.db", Err: errors.Join(fs.ErrNotExist, errBroken)}
		r.DeadLettered(ctx, m, poison.CategoryHandler, "look up\n stock", processor.Permanent(fmt.Errorf("look up stock: %w", cause)), time.Now(), time.Second)

		got := load(t, s, failures.Failure{Queue: "orders", MessageID: m.ID})
		const message = "open stock.db: file does not exist the widget is broken"
		same(t, failures.Failure{
			Queue: "orders", MessageID: m.ID, BusinessKey: "order-42", Category: poison.CategoryHandler, Reason: "look up stock",
			Causes: []failures.Cause{
				{Type: "*fmt.wrapError", Message: "look up stock: " + message},
				{Type: "*fs.PathError", Message: message},
				{Type: "*errors.joinError", Message: "file does not exist the widget is broken"},
				{Type: "*errors.errorString", Message: "file does not exist"},
				{Type: "*errors.errorString", Message: "the widget is broken"},
			},
			DequeueCount: 2, InsertedAt: m.InsertedAt, DeadLetteredAt: time.Now().UTC(),
			Attempts: []failures.Attempt{
				{Number: 1, At: first.UTC(), Took: 250 * time.Millisecond, Category: "timeout", Error: "context deadline exceeded", Worker: "host/1"},
				{Number: 2, At: first.Add(time.Minute).UTC(), Took: time.Second, Category: "handler", Error: "look up stock: " + message, Worker: "host/1"},
			},
			Body: &failures.Body{Data: []byte(`{"id":42}`), Size: 9},
		}, got)
	})
}

func TestRecorderKeepsPanics(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, _ *tabletest.Service, s *failures.TablesStore) {
		m := text(t, "x")
		long := strings.Repeat("main.handle()\n", 10_000)
		recorder(t, s, failures.Options{}).DeadLettered(t.Context(), m, poison.CategoryMaxDequeue, "boom",
			&processor.PanicError{Value: fmt.Errorf("boom: %w", errBroken), Stack: long}, time.Now(), 0)
		got := load(t, s, failures.Failure{Queue: "orders", MessageID: m.ID})
		if got.Panic != "boom: the widget is broken" || !strings.HasPrefix(got.Stack, "main.handle()\nmain.handle()") || len(got.Stack) > 8<<10 {
			t.Errorf("panic %q, stack of %d bytes", got.Panic, len(got.Stack))
		}
		if n := len(got.Causes); n != 3 || got.Body != nil {
			t.Errorf("causes %v, body %v", got.Causes, got.Body)
		}
	})
}

func TestRecorderCopiesBodies(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		most int
		want *failures.Body
	}{
		"not unless told":       {"hello", 0, nil},
		"whole":                 {"hello", 5, &failures.Body{Data: []byte("hello"), Size: 5}},
		"in part":               {"hello", 4, &failures.Body{Data: []byte("hell"), Size: 5}},
		"between characters":    {"naïve", 3, &failures.Body{Data: []byte("na"), Size: 6}},
		"of what is unreadable": {`{"$azqs-envelope":99}`, 100, &failures.Body{Data: []byte(`{"$azqs-envelope":99}`), Size: 21}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored(t, func(t *testing.T, _ *tabletest.Service, s *failures.TablesStore) {
				m := text(t, tt.text)
				recorder(t, s, failures.Options{MaxBody: tt.most}).DeadLettered(t.Context(), m, poison.CategoryOther, "", nil, time.Time{}, 0)
				got := load(t, s, failures.Failure{Queue: "orders", MessageID: m.ID})
				if diff := cmp.Diff(tt.want, got.Body); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
				if len(got.Attempts) != 0 {
					t.Errorf("attempts without a call: %v", got.Attempts)
				}
			})
		})
	}
}

func TestKeyThatCannotBeToldIsNoReasonToLoseTheRecord(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*processor.Message) (string, error){
		"an error": func(*processor.Message) (string, error) { return "half", errBroken },
		"a panic":  func(*processor.Message) (string, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored(t, func(t *testing.T, _ *tabletest.Service, s *failures.TablesStore) {
				m := text(t, "x")
				recorder(t, s, failures.Options{Key: key}).DeadLettered(t.Context(), m, poison.CategoryOther, "why", nil, time.Time{}, 0)
				if got := load(t, s, failures.Failure{Queue: "orders", MessageID: m.ID}); got.BusinessKey != "" || got.Reason != "why" {
					t.Errorf("record %+v", got)
				}
			})
		})
	}
}

func TestOnlyRetriedMessagesAreForgotten(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		m := text(t, "x")
		r := recorder(t, s, failures.Options{})
		r.Recovered(t.Context(), m)
		if n := srv.Count(tabletest.Query); n != 0 {
			t.Errorf("%d requests for a message that succeeded at once", n)
		}
		r.Failed(t.Context(), m, "handler", errBroken, time.Now(), 0)
		m.DequeueCount = 2
		r.Recovered(t.Context(), m)
		if n := len(srv.Entities("failures")); n != 0 {
			t.Errorf("%d entities left", n)
		}
	})
}

func TestOutageHoldsNothingUp(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		var logs logBuffer
		m := text(t, "eyes only")
		r := recorder(t, s, failures.Options{Logger: logs.logger(), MaxBody: 100})
		deadLetter := func() time.Duration {
			began := time.Now()
			r.DeadLettered(t.Context(), m, poison.CategoryHandler, "no", errBroken, time.Now(), 0)
			return time.Since(began)
		}
		srv.Fail(tabletest.Fault{Hang: true})
		if took := deadLetter(); took != 5*time.Second {
			t.Errorf("the first waited %v", took)
		}
		for range 10 {
			if took := deadLetter(); took != time.Second {
				t.Errorf("another waited %v", took)
			}
		}
		time.Sleep(31 * time.Second)
		if took := deadLetter(); took != 5*time.Second {
			t.Errorf("after half a minute one waited %v", took)
		}
		srv.Heal()
		if took := deadLetter(); took != 0 {
			t.Errorf("mended, one waited %v", took)
		}
		load(t, s, failures.Failure{Queue: "orders", MessageID: m.ID})
		lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "no answer in time") || !strings.Contains(lines[0], m.ID) || !strings.Contains(lines[1], `"failures":12`) {
			t.Errorf("logged:\n%s", logs.String())
		}
		if strings.Contains(logs.String(), "eyes only") {
			t.Error("a body was logged")
		}
	})
}

// broken is a store that panics.
type broken struct{ failures.Store }

func (broken) Record(context.Context, failures.Failure) error { panic("boom") }

func (broken) List(context.Context, failures.ListOptions) iter.Seq2[failures.Failure, error] {
	return nil
}

func TestStoreThatPanicsHarmsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logs logBuffer
		recorder(t, broken{}, failures.Options{Logger: logs.logger()}).DeadLettered(t.Context(), text(t, "x"), poison.CategoryOther, "", nil, time.Time{}, 0)
		if !strings.Contains(logs.String(), "the failure store panicked: boom") {
			t.Errorf("logged: %s", logs.String())
		}
	})
}

func TestRefusedWriteIsToldAndPassedOver(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore) {
		var logs logBuffer
		srv.Fail(tabletest.Fault{Status: http.StatusNotFound, Code: "TableNotFound"})
		recorder(t, s, failures.Options{Logger: logs.logger()}).Failed(t.Context(), text(t, "x"), "handler", errBroken, time.Now(), 0)
		if !strings.Contains(logs.String(), "404 TableNotFound: create the table first") {
			t.Errorf("logged: %s", logs.String())
		}
	})
}

func TestRecorderOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := failures.NewRecorder(nil, failures.Options{MaxBody: failures.MaxBody + 1, Timeout: -1})
	want := "failure records: there is no store\na body of up to 262145 bytes is outside 0 to 262144\ntimeout -1ns is negative: every write has a deadline"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	o := failures.Options{}.WithDefaults()
	if o.Timeout != 5*time.Second || o.MaxBody != 0 || !strings.Contains(o.Worker, "/") || o.Logger == nil {
		t.Errorf("defaults %+v", o)
	}
}

func TestCausesAreBounded(t *testing.T) {
	t.Parallel()
	err := errBroken
	for i := range 100 {
		err = fmt.Errorf("layer %d: %w", i, err)
	}
	if n := len(failures.Causes(err)); n != 16 {
		t.Errorf("%d causes", n)
	}
	if failures.Causes(nil) != nil {
		t.Error("causes of nothing")
	}
}

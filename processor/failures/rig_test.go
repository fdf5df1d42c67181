package failures_test

import (
	"bytes"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// stored runs a test on a double of the table service, in fake time.
func stored(t *testing.T, test func(t *testing.T, srv *tabletest.Service, s *failures.TablesStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := &tabletest.Service{}
		s, err := failures.Tables(srv.Client("failures"), failures.TablesOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, srv, s)
	})
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// full is a failure with everything.
func full() failures.Failure {
	return failures.Failure{
		Queue: "orders", MessageID: "0f6c2a54-5d5f-4c5f-9d0e-0c1c3d1f7a11", BusinessKey: "order-42",
		Category: poison.CategoryHandler, Reason: "no such article",
		Causes: []failures.Cause{{Type: "*fmt.wrapError", Message: "handle order: no such article"}, {Type: "*errors.errorString", Message: "no such article"}},
		Panic:  "boom", Stack: "goroutine 7 [running]:\nmain.handle()", DequeueCount: 3,
		InsertedAt: noon, DeadLetteredAt: noon.Add(time.Minute + 1234500*time.Nanosecond),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Attempts: []failures.Attempt{{
			Number: 3, At: noon.Add(30 * time.Second), Took: 1500 * time.Millisecond, Category: "handler", Error: "no such article", Worker: "host/1",
		}},
		Body: &failures.Body{Data: []byte(`{"id": 42, "name": "naïve 😀"}`), Size: 32},
	}
}

func load(t *testing.T, s failures.Store, f failures.Failure) failures.Failure {
	t.Helper()
	got, err := s.Load(t.Context(), f.Queue, f.MessageID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func same(t *testing.T, want, got failures.Failure) {
	t.Helper()
	// Long bodies, compared byte by byte, take cmp seconds.
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
}

func collect(t *testing.T, all iter.Seq2[failures.Failure, error]) (got []failures.Failure) {
	t.Helper()
	for f, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	return got
}

// receive puts a message on a queue and takes it off.
func receive(t *testing.T, send func(*queue.Queue) error) *processor.Message {
	t.Helper()
	srv := queuetest.New(queuetest.Options{})
	acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		t.Fatal(err)
	}
	q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(q); err != nil {
		t.Fatal(err)
	}
	ms, err := q.Receive(t.Context(), 1, time.Second)
	if err != nil || len(ms) != 1 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	return &processor.Message{Message: ms[0]}
}

// text is a message with that text.
func text(t *testing.T, s string) *processor.Message {
	t.Helper()
	return receive(t, func(q *queue.Queue) error {
		_, err := q.SendText(t.Context(), s, queue.SendOptions{})
		return err
	})
}

var errBroken = errors.New("the widget is broken")

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

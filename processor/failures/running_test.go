package failures_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A running processor keeps the whole story of a message: two failures, then a panic on its last attempt;
// and forgets that of one which succeeds in the end. A store that does not answer holds no move up.
func TestARunningProcessorRecordsFailures(t *testing.T) {
	stored(t, func(t *testing.T, _ *tabletest.Service, store *failures.TablesStore) {
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{}
		for _, body := range []string{"doomed", "flaky"} {
			sent, err := q.Send(t.Context(), body, queue.SendOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids[body] = sent.ID
		}
		rec, err := failures.NewRecorder(store, failures.Options{
			Worker: "worker-a", MaxBody: 100,
			Key: func(m *processor.Message) (string, error) { return "key of " + string(m.Body), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		h := processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			switch {
			case string(m.Body) == "flaky" && m.Attempt() == 3:
				return nil
			case m.Attempt() == 3:
				panic("no such article")
			default:
				return fmt.Errorf("reserve: %w", errors.New("stock service is away"))
			}
		})
		p, err := processor.New(q, h, processor.Config{MaxDequeueCount: 3, Failures: rec})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}

		f := load(t, store, failures.Failure{Queue: "orders", MessageID: ids["doomed"]})
		type told struct {
			Key, Panic, Body string
			Category         poison.Category
			Stack            bool
			Attempts         []string
		}
		got := told{f.BusinessKey, f.Panic, string(f.Body.Data), f.Category, f.Stack != "", nil}
		for _, a := range f.Attempts {
			got.Attempts = append(got.Attempts, fmt.Sprint(a.Number, " ", a.Worker, " ", a.Error))
		}
		want := told{"key of doomed", "no such article", "doomed", poison.CategoryMaxDequeue, true, []string{
			"1 worker-a reserve: stock service is away", "2 worker-a reserve: stock service is away", "3 worker-a handler panicked: no such article",
		}}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if all := collect(t, store.List(t.Context(), failures.ListOptions{Queue: "orders"})); len(all) != 1 {
			t.Errorf("%d records, want that of the poisoned message", len(all))
		}
		if n := srv.Len(queuetest.AccountName, "orders-poison"); n != 1 {
			t.Errorf("%d on the poison queue", n)
		}
	})
}

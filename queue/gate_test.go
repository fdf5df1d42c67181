package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestGateIsAskedBeforeEveryTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		acct := account(t, queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(s.ConnectionString()), Transport: s})
		q := created(t, acct, queue.Config{})
		s.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 500, Times: 2})
		s.ResetCounts()
		asked, closed := 0, errors.New("closed")
		ctx := queue.WithGate(t.Context(), func(context.Context) error {
			if asked++; asked > 5 {
				return closed
			}
			return nil
		})
		if _, err := q.Peek(ctx, 1); err != nil {
			t.Error(err)
		}
		if _, err := q.Properties(ctx); err != nil {
			t.Error(err)
		}
		for _, err := range acct.Queues(ctx, queue.ListOptions{}) {
			if err != nil {
				t.Error(err)
			}
		}
		if n := s.Requests(queuetest.Op{}); asked != n || n != 5 {
			t.Errorf("the gate was asked %d times for %d requests, of which two had to be repeated", asked, n)
		}
		if _, err := q.Peek(ctx, 1); !errors.Is(err, closed) || s.Requests(queuetest.Op{}) != 5 {
			t.Errorf("past a closed gate: %v, %d requests", err, s.Requests(queuetest.Op{}))
		}
	})
}

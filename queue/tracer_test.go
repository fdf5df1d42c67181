package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// notes is a tracer that writes down what it is told.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) Begin(ctx context.Context, c queue.Call) (context.Context, func(queue.Call, error)) {
	n.add("begin %s on %s", c.Kind, c.Queue.Name())
	ctx = queue.ContextWithTrace(ctx, queue.TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	return ctx, func(c queue.Call, err error) {
		n.add("end %s, message %t, received %d, sent %t, failed %t", c.Kind, c.Message != nil, len(c.Received), c.Sent.ID != "", err != nil)
	}
}

func TestATracerFollowsTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, tracer, ctx := queuetest.New(queuetest.Options{}), &notes{}, t.Context()
		acct := account(t, queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true, PropagateTraceContext: true, Tracer: tracer})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := q.Send(ctx, "x", queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := q.SendText(ctx, "\x01", queue.SendOptions{}); err == nil {
			t.Error("a text that the wire cannot carry was sent")
		}
		if _, err := q.SendText(ctx, "x", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		ms, err := q.Receive(ctx, 3, time.Minute)
		if err != nil || len(ms) != 3 {
			t.Fatalf("%d messages, %v", len(ms), err)
		}
		if ms[0].TraceParent == "" {
			t.Error("the send did not carry the trace context that Begin put in")
		}
		var seen []queue.Settlement
		for _, m := range ms {
			m.Watch(func(s queue.Settlement) { seen = append(seen, s) })
		}
		for _, err := range []error{ms[0].Renew(ctx, time.Minute), ms[0].Complete(ctx), ms[1].Abandon(ctx, 0), ms[2].CompleteDeadLettered(ctx)} {
			if err != nil {
				t.Error(err)
			}
		}
		if err := ms[0].Complete(ctx); !errors.Is(err, queue.ErrSettled) {
			t.Errorf("completed twice: %v", err)
		}
		want := []string{
			"begin send on orders", "end send, message false, received 0, sent true, failed false",
			"begin send on orders", "end send, message false, received 0, sent true, failed false",
			"begin send on orders", "end send, message false, received 0, sent true, failed false",
			"begin receive on orders", "end receive, message false, received 3, sent false, failed false",
			"begin renew on orders", "end renew, message true, received 0, sent false, failed false",
			"begin complete on orders", "end complete, message true, received 0, sent false, failed false",
			"begin abandon on orders", "end abandon, message true, received 0, sent false, failed false",
			"begin dead_letter on orders", "end dead_letter, message true, received 0, sent false, failed false",
			"begin complete on orders", "end complete, message true, received 0, sent false, failed true",
		}
		if diff := cmp.Diff(want, tracer.lines); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]queue.Settlement{queue.Unsettled, queue.Completed, queue.Abandoned, queue.DeadLettered}, seen); diff != "" {
			t.Errorf("watched: %s", diff)
		}
	})
}

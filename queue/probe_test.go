package queue_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestProbeLeavesTheQueueAsItWas(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.send("hello", queue.SendOptions{})
		before := f.srv.Messages(queuetest.AccountName, "orders")
		for _, op := range []queue.Operation{queue.OpProperties, queue.OpPeek, queue.OpUpdate, queue.OpDelete, queue.OpSend, queue.OpCreate} {
			if err := f.q.Probe(f.ctx, op); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			f.inject(op, queuetest.Fault{Status: 403, Code: "AuthorizationPermissionMismatch", Times: 1})
			if op == queue.OpCreate || op == queue.OpSend {
				f.srv.RemoveFaults()
				f.inject(op, queuetest.Fault{Status: 403, Code: "AuthorizationPermissionMismatch"})
			}
			if err := f.q.Probe(f.ctx, op); queue.Classify(err) != queue.ResultAuth {
				t.Errorf("%s, refused: %v", op, err)
			}
			f.srv.RemoveFaults()
		}
		if diff := cmp.Diff(before, f.srv.Messages(queuetest.AccountName, "orders")); diff != "" {
			t.Errorf("messages changed (-before +after):\n%s", diff)
		}
		if err := f.q.Probe(f.ctx, queue.OpReceive); err == nil {
			t.Error("a receive hides messages, and must not be tried")
		}
	})
}

func TestProbeNeverCreatesAQueue(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		missing, err := f.q.Account().Queue("missing", queue.Config{CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []queue.Operation{queue.OpProperties, queue.OpPeek, queue.OpUpdate, queue.OpDelete, queue.OpSend, queue.OpCreate} {
			if err := missing.Probe(f.ctx, op); !errors.Is(err, queue.ErrQueueNotFound) {
				t.Errorf("%s: %v", op, err)
			}
		}
		if f.srv.Exists(queuetest.AccountName, "missing") {
			t.Error("the queue was created")
		}
	})
}

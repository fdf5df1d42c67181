package test_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// openAccount signs in to Azurite, as an application beside qwatch would.
func openAccount(t *testing.T, azurite *peer.AzuriteServer) *queue.Account {
	t.Helper()
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(azurite.ConnectionString())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return account
}

// createQueue makes a queue. Its poison queue is not touched.
func createQueue(t *testing.T, account *queue.Account, name string) *queue.Queue {
	t.Helper()
	q, err := account.Queue(name, queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}

// bodies makes n bodies called kind-0, kind-1, ….
func bodies(kind string, n int, note string) []body {
	bodies := make([]body, n)
	for i := range bodies {
		bodies[i] = body{ID: fmt.Sprintf("%s-%d", kind, i), Note: note}
	}
	return bodies
}

// send puts the bodies on a queue, in any order.
func send(t *testing.T, q *queue.Queue, bodies []body) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for _, b := range bodies {
		group.Go(func() error {
			_, err := q.Send(ctx, b, queue.SendOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// count returns the approximate number of messages, hidden ones included; −1 while storage does not
// answer or the queue does not exist.
func count(t *testing.T, q *queue.Queue) int64 {
	t.Helper()
	p, err := q.Properties(t.Context())
	if err != nil {
		return -1
	}
	return p.ApproximateMessages
}

// drain receives and deletes everything visible and returns it.
func drain(t *testing.T, q *queue.Queue) []*queue.Message {
	t.Helper()
	var all []*queue.Message
	for {
		messages, err := q.Receive(t.Context(), 32, 0)
		if err != nil && !errors.Is(err, queue.ErrQueueNotFound) {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return all
		}
		for _, m := range messages {
			if err := m.Complete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, messages...)
	}
}

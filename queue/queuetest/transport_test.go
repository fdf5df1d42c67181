package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestResponsesAreReadOnce(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint(queuetest.AccountName)+"/?comp=list", nil)
	must(t, err)
	resp, err := s.Do(req)
	must(t, err)
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	check(t, "content length", resp.ContentLength, len(b))
	check(t, "request", resp.Request == req, true)
	check(t, "status", resp.Status, "200 OK")
	must(t, resp.Body.Close())
	must(t, resp.Body.Close())
	if _, err := resp.Body.Read(b); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read after close: %v", err)
	}
}

func TestDoneContextsAreNotServed(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	q := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := q.EnqueueMessage(ctx, "a", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("send: %v", err)
	}
	check(t, "sends", s.Requests(queuetest.Op{Operation: queuetest.OpSend}), 0)
}

// broken is a body that cannot be read.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestBodiesThatCannotBeReadAreTheClientsError(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Endpoint(queuetest.AccountName)+"/orders/messages", broken{})
	must(t, err)
	if resp, err := s.Do(req); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestHugeBodiesAreRefused(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	q := open(t, s)
	_, err := q.EnqueueMessage(t.Context(), strings.Repeat("x", 10<<20), nil)
	check(t, "send in process", outcome(err), "413 RequestBodyTooLarge")
}

// TestConcurrentClients has many clients work one queue: each message is handled by
// whoever holds its newest receipt, so that no delete fails and none is lost.
func TestConcurrentClients(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	q := open(t, s)
	const senders, each = 4, 100
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for j := range each {
				if _, err := q.EnqueueMessage(t.Context(), fmt.Sprint(i, j), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	seen := map[string]int{}
	for range 4 {
		wg.Go(func() {
			for {
				mu.Lock()
				done := len(seen) == senders*each
				mu.Unlock()
				if done || t.Failed() {
					return
				}
				r, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: new(int32(7)), VisibilityTimeout: new(int32(600))})
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range r.Messages {
					if _, err := q.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil); err != nil {
						t.Error(err)
					}
					mu.Lock()
					seen[*m.MessageText]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for text, n := range seen {
		if n != 1 {
			t.Errorf("%s was received %d times", text, n)
		}
	}
	check(t, "messages left", s.Len(queuetest.AccountName, "orders"), 0)
}

package processor_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A crash counts a delivery of everything in hand. Each worker here dies of the message "crash" as it is
// handled: what it holds is never settled.
func TestAMessageThatEndsTheProcessDoesNotTakeTheOthersWithIt(t *testing.T) {
	for _, concurrency := range []int{1, 8, 32} {
		for _, others := range []int{7, 40} {
			t.Run(fmt.Sprintf("concurrency %d, %d others", concurrency, others), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					for i := range others + 1 {
						if i == others/2 {
							r.send("crash")
						} else {
							r.send("good")
						}
					}
					crashes := 0
					for crashes < 20 {
						died := make(chan struct{})
						w := r.crashing(t, concurrency, died)
						select {
						case <-died:
							crashes++
							w()
							time.Sleep(time.Second) // until it is started again
							continue
						case <-time.After(5 * time.Minute):
						}
						w()
						break
					}
					if crashes != 5 {
						t.Errorf("%d crashes, want 5", crashes)
					}
					r.left(0, 1)
					for _, rec := range r.poisoned() {
						if rec.Category != "max_dequeue" || rec.DequeueCount != 6 {
							t.Errorf("record %+v", rec)
						}
					}
					peeked, err := r.q.Poison().Peek(t.Context(), 32)
					if err != nil || len(peeked.Messages) != 1 || string(peeked.Messages[0].Body) != "crash" {
						t.Errorf("poisoned: %+v, %v", peeked.Messages, err)
					}
				})
			})
		}
	}
}

// crashing runs a worker on a connection of its own, which is cut when the worker dies.
func (r *rig) crashing(t *testing.T, concurrency int, died chan struct{}) (end func()) {
	t.Helper()
	var dead atomic.Bool
	wire := &cutWire{srv: r.srv, cut: &dead}
	acct, err := queue.NewAccount(queue.AccountConfig{Name: account, ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: wire})
	if err != nil {
		t.Fatal(err)
	}
	q, err := acct.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := processor.New(q, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if string(m.Body) == "crash" && dead.CompareAndSwap(false, true) {
			close(died)
		}
		return nil
	}), processor.Config{Concurrency: concurrency, DrainTimeout: processor.Off})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return func() {
		stop()
		synctest.Wait()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// cutWire reaches the service until it is cut.
type cutWire struct {
	srv *queuetest.Server
	cut *atomic.Bool
}

func (w *cutWire) Do(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errAway
	}
	return w.srv.Do(r)
}

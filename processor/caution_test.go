package processor_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// elsewhere has another process receive every message that is there, and give it back.
func (r *rig) elsewhere() {
	r.t.Helper()
	for {
		got, err := r.q.Receive(r.t.Context(), 32, time.Minute)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			if err := m.Abandon(r.t.Context(), 5*time.Second); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	time.Sleep(5 * time.Second)
}

// Messages that another process gave back look like those of one that died. How many of them are handled
// at once depends on what has been learnt.
func TestHowManySuspectsAreHandledAtOnce(t *testing.T) {
	tests := map[string]struct {
		old       time.Duration // how long the processor has been running
		elsewhere int           // deliveries
		handler   time.Duration
		most      map[time.Duration]int // handlers at once, after a time
	}{
		"by a young process":                     {0, 1, time.Second, map[time.Duration]int{5 * time.Second: 1, 12 * time.Second: 2, time.Minute: 16}},
		"by an old process":                      {5 * time.Minute, 1, time.Second, map[time.Duration]int{3 * time.Second: 16}},
		"delivered twice before, by an old one":  {5 * time.Minute, 2, time.Second, map[time.Duration]int{5 * time.Second: 1, 12 * time.Second: 2, time.Minute: 16}},
		"handlers that take long hold nobody up": {0, 1, time.Hour, map[time.Duration]int{9 * time.Second: 1, 5 * time.Minute: 16}},
		"never delivered before":                 {0, 0, time.Second, map[time.Duration]int{3 * time.Second: 16}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var at, most atomic.Int64
				h := processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
					most.Store(max(most.Load(), at.Add(1)))
					defer at.Add(-1)
					return takes(tt.handler)(ctx, m)
				})
				var run *running
				if tt.old > 0 {
					run = r.start(fast(processor.Config{Concurrency: 16}), h)
					time.Sleep(tt.old)
					run.Pause()
					time.Sleep(time.Second)
				}
				r.fill(400)
				for range tt.elsewhere {
					r.elsewhere()
				}
				if run == nil {
					run = r.start(fast(processor.Config{Concurrency: 16, DrainTimeout: processor.Off}), h)
				}
				run.Resume()
				began := time.Now()
				for _, after := range slices.Sorted(maps.Keys(tt.most)) {
					time.Sleep(time.Until(began.Add(after)))
					if got, want := most.Load(), tt.most[after]; got != int64(want) {
						t.Errorf("after %v there were %d handlers at once, want %d", after, got, want)
					}
				}
				told := 0
				if tt.elsewhere > 1 {
					told = 1
				}
				r.logged("messages come again that this process has not given back; taking them one at a time", told)
				if tt.handler < time.Hour {
					time.Sleep(2 * time.Minute)
					r.left(0, 0)
				}
				r.end(run)
			})
		})
	}
}

package test_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// A watchman asks for /livez and /metrics all the time and remembers what was wrong.
type watchman struct {
	began  time.Time
	mu     sync.Mutex
	asked  int
	late   []string
	faults []string
}

// A scrape takes less than slow, whatever storage does. On a busy machine one may be late by no fault
// of qwatch's: it is asked for again at once, and must not be late as often as retried. One that
// waits for storage is late every time.
const (
	slow    = 200 * time.Millisecond
	retried = 3
)

func watch(t *testing.T, s *service) *watchman {
	w := &watchman{began: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			w.ask(ctx, s.probes+"/livez")
			for late := 1; w.ask(ctx, s.main+"/metrics") > slow; late++ {
				if late == retried {
					w.fault("GET /metrics took more than %v %d times on end", slow, late)
					break
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

// ask reads a URL that must answer 200 and returns how long that took.
func (w *watchman) ask(ctx context.Context, url string) time.Duration {
	start := time.Now()
	status, text, err := get(ctx, url)
	took := time.Since(start)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil || status != http.StatusOK {
		w.fault("GET %s: status %d, %v, %.200s", url, status, err, text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if took > slow {
		w.late = append(w.late, fmt.Sprintf("at %v GET %s took %v", start.Sub(w.began).Round(time.Millisecond), url, took))
	}
	return took
}

func (w *watchman) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// check fails the test for everything that went wrong so far.
func (w *watchman) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("asked %d times, late %d times: %v", w.asked, len(w.late), w.late)
	if w.asked < 20 {
		t.Errorf("asked only %d times", w.asked)
	}
	for i, f := range w.faults {
		if i == 10 {
			t.Errorf("… and %d more", len(w.faults)-i)
			break
		}
		t.Error(f)
	}
}

// Azurite writes its data to disk every five seconds; what is younger dies with it.
const azuriteSaves = 6 * time.Second

func TestStorageDiesAndFreezesMidRun(t *testing.T) {
	for name, outage := range map[string]struct {
		begin, end func(*testing.T, *peer.AzuriteServer)
	}{
		"killed": {
			begin: func(_ *testing.T, a *peer.AzuriteServer) { a.Kill() },
			end:   func(t *testing.T, a *peer.AzuriteServer) { a.Restart(t) },
		},
		"frozen": {
			begin: func(t *testing.T, a *peer.AzuriteServer) { a.Freeze(t) },
			end:   func(t *testing.T, a *peer.AzuriteServer) { a.Thaw(t) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			azurite := peer.Azurite(t)
			account := openAccount(t, azurite)
			orders, audit := createQueue(t, account, "orders"), createQueue(t, account, "audit")
			const total = 300
			send(t, audit, bodies("audit", 3, marker))
			send(t, orders, bodies("good", total, marker))
			time.Sleep(azuriteSaves)

			gate := make(chan struct{}) // one handler call for each element; closed: no limit
			handler := newEndpoint(t, marker, func(string, int) answer {
				<-gate
				return answer{status: http.StatusOK}
			})
			open := sync.OnceFunc(func() { close(gate) })
			t.Cleanup(open) // so that no handler is left waiting when the test fails
			// A receive whose answer is lost hides messages for the visibility timeout.
			config := strings.Replace(ordersConfig, "visibilityTimeout: 1m", "visibilityTimeout: 10s", 1)
			s := serve(t, fmt.Sprintf(config, handler.URL), "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
			watching := watch(t, s)
			audited := []string{"account", "orders", "queue_name", "audit", "queue_kind", "main"}
			depth := append([]string{"queue_approximate_messages"}, audited...)
			up := append([]string{"queue_up"}, audited...)
			eventually(t, 20*time.Second, "the depths are known", func() bool {
				m := scrapeOf(t, s)
				return m.is(3, depth...) && m.is(1, up...)
			})
			for range 50 {
				select {
				case gate <- struct{}{}:
				case <-time.After(20 * time.Second):
					t.Fatal("no handler is running")
				}
			}

			t.Logf("the outage begins at %v", time.Since(watching.began))
			outage.begin(t, azurite)
			began := time.Now()
			eventually(t, 5*time.Second, "queue_up falls to 0", func() bool { return scrapeOf(t, s).is(0, up...) })
			if m := scrapeOf(t, s); time.Since(began) < 2*time.Second && !m.is(3, depth...) {
				t.Error("the last depth went at once; it should stay until it is stale")
			}
			eventually(t, 10*time.Second, "the stale depth is dropped", func() bool { return !scrapeOf(t, s).has(depth...) })
			if m := scrapeOf(t, s); !m.is(0, up...) || !m.has(append([]string{"queue_last_poll_success_timestamp_seconds"}, audited...)...) {
				t.Error("with the depth went more than the depth")
			}
			// Handlers that are at work may end during the outage; what they could not settle comes again.
			for range 5 {
				select {
				case gate <- struct{}{}:
				default:
				}
			}
			time.Sleep(time.Until(began.Add(8 * time.Second)))
			t.Logf("the outage ends at %v", time.Since(watching.began))
			outage.end(t, azurite)
			open()

			eventually(t, 10*time.Second, "queue_up is 1 again, and the depth is back", func() bool {
				m := scrapeOf(t, s)
				return m.is(1, up...) && m.is(3, depth...)
			})
			eventually(t, 100*time.Second, "every message was handled and the queue is empty", func() bool {
				return len(handler.seen()) == total && count(t, orders) == 0
			})
			if n := count(t, orders.Poison()); n > 0 {
				t.Errorf("%d messages were quarantined by an outage of storage", n)
			}
			handler.check(t)
			watching.check(t)
		})
	}
}

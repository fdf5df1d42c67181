package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// watched builds a service that watches n queues, main and poison, and has polled each.
func watched(tb testing.TB, n int) *service {
	tb.Helper()
	storage := queuetest.New(queuetest.Options{NoAuth: true})
	var text strings.Builder
	fmt.Fprintf(&text, "accounts:\n  - name: acct\n    connectionString: %s\n    queues:\n", storage.ConnectionString())
	for i := range n {
		fmt.Fprintf(&text, "      - {name: queue-%04d, createIfMissing: true, team: payments, tier: 1, objective: {timeInQueue: 5m}}\n", i)
	}
	text.WriteString("watch: {requestsPerSecond: 1000000}\n")
	cfg, _, err := config.Parse("qwatch.yaml", []byte(text.String()), nil)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := build(Options{Config: cfg, Transport: storage, Version: "test"}.withDefaults())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.state().fleet.Close)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	for _, q := range s.state().fleet.Queues {
		for _, q := range []*queue.Queue{q.Queue, q.Poison()} {
			if _, err := q.Send(ctx, []byte("{}"), queue.SendOptions{}); err != nil {
				tb.Fatal(err)
			}
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.collector.Run(ctx) }()
	deadline := time.Now().Add(time.Minute)
	for unread(s) > 0 {
		if time.Now().After(deadline) {
			tb.Fatalf("%d queues were not polled", unread(s))
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
	return s
}

func unread(s *service) int {
	n := 0
	for _, q := range s.collector.Snapshot().Queues {
		if q.LastSuccess.IsZero() {
			n++
		}
	}
	return n
}

// BenchmarkScrape1000 is one scrape of 1,000 watched queues, main and poison, through the
// whole handler: gather, encode and compress, as Prometheus asks for it.
func BenchmarkScrape1000(b *testing.B) {
	h := watched(b, 1000).handler()
	const openMetrics = "application/openmetrics-text;version=1.0.0"
	for _, bb := range []struct{ name, accept, encoding string }{
		{"openmetrics-gzip", openMetrics, "gzip"},
		{"openmetrics-plain", openMetrics, ""},
		{"text-gzip", "text/plain", "gzip"},
		{"text-plain", "text/plain", ""},
	} {
		b.Run(bb.name, func(b *testing.B) {
			req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			req.Header.Set("Accept", bb.accept)
			if bb.encoding != "" {
				req.Header.Set("Accept-Encoding", bb.encoding)
			}
			b.ReportAllocs()
			size, before := 0, cpu(b)
			for b.Loop() {
				w := &counter{header: http.Header{}}
				h.ServeHTTP(w, req)
				if w.status != 0 && w.status != http.StatusOK {
					b.Fatalf("answered %d", w.status)
				}
				size = w.n
			}
			b.ReportMetric(float64(size), "bytes/scrape")
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpu is the processor time used so far, which a busy machine does not stretch as it does
// the wall clock's.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// counter is a ResponseWriter that only counts.
type counter struct {
	header http.Header
	status int
	n      int
}

func (c *counter) Header() http.Header         { return c.header }
func (c *counter) WriteHeader(status int)      { c.status = status }
func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

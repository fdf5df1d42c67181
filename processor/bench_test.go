package processor_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// BenchmarkConsume compares the processor with a loop by hand on package queue, without a socket:
// what remains is what each side computes. Package bench has the raw SDK, over a socket.
func BenchmarkConsume(b *testing.B) {
	for _, c := range []int{1, 8, 32} {
		for name, drain := range map[string]func(*testing.B, *queuetest.Server, int, int){"queue": drainQueue, "processor": drainProcessor} {
			b.Run(fmt.Sprintf("%s/c=%d", name, c), func(b *testing.B) {
				const n = 2000
				var wall time.Duration
				var allocs, bytes uint64
				rounds := 0
				for b.Loop() {
					b.StopTimer()
					srv := queuetest.New(queuetest.Options{NoAuth: true})
					fill(b, srv, n)
					runtime.GC()
					var m0, m1 runtime.MemStats
					runtime.ReadMemStats(&m0)
					b.StartTimer()
					began := time.Now()
					drain(b, srv, c, n)
					wall += time.Since(began)
					b.StopTimer()
					runtime.ReadMemStats(&m1)
					allocs += m1.Mallocs - m0.Mallocs
					bytes += m1.TotalAlloc - m0.TotalAlloc
					rounds++
					b.StartTimer()
				}
				total := float64(rounds * n)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(total/wall.Seconds(), "msg/s")
				b.ReportMetric(float64(allocs)/total, "allocs/msg")
				b.ReportMetric(float64(bytes)/total, "B/msg")
			})
		}
	}
}

func benchQueue(b *testing.B, srv *queuetest.Server) *queue.Queue {
	acct, err := queue.NewAccount(queue.AccountConfig{Name: account, ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		b.Fatal(err)
	}
	q, err := acct.Queue("orders", queue.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return q
}

func fill(b *testing.B, srv *queuetest.Server, n int) {
	q, ctx := benchQueue(b, srv), context.Background()
	if err := q.Create(ctx); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := q.SendText(ctx, fmt.Sprintf(`{"orderId":%d,"padding":"%0170d"}`, i, 0), queue.SendOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func drainQueue(b *testing.B, srv *queuetest.Server, c, n int) {
	q, ctx := benchQueue(b, srv), context.Background()
	var done atomic.Int64
	var wg sync.WaitGroup
	for range c {
		wg.Go(func() {
			for {
				r, err := q.Receive(ctx, 1, time.Minute)
				if err != nil || len(r) == 0 {
					return
				}
				for _, m := range r {
					if err := m.Complete(ctx); err != nil {
						b.Error(err)
					}
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if int(done.Load()) != n {
		b.Errorf("%d of %d handled", done.Load(), n)
	}
}

func drainProcessor(b *testing.B, srv *queuetest.Server, c, n int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done atomic.Int64
	h := processor.HandlerFunc(func(context.Context, *processor.Message) error {
		if int(done.Add(1)) == n {
			cancel()
		}
		return nil
	})
	p, err := processor.New(benchQueue(b, srv), h, processor.Config{Concurrency: c, Metrics: processor.NewMetrics(prometheus.NewRegistry(), processor.MetricsOptions{})})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		b.Error(err)
	}
	if int(done.Load()) != n {
		b.Errorf("%d of %d handled", done.Load(), n)
	}
}

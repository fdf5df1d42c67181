package collector_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// fleet returns a collector that has polled n queues, a third of them with messages.
func fleet(b *testing.B, n int) *collector.Collector {
	b.Helper()
	s := newStorage(b, queuetest.Options{NoAuth: true})
	ts := make([]collector.Target, n)
	for i := range ts {
		q := create(b, s.acct, fmt.Sprintf("orders-%05d", i))
		for range i % 3 * (i % 7) {
			send(b, q, 1, queue.SendOptions{})
		}
		ts[i] = collector.Target{
			Queue: q, Team: "payments", Tier: 1 + i%3,
			Objective: 5 * time.Minute, ObjectiveRatio: 0.99, HandlerTimeLimit: time.Minute,
		}
	}
	c, err := collector.New(collector.Config{Targets: ts, Interval: time.Hour, RequestsPerSecond: -1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for s.Requests(queuetest.Op{Operation: queuetest.OpPeek}) < 2*n {
		time.Sleep(10 * time.Millisecond)
	}
	return c
}

// BenchmarkScrape1000 is one scrape of 1,000 watched queues, each with its poison queue:
// everything from the state to the bytes. The promise is 40 ms.
func BenchmarkScrape1000(b *testing.B) {
	c := fleet(b, 1000)
	var buf bytes.Buffer
	series, best := 0, time.Hour
	for b.Loop() {
		start := time.Now()
		families, err := c.Gather()
		if err != nil {
			b.Fatal(err)
		}
		buf.Reset()
		series = 0
		enc := expfmt.NewEncoder(&buf, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, mf := range families {
			series += len(mf.Metric)
			if err := enc.Encode(mf); err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/scrape")
	b.ReportMetric(best.Seconds()*1000, "ms/best") // a busy machine says more about itself in the mean
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(float64(buf.Len()), "bytes")
}

// BenchmarkGather1000 is the same without the encoding.
func BenchmarkGather1000(b *testing.B) {
	c := fleet(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot1000 is what the page and the API take.
func BenchmarkSnapshot1000(b *testing.B) {
	c := fleet(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if len(c.Snapshot().Queues) != 2000 {
			b.Fatal("queues are missing")
		}
	}
}

// BenchmarkQueue is one question about one queue of 1,000.
func BenchmarkQueue(b *testing.B) {
	c := fleet(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if len(c.Queue("acct", "orders-00500")) != 2 {
			b.Fatal("no such queue")
		}
	}
}

// BenchmarkSetTargets1000 is a reload.
func BenchmarkSetTargets1000(b *testing.B) {
	s := newStorage(b, queuetest.Options{})
	ts := make([]collector.Target, 1000)
	for i := range ts {
		ts[i].Queue = open(b, s.acct, fmt.Sprintf("orders-%05d", i), queue.Config{})
	}
	c, err := collector.New(collector.Config{Targets: ts})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.SetTargets(ts); err != nil {
			b.Fatal(err)
		}
	}
}

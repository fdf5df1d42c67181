package metric_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
)

// BenchmarkMessage is what the metrics of one message cost, handled at the first attempt.
func BenchmarkMessage(b *testing.B) {
	for _, tt := range []struct {
		name        string
		opts        metric.Options
		traceparent string
	}{
		{name: "classic"},
		{name: "native", opts: metric.Options{Native: true}},
		{name: "classic with a trace", traceparent: sampled},
	} {
		b.Run(tt.name, func(b *testing.B) {
			q := metric.NewConsumer(prometheus.NewRegistry(), tt.opts).Queue("acct", "orders")
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					q.Received(1)
					q.Size(200)
					q.DeliveryAttempts(1)
					q.Started(20*time.Millisecond, true, false, tt.traceparent)
					q.Processed(1)
					q.Finished(metric.OutcomeCompleted, 3*time.Millisecond, tt.traceparent)
				}
			})
		})
	}
}

func BenchmarkStorageObserve(b *testing.B) {
	s := metric.NewStorage(prometheus.NewRegistry(), metric.Options{})
	s.Init("acct", metric.Of(metric.StorageRequestDuration).Values(metric.LabelOperation))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Observe("acct", "properties", "ok", 3*time.Millisecond)
		}
	})
}

// BenchmarkGather is one scrape of a process with a hundred consumers.
func BenchmarkGather(b *testing.B) {
	reg := prometheus.NewRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	for i := range 100 {
		use(consumer.Queue("acct", "orders-"+strconv.Itoa(i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/cloudevents"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/telemetry"
)

// padded is what the messages of this benchmark hold.
type padded struct {
	Pad string `json:"pad"`
}

// kind is a way to consume a queue.
type kind struct {
	name string
	// envelope is put around each body, or is "".
	envelope string
	// tracer follows the queue and the processor, or is nil.
	tracer func(b *testing.B) *telemetry.Telemetry
	// make returns a processor whose handler calls done with how many messages it was given.
	make func(q *queue.Queue, cfg processor.Config, done func(int)) (*processor.Processor, error)
}

// single is a kind whose handler takes one message at a time.
func single(name string, handler func(done func(int)) processor.Handler, change ...func(*processor.Config)) kind {
	return kind{name: name, make: func(q *queue.Queue, cfg processor.Config, done func(int)) (*processor.Processor, error) {
		for _, c := range change {
			c(&cfg)
		}
		return processor.New(q, handler(done), cfg)
	}}
}

func bare(done func(int)) processor.Handler {
	return processor.HandlerFunc(func(context.Context, *processor.Message) error { done(1); return nil })
}

func kinds() []kind {
	around := func(h processor.Handler) processor.Handler {
		return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return h.Handle(ctx, m) })
	}
	traced := single("traced", bare)
	traced.tracer = func(b *testing.B) *telemetry.Telemetry {
		t, err := telemetry.New(telemetry.Config{
			Traces: sdktrace.NewTracerProvider(), Metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	routing := single("routing", func(done func(int)) processor.Handler {
		r := processor.NewRouter()
		processor.Route(r, "bench", func(context.Context, *processor.Job[padded]) error { done(1); return nil })
		return r
	})
	routing.envelope = `{"$azqs-envelope":1,"headers":{"message-type":"bench"},"body":%s}`
	return []kind{
		single("bare", bare),
		routing,
		single("idempotency", func(done func(int)) processor.Handler {
			key := func(m *processor.Message) (string, error) { return m.ID, nil }
			return dedup.Middleware(&dedup.Memory{}, key, dedup.Options{})(bare(done))
		}),
		{name: "batch", make: func(q *queue.Queue, cfg processor.Config, done func(int)) (*processor.Processor, error) {
			cfg.Concurrency = 0 // a batch of 32 instead of 32 handlers
			return processor.NewBatch(q, processor.BatchHandlerFunc(func(_ context.Context, ms []*processor.Message) error {
				done(len(ms))
				return nil
			}), processor.BatchConfig{Config: cfg})
		}},
		single("typed", func(done func(int)) processor.Handler {
			return processor.Typed(func(context.Context, *processor.Job[padded]) error { done(1); return nil })
		}),
		single("middleware", bare, func(c *processor.Config) { c.Middleware = []processor.Middleware{around, around, around} }),
		single("events", func(done func(int)) processor.Handler {
			return cloudevents.Handler(func(context.Context, *cloudevents.Event[padded]) error { done(1); return nil })
		}),
		traced,
	}
}

// BenchmarkKinds drains a queue of CloudEvents of 300 bytes in each way that there is to consume one, 32
// messages in hand, in turns. The speed of each is told as a share of the bare processor's.
func BenchmarkKinds(b *testing.B) {
	svc := startService(b)
	all := kinds()
	costs := make([]cost, len(all))
	body := `{"specversion":"1.0","id":"A234-1234-1234","source":"/bench","type":"bench","data":{"pad":"` + strings.Repeat("x", 200) + `"}}`
	round := 0
	for b.Loop() {
		round++
		for i, k := range all {
			b.StopTimer()
			name := fmt.Sprintf("kinds-%d-%d", round, i)
			text := body
			if k.envelope != "" {
				text = fmt.Sprintf(k.envelope, body)
			}
			fillWith(b, svc.raw(b, name), messages, text)
			b.StartTimer()
			got := measure(func() { drainKind(b, svc, name, k) })
			costs[i].wall += got.wall
			costs[i].cpu += got.cpu
			costs[i].allocs += got.allocs
		}
	}
	n := float64(round * messages)
	b.ReportMetric(0, "ns/op")
	for i, k := range all {
		b.ReportMetric(n/costs[i].wall.Seconds(), k.name+"-msg/s")
		b.ReportMetric(costs[0].wall.Seconds()/costs[i].wall.Seconds(), k.name+"-speed")
		b.ReportMetric(costs[i].cpu.Seconds()*1e6/n, k.name+"-cpu-us/msg")
		b.ReportMetric(float64(costs[i].allocs)/n, k.name+"-allocs/msg")
	}
}

func drainKind(b *testing.B, svc service, name string, k kind) {
	acct, err := queue.NewAccount(queue.AccountConfig{
		Name: "bench", Endpoint: svc.url, AccountKey: queuetest.AccountKey, AccountName: queuetest.AccountName, Transport: transport(),
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg := processor.Config{Concurrency: 32, Metrics: processor.NewMetrics(prometheus.NewRegistry(), processor.MetricsOptions{})}
	var qc queue.Config
	if k.tracer != nil {
		t := k.tracer(b)
		qc.Tracer, cfg.Tracer = t, t
	}
	q, err := acct.Queue(name, qc)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var handled atomic.Int64
	p, err := k.make(q, cfg, func(n int) {
		if handled.Add(int64(n)) == messages {
			cancel()
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		b.Error(err)
	}
	if handled.Load() != messages {
		b.Errorf("%s handled %d of %d", k.name, handled.Load(), messages)
	}
}

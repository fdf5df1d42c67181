package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// messages a round, on each side.
const messages = 6000

// cost is what draining a queue took.
type cost struct {
	wall, cpu time.Duration
	allocs    uint64
}

func measure(f func()) cost {
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	c0, t0 := cpuTime(), time.Now()
	f()
	wall, cpu := time.Since(t0), cpuTime()-c0
	runtime.ReadMemStats(&m1)
	return cost{wall, cpu, m1.Mallocs - m0.Mallocs}
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkConsume drains a queue with qwatch's processor, every metric on, and with two loops on
// the raw SDK: "raw" takes one message at a time in each of c workers, which like the processor
// holds no message that nobody works on; "hoard" takes 32 at a time in each worker, whose leases
// nobody renews meanwhile. All sides share the service, the transport and the round.
// A ratio above 1 is in qwatch's favour.
func BenchmarkConsume(b *testing.B) {
	svc := startService(b)
	for _, c := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			var raw, hoard, own cost
			round := 0
			for b.Loop() {
				round++
				for i, side := range []struct {
					into *cost
					run  func(b *testing.B, name string)
				}{
					{&raw, func(b *testing.B, name string) { drainRaw(b, svc.raw(b, name), c, 1) }},
					{&own, func(b *testing.B, name string) { drainProcessor(b, svc, name, c) }},
					{&hoard, func(b *testing.B, name string) { drainRaw(b, svc.raw(b, name), c, 32) }},
				} {
					b.StopTimer()
					name := fmt.Sprintf("bench-%d-%d-%d", c, round, i)
					filler := svc.raw(b, name)
					fill(b, filler, messages)
					b.StartTimer()
					got := measure(func() { side.run(b, name) })
					side.into.wall += got.wall
					side.into.cpu += got.cpu
					side.into.allocs += got.allocs
				}
			}
			n := float64(round * messages)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(n/own.wall.Seconds(), "msg/s")
			b.ReportMetric(n/raw.wall.Seconds(), "raw-msg/s")
			b.ReportMetric(n/hoard.wall.Seconds(), "hoard-msg/s")
			b.ReportMetric(raw.wall.Seconds()/own.wall.Seconds(), "speed/raw")
			b.ReportMetric(hoard.wall.Seconds()/own.wall.Seconds(), "speed/hoard")
			b.ReportMetric(own.cpu.Seconds()*1e6/n, "cpu-us/msg")
			b.ReportMetric(raw.cpu.Seconds()*1e6/n, "raw-cpu-us/msg")
			b.ReportMetric(hoard.cpu.Seconds()*1e6/n, "hoard-cpu-us/msg")
			b.ReportMetric(float64(own.allocs)/n, "allocs/msg")
			b.ReportMetric(float64(raw.allocs)/n, "raw-allocs/msg")
			b.ReportMetric(float64(hoard.allocs)/n, "hoard-allocs/msg")
		})
	}
}

func drainRaw(b *testing.B, q *azqueue.QueueClient, c int, batch int32) {
	ctx, visibility := context.Background(), int32(60)
	var done atomic.Int64
	var wg sync.WaitGroup
	for range c {
		wg.Go(func() {
			for {
				r, err := q.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &batch, VisibilityTimeout: &visibility})
				if err != nil {
					b.Error(err)
					return
				}
				if len(r.Messages) == 0 {
					return
				}
				for _, m := range r.Messages {
					if len(*m.MessageText) == 0 { // the handler
						b.Error("empty message")
					}
					if _, err := q.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
						b.Error(err)
					}
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if done.Load() != messages {
		b.Errorf("raw loop handled %d of %d", done.Load(), messages)
	}
}

func drainProcessor(b *testing.B, svc service, name string, c int) {
	acct, err := queue.NewAccount(queue.AccountConfig{
		Name: "bench", Endpoint: svc.url, AccountKey: queuetest.AccountKey, AccountName: queuetest.AccountName, Transport: transport(),
	})
	if err != nil {
		b.Fatal(err)
	}
	q, err := acct.Queue(name, queue.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done atomic.Int64
	h := processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
		if len(m.Body) == 0 {
			b.Error("empty message")
		}
		if done.Add(1) == messages {
			cancel()
		}
		return nil
	})
	p, err := processor.New(q, h, processor.Config{Concurrency: c, Metrics: processor.NewMetrics(prometheus.NewRegistry(), processor.MetricsOptions{})})
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		b.Error(err)
	}
	if done.Load() != messages {
		b.Errorf("processor handled %d of %d", done.Load(), messages)
	}
}

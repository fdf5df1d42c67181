package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// The fleet: two accounts of 5,000 queues, each with its poison queue. One in twenty holds messages.
const (
	fleetAccounts = 2
	fleetQueues   = 5000
	fleetBusy     = 20
	fleetHas      = 2 * fleetAccounts * fleetQueues
	// fleetInterval stands for a minute, so that the fleet settles before one falls asleep.
	fleetInterval = 10 * time.Second
	fleetIdle     = 5   // idle queues' interval, in intervals
	fleetLimit    = 500 // requests/s for each account
)

func fleetAccount(i int) string   { return "fleet" + strconv.Itoa(i) }
func fleetQueueName(i int) string { return fmt.Sprintf("orders-%05d", i) }

// fleetServer returns the service with all its queues.
func fleetServer() (*queuetest.Server, error) {
	names := map[string]string{}
	for i := range fleetAccounts {
		names[fleetAccount(i)] = queuetest.AccountKey
	}
	s := queuetest.New(queuetest.Options{Accounts: names, NoAuth: true})
	ctx := context.Background()
	for i := range fleetAccounts {
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: fleetAccount(i), Endpoint: s.Endpoint(fleetAccount(i)), AccountKey: queuetest.AccountKey, Transport: s,
		})
		if err != nil {
			return nil, err
		}
		for j := range fleetQueues {
			q, err := acct.Queue(fleetQueueName(j), queue.Config{})
			if err != nil {
				return nil, err
			}
			if err := q.Create(ctx); err != nil {
				return nil, err
			}
			if err := q.Poison().Create(ctx); err != nil {
				return nil, err
			}
			if j%fleetBusy == 0 {
				for range 40 {
					if _, err := q.SendText(ctx, "a message of no great length", queue.SendOptions{}); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return s, nil
}

// BenchmarkFleet watches 10,000 queues and their poison queues, discovered by listing, over loopback: the
// first round at 1,000 requests a second, then what polling takes once every idle queue is polled rarely, however long
// that takes on a busy machine, then scrapes of it all; and beside that a naive exporter on the plain SDK, which counts and
// peeks at every queue in every interval. Intervals are a sixth of the usual ones. One iteration takes about four minutes.
func BenchmarkFleet(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(app.ThriftyGC)) // as qwatch run does with a large fleet
	base := startServer(b, "fleet")
	for b.Loop() {
		watchFleet(b, base)
		compactFleet(b, base)
		naive := naiveRound(b, base)
		b.ReportMetric(2*fleetHas, "naive-req/interval")
		b.ReportMetric(naive.wall.Seconds(), "naive-s/interval")
		b.ReportMetric(naive.cpu.Seconds(), "naive-cpu-s/interval")
	}
	b.ReportMetric(0, "ns/op")
}

// discoverFleet returns how the fleet is found.
func discoverFleet(b *testing.B, base string, observe func(queue.Request)) (all []collector.Discovery) {
	for i := range fleetAccounts {
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: fleetAccount(i), Endpoint: queuetest.EndpointAt(base, fleetAccount(i)), AccountKey: queuetest.AccountKey, Observe: observe,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(acct.Close)
		all = append(all, collector.Discovery{Account: acct})
	}
	return all
}

// firstRound runs a collector until every queue was found and polled.
func firstRound(b *testing.B, c *collector.Collector) (first cost, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	first = measure(func() {
		go func() { done <- c.Run(ctx) }()
		for !everyPolled(c) {
			time.Sleep(time.Second)
		}
	})
	return first, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

func watchFleet(b *testing.B, base string) {
	var requests atomic.Int64
	c, err := collector.New(collector.Config{
		Discovery: discoverFleet(b, base, func(queue.Request) { requests.Add(1) }),
		Interval:  fleetInterval, IdleInterval: fleetIdle * fleetInterval, RequestsPerSecond: fleetLimit, Patience: 10 * fleetInterval,
	})
	if err != nil {
		b.Fatal(err)
	}
	first, stop := firstRound(b, c)
	defer stop()
	b.ReportMetric(first.wall.Seconds(), "first-round-s")
	b.ReportMetric(float64(requests.Load())/first.wall.Seconds(), "first-round-req/s")
	b.ReportMetric(first.cpu.Seconds(), "first-round-cpu-s")

	settling := measure(func() {
		for !asleep(c) {
			time.Sleep(time.Second)
		}
	})
	b.ReportMetric(settling.wall.Seconds()/fleetInterval.Seconds(), "settling-intervals")
	time.Sleep(fleetIdle * fleetInterval) // those that fell asleep last are polled once sooner, to spread them
	const window = fleetIdle              // an idle queue is polled once
	before, steady := requests.Load(), []float64(nil)
	settled := measure(func() {
		for range window {
			time.Sleep(fleetInterval)
			steady = append(steady, residentMiB(b))
		}
	})
	per := float64(requests.Load()-before) / (settled.wall.Seconds() / fleetInterval.Seconds())
	b.ReportMetric(per, "req/interval")
	b.ReportMetric(per/(2*fleetHas), "of-naive")
	b.ReportMetric(settled.cpu.Seconds()/window, "cpu-s/interval")
	b.ReportMetric(slices.Max(steady), "MiB")
	scrapeFleet(b, c, "scrape")
	b.ReportMetric(residentMiB(b), "scraped-MiB")
}

// asleep says whether the fleet has settled: every idle queue is polled at the idle interval, and its poison
// queue more rarely than a busy one.
func asleep(c *collector.Collector) bool {
	mains, poisons := 0, 0
	for q := range c.All() {
		switch {
		case q.Kind == collector.KindMain && q.Interval == fleetIdle*fleetInterval:
			mains++
		case q.Kind == collector.KindPoison && q.Interval > fleetInterval:
			poisons++
		}
	}
	const idle = fleetHas / 2 * (fleetBusy - 1) / fleetBusy
	return mains == idle && poisons == idle
}

// compactFleet scrapes the compact set.
func compactFleet(b *testing.B, base string) {
	c, err := collector.New(collector.Config{
		Discovery: discoverFleet(b, base, nil), Interval: time.Hour, RequestsPerSecond: -1, Compact: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	_, stop := firstRound(b, c)
	defer stop()
	scrapeFleet(b, c, "compact")
}

// everyPolled says whether every queue was found and polled.
func everyPolled(c *collector.Collector) bool {
	polled := 0
	for q := range c.All() {
		if q.Polls > 0 {
			polled++
		}
	}
	return polled == fleetHas
}

// scrapeFleet scrapes everything through the real handler and a socket, uncompressed.
func scrapeFleet(b *testing.B, c *collector.Collector, name string) {
	srv := httptest.NewServer(web.Handler(web.Options{
		Registry: prometheus.NewRegistry(), Collector: c, Health: health.New(health.Config{}),
	}))
	defer srv.Close()
	best, size, series := time.Hour, int64(0), 0
	for range 8 {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL+"/metrics", nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "identity")
		start := time.Now()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		n := &lines{}
		if size, err = io.Copy(n, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		best, series = min(best, time.Since(start)), n.n
	}
	b.ReportMetric(best.Seconds()*1000, name+"-ms")
	b.ReportMetric(float64(size)/(1<<20), name+"-MiB")
	b.ReportMetric(float64(series), name+"-lines")
}

// lines counts lines.
type lines struct{ n int }

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.n += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

// naiveRound counts and peeks at every queue once, on the plain SDK, as fast as it can.
func naiveRound(b *testing.B, base string) cost {
	cred := map[int]*azqueue.SharedKeyCredential{}
	var clients []*azqueue.QueueClient
	for i := range fleetAccounts {
		var err error
		if cred[i], err = azqueue.NewSharedKeyCredential(fleetAccount(i), queuetest.AccountKey); err != nil {
			b.Fatal(err)
		}
		opts := &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport(), Retry: policy.RetryOptions{MaxRetries: -1}}}
		svc, err := azqueue.NewServiceClientWithSharedKeyCredential(queuetest.EndpointAt(base, fleetAccount(i)), cred[i], opts)
		if err != nil {
			b.Fatal(err)
		}
		for j := range fleetQueues {
			clients = append(clients, svc.NewQueueClient(fleetQueueName(j)), svc.NewQueueClient(fleetQueueName(j)+"-poison"))
		}
	}
	work := make(chan *azqueue.QueueClient, len(clients))
	for _, q := range clients {
		work <- q
	}
	close(work)
	n := int32(32)
	return measure(func() {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for q := range work {
					if _, err := q.GetProperties(context.Background(), nil); err != nil {
						b.Error(err)
						return
					}
					if _, err := q.PeekMessages(context.Background(), &azqueue.PeekMessagesOptions{NumberOfMessages: &n}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// residentMiB returns how much memory the process has.
func residentMiB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal("the process does not tell its memory")
	return 0
}

package collector_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// BenchmarkReselect10000 is a leader of 10,000 queues, each with its poison queue, that gives all of them up, and
// has them again: what stands between losing a lease and not polling any more.
func BenchmarkReselect10000(b *testing.B) {
	s := newStorage(b, queuetest.Options{NoAuth: true})
	ts := make([]collector.Target, 10_000)
	for i := range ts {
		ts[i] = collector.Target{Queue: open(b, s.acct, fmt.Sprintf("orders-%05d", i), queue.Config{})}
	}
	var owns atomic.Bool
	c, err := collector.New(collector.Config{Targets: ts, Owns: func(string, string) bool { return owns.Load() }})
	if err != nil {
		b.Fatal(err)
	}
	var up, down time.Duration
	for b.Loop() {
		start := time.Now()
		owns.Store(true)
		c.Reselect()
		up += time.Since(start)
		start = time.Now()
		owns.Store(false)
		c.Reselect()
		down += time.Since(start)
	}
	b.ReportMetric(float64(up.Milliseconds())/float64(b.N), "ms/taken")
	b.ReportMetric(float64(down.Milliseconds())/float64(b.N), "ms/given-up")
}

package story_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
)

const manyQueues = 10_000

// manyRig is a fleet of ten thousand queues with their poison queues, every hundredth of them stalled.
func manyRig(interval time.Duration) *rig {
	r := newRigEvery(interval)
	for i := range manyQueues {
		change := stalled(time.Duration(i) * time.Minute)
		if i%100 != 0 {
			change = nil
		}
		name := fmt.Sprintf("q%05d", i)
		r.states = append(r.states, state("a", name, change), dead("a", name, 1, collector.PoisonHolding))
	}
	return r
}

// BenchmarkFleet is one view of a fleet, which serves everybody for a second.
func BenchmarkFleet(b *testing.B) {
	r := manyRig(time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		r.Expire()
		if f := r.Fleet(); len(f.Rows) != manyQueues {
			b.Fatal(len(f.Rows))
		}
	}
}

// BenchmarkLook is one look at a fleet, and reports what is kept of each queue when all is full.
func BenchmarkLook(b *testing.B) {
	r := manyRig(time.Millisecond)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		r.Look()
	}
	for range 200 {
		r.Look()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/manyQueues, "B/queue")
	if len(r.Trend(story.Name{Account: "a", Queue: "q00000"})) == 0 {
		b.Fatal("nothing is remembered")
	}
}

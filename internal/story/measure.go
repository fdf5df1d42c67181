package story

import (
	"context"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
)

// measures holds what handlers were seen to do, by queue.
type measures struct {
	mu sync.RWMutex
	of map[Name]*measure
}

func (m *measures) get(n Name) *measure {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.of[n]
}

func (m *measures) make(n Name) *measure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[Name]*measure{}
	}
	if m.of[n] == nil {
		m.of[n] = &measure{since: time.Now(), failed: map[string]time.Time{}}
	}
	return m.of[n]
}

func (m *measures) all() map[Name]*measure {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make(map[Name]*measure, len(m.of))
	maps.Copy(out, m.of)
	return out
}

const (
	attemptsKept = 50      // dequeue counts told apart; higher ones count as the last
	failedKept   = 5000    // messages of a queue whose first failure is remembered
	fadeAt       = 1 << 17 // observations after which the old ones count half
)

// measure is what this process saw of one queue's handler.
type measure struct {
	mu     sync.Mutex
	since  time.Time
	took   histogram // of the handler, whatever came of it
	wait   histogram // from a message's first failure here to its success
	tries  [attemptsKept + 1]int64
	done   [attemptsKept + 1]int64 // of tries, those that succeeded
	failed map[string]time.Time
	deaths clusters
}

// histogram counts durations in buckets a fifth apart, from 1 ms to 8 days.
type histogram struct {
	n       int64
	longest time.Duration
	bucket  [histogramBuckets]int64
}

const (
	histogramBuckets = 112
	histogramBase    = time.Millisecond
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > histogramBase {
		i = int(math.Ceil(4 * math.Log2(float64(d)/float64(histogramBase))))
	}
	h.bucket[min(i, histogramBuckets-1)]++
	h.n++
	h.longest = max(h.longest, d)
	if h.n >= fadeAt {
		h.n = 0
		for i := range h.bucket {
			h.bucket[i] /= 2
			h.n += h.bucket[i]
		}
	}
}

// quantile returns the upper bound of the bucket that the quantile lies in; 0 when nothing was seen.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank, sum := int64(math.Ceil(q*float64(h.n))), int64(0)
	for i, n := range h.bucket {
		if sum += n; sum >= rank {
			return min(h.longest, time.Duration(float64(histogramBase)*math.Pow(2, float64(i)/4)))
		}
	}
	return h.longest
}

// Middleware measures a queue's handler: how long it takes, and at which attempt it succeeds.
func (r *Recorder) Middleware(account, queue string) processor.Middleware {
	m := r.measures.make(Name{account, queue})
	return func(next processor.Handler) processor.Handler {
		return processor.HandlerFunc(func(ctx context.Context, msg *processor.Message) error {
			began := time.Now()
			err := next.Handle(ctx, msg)
			m.handled(msg.ID, msg.DequeueCount, time.Now(), time.Since(began), err)
			return err
		})
	}
}

func (m *measure) handled(id string, attempt int, now time.Time, took time.Duration, err error) {
	attempt = min(max(attempt, 1), attemptsKept)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.took.add(took)
	if m.tries[attempt]++; m.tries[attempt] >= fadeAt {
		for i := range m.tries {
			m.tries[i] /= 2
			m.done[i] /= 2
		}
	}
	first, before := m.failed[id]
	switch {
	case err == nil:
		m.done[attempt]++
		if before {
			m.wait.add(now.Sub(first))
			delete(m.failed, id)
		}
	case !before && len(m.failed) < failedKept:
		m.failed[id] = now
	}
}

// Hook returns what is to hear of the queue's failures (processor.Config.Failures): it counts
// dead-lettered messages by their reason, and tells next, which may be nil, of everything.
func (r *Recorder) Hook(account, queue string, next processor.FailureHook) processor.FailureHook {
	return hook{r.measures.make(Name{account, queue}), next}
}

type hook struct {
	m    *measure
	next processor.FailureHook
}

// Failed implements processor.FailureHook.
func (h hook) Failed(ctx context.Context, msg *processor.Message, category string, err error, started time.Time, took time.Duration) {
	if h.next != nil {
		h.next.Failed(ctx, msg, category, err, started, took)
	}
}

// Recovered implements processor.FailureHook.
func (h hook) Recovered(ctx context.Context, msg *processor.Message) {
	if h.next != nil {
		h.next.Recovered(ctx, msg)
	}
}

// DeadLettered implements processor.FailureHook.
func (h hook) DeadLettered(ctx context.Context, msg *processor.Message, category poison.Category, reason string, err error, started time.Time, took time.Duration) {
	h.m.died(msg.ID, string(category), reason, time.Now())
	if h.next != nil {
		h.next.DeadLettered(ctx, msg, category, reason, err, started, took)
	}
}

func (m *measure) died(id, category, reason string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failed, id)
	m.deaths.add(category, reason, at)
}

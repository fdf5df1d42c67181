package metric

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options tune the consumer's metrics. The zero value is what the documentation describes.
type Options struct {
	// Native adds native histograms (growth factor 1.1, at most 160 buckets) to the classic
	// ones, for servers that scrape protobuf.
	Native bool
	// ProcessingBuckets replaces the upper bounds of the processing duration, and
	// WaitBuckets those of the time in queue; nil keeps them. They must increase.
	ProcessingBuckets, WaitBuckets []time.Duration
}

// Consumer holds the metrics of every consumer in the process; one per registry. It is
// a collector of its own, so that a scrape sees a queue's series all or not at all.
// Everything is safe for concurrent use.
type Consumer struct {
	received, sent, processed, failed   *prometheus.CounterVec
	started, late                       *prometheus.CounterVec
	receives, renewals, renewalFailures *prometheus.CounterVec
	conflicts, deadLettered             *prometheus.CounterVec
	deadLetterFailures, retries         *prometheus.CounterVec
	released, ambiguous, replayed       *prometheus.CounterVec
	lookups, hits                       *prometheus.CounterVec
	duration, size, wait                *prometheus.HistogramVec
	attempts, attemptsToComplete        *prometheus.HistogramVec

	vectors []vector
	gauges  []gaugeDef

	// mu is held for reading while the vectors are collected, and for writing while a
	// queue's series come or go.
	mu     sync.RWMutex
	queues map[queueKey]*series
}

// vector is what every metric vector can do.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

type queueKey struct{ account, queue string }

// NewConsumer returns the consumer's metrics, registered with reg; with a nil reg they
// count and are exported nowhere. A registry that already has them returns the ones it
// has, with the options they were made with: what shares a registry shares its metrics.
// It panics when a bucket list does not increase, or another collector has taken a name.
func NewConsumer(reg prometheus.Registerer, opts Options) *Consumer {
	c := &Consumer{gauges: gaugeDefs(), queues: map[queueKey]*series{}}
	counter := func(name string) *prometheus.CounterVec {
		d := Of(name)
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.LabelNames())
		c.vectors = append(c.vectors, v)
		return v
	}
	histogram := func(name string, buckets []time.Duration) *prometheus.HistogramVec {
		d := Of(name)
		if buckets != nil {
			d.Buckets = seconds(buckets)
		}
		v := newHistogram(d, opts.Native)
		c.vectors = append(c.vectors, v)
		return v
	}
	c.received, c.sent = counter(MessagesReceived), counter(MessagesSent)
	c.processed, c.failed = counter(MessagesProcessed), counter(MessagesFailed)
	c.started, c.late = counter(MessagesStarted), counter(MessagesLate)
	c.receives = counter(ReceiveRequests)
	c.renewals, c.renewalFailures = counter(LeaseRenewals), counter(LeaseRenewalFailures)
	c.conflicts = counter(PopReceiptConflicts)
	c.deadLettered, c.deadLetterFailures = counter(MessagesDeadLettered), counter(DeadLetterFailures)
	c.retries = counter(MessageRetries)
	c.released, c.ambiguous = counter(ShutdownReleased), counter(AmbiguousDeletes)
	c.replayed = counter(MessagesReplayed)
	c.lookups, c.hits = counter(DedupLookups), counter(DedupHits)
	c.duration = histogram(ProcessingDuration, opts.ProcessingBuckets)
	c.wait = histogram(TimeInQueue, opts.WaitBuckets)
	c.size = histogram(MessageSize, nil)
	c.attempts, c.attemptsToComplete = histogram(DeliveryAttempts, nil), histogram(AttemptsToComplete, nil)

	if reg == nil {
		return c
	}
	if err := reg.Register(c); err != nil {
		if dup, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			if existing, ok := dup.ExistingCollector.(*Consumer); ok {
				return existing
			}
		}
		panic(err)
	}
	return c
}

func newHistogram(d Def, native bool) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}
	if native {
		opts.NativeHistogramBucketFactor = 1.1
		opts.NativeHistogramMaxBucketNumber = 160
		opts.NativeHistogramMinResetDuration = time.Hour
	}
	return prometheus.NewHistogramVec(opts, d.LabelNames())
}

func seconds(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = d.Seconds()
	}
	return out
}

// Queue returns the metrics of one consumed queue, every series of them present at 0 from
// now on. Two calls for one queue count together; its series go when both were deleted,
// so replacing a processor before ending the old one loses no count. A nil receiver returns
// nil, whose methods do nothing.
func (c *Consumer) Queue(account, queue string) *ConsumerQueue {
	if c == nil {
		return nil
	}
	key := queueKey{account, queue}
	q := &ConsumerQueue{all: c, key: key}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.queues[key]
	if s == nil {
		s = c.newSeries(key)
		c.queues[key] = s
	}
	s.handles = append(s.handles, q)
	q.series = s
	return q
}

// Sent returns what counts a message sent to the queue, for processes that send without
// consuming: it creates no other series.
func (c *Consumer) Sent(account, queue string) func() {
	if c == nil {
		return func() {}
	}
	return c.sent.WithLabelValues(account, queue).Inc
}

// Replayed counts a message put back on the queue from its poison queue, for processes that do so with or
// without consuming: it creates no other series.
func (c *Consumer) Replayed(account, queue string) {
	if c != nil {
		c.replayed.WithLabelValues(account, queue).Inc()
	}
}

// release gives a handle back and drops the queue's series with the last one.
func (c *Consumer) release(q *ConsumerQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(q.handles, q)
	if i < 0 {
		return // deleted before
	}
	q.handles = slices.Delete(q.handles, i, i+1)
	if len(q.handles) > 0 {
		return
	}
	delete(c.queues, q.key)
	for _, v := range c.vectors {
		v.DeletePartialMatch(prometheus.Labels{LabelAccount: q.key.account, LabelQueue: q.key.queue})
	}
}

// Describe implements prometheus.Collector.
func (c *Consumer) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.vectors {
		v.Describe(ch)
	}
	for _, g := range c.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Consumer) Collect(ch chan<- prometheus.Metric) {
	for key, read := range c.collectVectors(ch) {
		if set, ok := merge(read); ok {
			c.collectGauges(ch, key, set)
		}
	}
}

// collectVectors collects what is counted and returns what is to be read. The readers are
// called without the lock: they take the locks of others.
func (c *Consumer) collectVectors(ch chan<- prometheus.Metric) map[queueKey][]func() GaugeSet {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, v := range c.vectors {
		v.Collect(ch)
	}
	readers := make(map[queueKey][]func() GaugeSet, len(c.queues))
	for key, s := range c.queues {
		for _, q := range s.handles {
			if read := q.read.Load(); read != nil {
				readers[key] = append(readers[key], *read)
			}
		}
	}
	return readers
}

// newSeries creates every series of a queue at 0.
func (c *Consumer) newSeries(k queueKey) *series {
	one := func(v *prometheus.CounterVec) prometheus.Counter { return v.WithLabelValues(k.account, k.queue) }
	each := func(v *prometheus.CounterVec, values []string) byValue[prometheus.Counter] {
		return resolve(values, func(value string) prometheus.Counter {
			return v.WithLabelValues(k.account, k.queue, value)
		})
	}
	return &series{
		received: one(c.received), sent: one(c.sent), processed: one(c.processed), failed: one(c.failed),
		started: one(c.started), late: one(c.late),
		renewals: one(c.renewals), released: one(c.released), ambiguous: one(c.ambiguous),
		replayed: one(c.replayed),
		lookups:  one(c.lookups), hits: one(c.hits),
		receives:           each(c.receives, receiveResults()),
		renewalFailures:    each(c.renewalFailures, renewalReasons()),
		conflicts:          each(c.conflicts, conflictOperations()),
		deadLettered:       each(c.deadLettered, deadLetterReasons()),
		deadLetterFailures: each(c.deadLetterFailures, stages()),
		retries:            each(c.retries, retryCategories()),
		duration: resolve(outcomes(), func(outcome string) prometheus.Observer {
			return c.duration.WithLabelValues(k.account, k.queue, outcome)
		}),
		size:               c.size.WithLabelValues(k.account, k.queue),
		wait:               c.wait.WithLabelValues(k.account, k.queue),
		attempts:           c.attempts.WithLabelValues(k.account, k.queue),
		attemptsToComplete: c.attemptsToComplete.WithLabelValues(k.account, k.queue),
	}
}

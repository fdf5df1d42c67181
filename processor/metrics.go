package processor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
)

// MetricsOptions tune NewMetrics. The zero value gives the metrics of docs/metrics.md.
type MetricsOptions struct {
	// Native adds native histograms to the classic ones, for a Prometheus that scrapes them.
	Native bool
	// ProcessingBuckets and WaitBuckets replace the upper bounds of the classic histograms of
	// processing duration (default 5ms to 12h) and of time in queue (default 100ms to 7 days).
	// They must increase.
	ProcessingBuckets, WaitBuckets []time.Duration
}

// Metrics counts what processors do. Processors whose Config holds the same Metrics share
// its families, one set of series for each queue. Safe for concurrent use; a nil *Metrics
// counts nothing.
type Metrics struct{ consumer *metric.Consumer }

// NewMetrics registers the consumer's metrics with reg and returns what counts them. With a
// nil reg they are exported nowhere. A second call with the same registry returns the same
// metrics, and the options of the first stand. It panics when a bucket list does not
// increase or another collector has taken a name.
func NewMetrics(reg prometheus.Registerer, opts MetricsOptions) *Metrics {
	return &Metrics{metric.NewConsumer(reg, metric.Options(opts))}
}

// Sent returns what counts a message sent to a queue; give it to queue.Config's OnSend in a
// process that sends and has no processor for that queue. account and queue become labels.
func (m *Metrics) Sent(account, queue string) func() {
	if m == nil {
		return func() {}
	}
	return m.consumer.Sent(account, queue)
}

// Replayed counts a message that was put back on a queue from its poison queue; see poison.ReplayOptions.
// account and queue become labels.
func (m *Metrics) Replayed(account, queue string) {
	if m != nil {
		m.consumer.Replayed(account, queue)
	}
}

// queue returns the metrics of one queue, or nil, which counts nothing.
func (m *Metrics) queue(account, queue string) *metric.ConsumerQueue {
	if m == nil {
		return nil
	}
	return m.consumer.Queue(account, queue)
}

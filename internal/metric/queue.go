package metric

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ConsumerQueue is the metrics of one consumed queue, resolved: its methods look nothing up
// and allocate nothing (an exemplar excepted). All are safe for concurrent use and do
// nothing on a nil receiver.
//
// Where a method takes a label's value, anything outside the closed set counts as the last
// value of the set, which is "other" wherever there is one.
type ConsumerQueue struct {
	*series
	all  *Consumer
	key  queueKey
	read atomic.Pointer[func() GaugeSet]
}

// series is what all handles of one queue share.
type series struct {
	handles []*ConsumerQueue // guarded by Consumer.mu

	received, sent, processed, failed, started, late prometheus.Counter
	renewals, released, ambiguous, lookups, hits     prometheus.Counter
	replayed                                         prometheus.Counter // counted by Consumer.Replayed

	receives, renewalFailures, conflicts      byValue[prometheus.Counter]
	deadLettered, deadLetterFailures, retries byValue[prometheus.Counter]
	duration                                  byValue[prometheus.Observer]

	size, wait, attempts, attemptsToComplete prometheus.Observer
}

// byValue maps the values of a closed label to what was resolved for them. The sets are
// so small that comparing beats hashing.
type byValue[T any] struct {
	values   []string
	resolved []T
}

func resolve[T any](values []string, with func(string) T) byValue[T] {
	b := byValue[T]{values: values, resolved: make([]T, len(values))}
	for i, v := range values {
		b.resolved[i] = with(v)
	}
	return b
}

func (b *byValue[T]) of(value string) T {
	for i, v := range b.values {
		if v == value {
			return b.resolved[i]
		}
	}
	return b.resolved[len(b.resolved)-1]
}

// Delete removes the queue's series from the exposition, unless another holder of the same
// queue remains. Counting after it is harmless and shows nowhere. A scrape under way may
// call the function given to Watch once more.
func (q *ConsumerQueue) Delete() {
	if q != nil {
		q.all.release(q)
	}
}

// Watch sets what tells the queue's gauges. It is called once a scrape, possibly several at
// once, and must return at once. Without it the gauges are absent; nil ends it.
func (q *ConsumerQueue) Watch(read func() GaugeSet) {
	switch {
	case q == nil:
	case read == nil:
		q.read.Store(nil)
	default:
		q.read.Store(&read)
	}
}

// ReceiveRequest counts a receive request by its result (ReceiveMessage, ReceiveEmpty,
// ReceiveError).
func (q *ConsumerQueue) ReceiveRequest(result string) {
	if q != nil {
		q.receives.of(result).Inc()
	}
}

// Received counts n messages received.
func (q *ConsumerQueue) Received(n int) {
	if q != nil && n > 0 {
		q.received.Add(float64(n))
	}
}

// Size records the size of a received message's body.
func (q *ConsumerQueue) Size(bytes int) {
	if q != nil {
		q.size.Observe(float64(bytes))
	}
}

// DeliveryAttempts records the dequeue count of a received message.
func (q *ConsumerQueue) DeliveryAttempts(n int) {
	if q != nil {
		q.attempts.Observe(float64(n))
	}
}

// Sent counts a message sent to the queue.
func (q *ConsumerQueue) Sent() {
	if q != nil {
		q.sent.Inc()
	}
}

// Started records that a handler starts on a message that has waited since its insertion.
// First deliveries count as started, and as late when they are: only they tell whether the
// consumers keep up. traceparent, when valid and sampled, becomes the exemplar.
func (q *ConsumerQueue) Started(wait time.Duration, first, late bool, traceparent string) {
	if q == nil {
		return
	}
	observe(q.wait, max(0, wait).Seconds(), traceparent)
	if !first {
		return
	}
	q.started.Inc()
	if late {
		q.late.Inc()
	}
}

// Processed counts a completed message and records on which delivery it succeeded.
func (q *ConsumerQueue) Processed(attempt int) {
	if q != nil {
		q.processed.Inc()
		q.attemptsToComplete.Observe(float64(attempt))
	}
}

// Failed counts a failure of the handler, whatever becomes of the message.
func (q *ConsumerQueue) Failed() {
	if q != nil {
		q.failed.Inc()
	}
}

// Finished records how long a handler ran and what became of the message (OutcomeCompleted
// and so on).
func (q *ConsumerQueue) Finished(outcome string, d time.Duration, traceparent string) {
	if q != nil {
		observe(q.duration.of(outcome), max(0, d).Seconds(), traceparent)
	}
}

// Renewed counts a lease renewed.
func (q *ConsumerQueue) Renewed() {
	if q != nil {
		q.renewals.Inc()
	}
}

// RenewalFailed counts a renewal that failed (RenewalLost and so on).
func (q *ConsumerQueue) RenewalFailed(reason string) {
	if q != nil {
		q.renewalFailures.of(reason).Inc()
	}
}

// ReceiptConflict counts a settlement (ConflictDelete, ConflictUpdate) refused because
// another receiver owned the message.
func (q *ConsumerQueue) ReceiptConflict(operation string) {
	if q != nil {
		q.conflicts.of(operation).Inc()
	}
}

// DeadLettered counts a message moved to the poison queue, by its category.
func (q *ConsumerQueue) DeadLettered(category string) {
	if q != nil {
		q.deadLettered.of(category).Inc()
	}
}

// DeadLetterFailed counts a move that failed: at the copy (StageSend) or at the removal of
// the original (StageDelete).
func (q *ConsumerQueue) DeadLetterFailed(stage string) {
	if q != nil {
		q.deadLetterFailures.of(stage).Inc()
	}
}

// Retried counts a message given back to be tried again (RetryTransient and so on).
func (q *ConsumerQueue) Retried(category string) {
	if q != nil {
		q.retries.of(category).Inc()
	}
}

// AmbiguousDelete counts a delete whose response was lost and whose retry found nothing.
func (q *ConsumerQueue) AmbiguousDelete() {
	if q != nil {
		q.ambiguous.Inc()
	}
}

// ShutdownReleased counts n messages released at shutdown.
func (q *ConsumerQueue) ShutdownReleased(n int) {
	if q != nil && n > 0 {
		q.released.Add(float64(n))
	}
}

// Deduplicated counts a business key looked up in an idempotency store, and whether it was found done.
func (q *ConsumerQueue) Deduplicated(hit bool) {
	if q == nil {
		return
	}
	q.lookups.Inc()
	if hit {
		q.hits.Inc()
	}
}

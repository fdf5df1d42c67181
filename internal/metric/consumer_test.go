package metric_test

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/internal/metric"
)

func TestConsumerCountsWhatItIsTold(t *testing.T) {
	t.Parallel()
	const q = `{account="acct",queue_name="orders"`
	for name, tt := range map[string]struct {
		do   func(*metric.ConsumerQueue)
		want map[string]float64
	}{
		"messages received": {
			do:   func(c *metric.ConsumerQueue) { c.Received(3); c.Received(0); c.Received(-1) },
			want: map[string]float64{"queue_messages_received_total" + q + "}": 3},
		},
		"receive requests by result, an unknown one as an error": {
			do: func(c *metric.ConsumerQueue) {
				c.ReceiveRequest(metric.ReceiveMessage)
				c.ReceiveRequest(metric.ReceiveEmpty)
				c.ReceiveRequest(metric.ReceiveEmpty)
				c.ReceiveRequest(metric.ReceiveError)
				c.ReceiveRequest("odd")
			},
			want: map[string]float64{
				"queue_receive_requests_total" + q + `,queue_receive_result="message"}`: 1,
				"queue_receive_requests_total" + q + `,queue_receive_result="empty"}`:   2,
				"queue_receive_requests_total" + q + `,queue_receive_result="error"}`:   2,
			},
		},
		"a message sent": {
			do:   func(c *metric.ConsumerQueue) { c.Sent() },
			want: map[string]float64{"queue_messages_sent_total" + q + "}": 1},
		},
		"a first delivery on time, one late, and a retry": {
			do: func(c *metric.ConsumerQueue) {
				c.Started(2*time.Second, true, false, "")
				c.Started(time.Minute, true, true, "")
				c.Started(time.Hour, false, true, "")
			},
			want: map[string]float64{
				"queue_messages_started_total" + q + "}":              2,
				"queue_messages_late_total" + q + "}":                 1,
				"queue_message_time_in_queue_seconds_count" + q + "}": 3,
				"queue_message_time_in_queue_seconds_sum" + q + "}":   3662,
			},
		},
		"a wait that would be negative": {
			do: func(c *metric.ConsumerQueue) { c.Started(-time.Second, false, false, "") },
			want: map[string]float64{
				"queue_message_time_in_queue_seconds_count" + q + "}": 1,
			},
		},
		"a message completed on its third delivery": {
			do: func(c *metric.ConsumerQueue) {
				c.DeliveryAttempts(3)
				c.Size(1000)
				c.Processed(3)
				c.Finished(metric.OutcomeCompleted, 1500*time.Millisecond, "")
			},
			want: map[string]float64{
				"queue_message_delivery_attempts_count" + q + "}":                                     1,
				"queue_message_delivery_attempts_sum" + q + "}":                                       3,
				"queue_message_size_bytes_count" + q + "}":                                            1,
				"queue_message_size_bytes_sum" + q + "}":                                              1000,
				"queue_messages_processed_total" + q + "}":                                            1,
				"queue_message_attempts_to_complete_count" + q + "}":                                  1,
				"queue_message_attempts_to_complete_sum" + q + "}":                                    3,
				"queue_message_processing_duration_seconds_count" + q + `,queue_outcome="completed"}`: 1,
				"queue_message_processing_duration_seconds_sum" + q + `,queue_outcome="completed"}`:   1.5,
			},
		},
		"a failure that is retried": {
			do: func(c *metric.ConsumerQueue) {
				c.Failed()
				c.Retried(metric.RetryTimeout)
				c.Retried("something new")
				c.Finished(metric.OutcomeAbandoned, time.Second, "")
			},
			want: map[string]float64{
				"queue_messages_failed_total" + q + "}":                                               1,
				`queue_message_retries_total{account="acct",category="timeout",queue_name="orders"}`:  1,
				`queue_message_retries_total{account="acct",category="other",queue_name="orders"}`:    1,
				"queue_message_processing_duration_seconds_count" + q + `,queue_outcome="abandoned"}`: 1,
				"queue_message_processing_duration_seconds_sum" + q + `,queue_outcome="abandoned"}`:   1,
			},
		},
		"leases": {
			do: func(c *metric.ConsumerQueue) {
				c.Renewed()
				c.RenewalFailed(metric.RenewalLost)
				c.RenewalFailed("")
				c.ReceiptConflict(metric.ConflictDelete)
				c.AmbiguousDelete()
			},
			want: map[string]float64{
				"queue_lease_renewals_total" + q + "}":                                                     1,
				"queue_lease_renewal_failures_total" + q + `,reason="lost"}`:                               1,
				"queue_lease_renewal_failures_total" + q + `,reason="other"}`:                              1,
				`queue_pop_receipt_conflicts_total{account="acct",operation="delete",queue_name="orders"}`: 1,
				"queue_ambiguous_deletes_total" + q + "}":                                                  1,
			},
		},
		"dead letters": {
			do: func(c *metric.ConsumerQueue) {
				c.DeadLettered(metric.DeadLetterMaxAge)
				c.DeadLettered("a category of tomorrow")
				c.DeadLetterFailed(metric.StageSend)
				c.DeadLetterFailed(metric.StageDelete)
			},
			want: map[string]float64{
				`queue_messages_dead_lettered_total{account="acct",queue_dead_letter_reason="max_age",queue_name="orders"}`: 1,
				`queue_messages_dead_lettered_total{account="acct",queue_dead_letter_reason="other",queue_name="orders"}`:   1,
				"queue_dead_letter_failures_total" + q + `,stage="send"}`:                                                   1,
				"queue_dead_letter_failures_total" + q + `,stage="delete"}`:                                                 1,
			},
		},
		"business keys": {
			do: func(c *metric.ConsumerQueue) { c.Deduplicated(false); c.Deduplicated(true) },
			want: map[string]float64{
				"queue_dedup_lookups_total" + q + "}": 2,
				"queue_dedup_hits_total" + q + "}":    1,
			},
		},
		"shutdown": {
			do:   func(c *metric.ConsumerQueue) { c.ShutdownReleased(4); c.ShutdownReleased(0) },
			want: map[string]float64{"queue_shutdown_released_messages_total" + q + "}": 4},
		},
		"what the processor is doing": {
			do: func(c *metric.ConsumerQueue) {
				c.Watch(func() metric.GaugeSet {
					return metric.GaugeSet{
						ActiveHandlers: 3, MaxHandlers: 16, OldestHandler: 90 * time.Second, Paused: true,
						ReceiveFailures: 2, LastReceive: time.Unix(1_700_000_000, 500_000_000),
					}
				})
			},
			want: map[string]float64{
				"queue_processor_active_handlers" + q + "}":                3,
				"queue_processor_max_handlers" + q + "}":                   16,
				"queue_processor_oldest_handler_age_seconds" + q + "}":     90,
				"queue_processor_paused" + q + "}":                         1,
				"queue_processor_consecutive_receive_failures" + q + "}":   2,
				"queue_processor_last_receive_timestamp_seconds" + q + "}": 1_700_000_000.5,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewPedanticRegistry()
			tt.do(metric.NewConsumer(reg, metric.Options{}).Queue("acct", "orders"))
			if diff := cmp.Diff(tt.want, changed(t, reg)); diff != "" {
				t.Errorf("series that are not 0 (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueuesWithoutConsumerHaveNoSeries(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	if got := samples(t, reg); len(got) > 0 {
		t.Errorf("%d series before there is a queue", len(got))
	}
	consumer.Sent("acct", "orders")()
	want := map[string]float64{`queue_messages_sent_total{account="acct",queue_name="orders"}`: 1}
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("a process that only sends (-want +got):\n%s", diff)
	}
	consumer.Replayed("acct", "other")
	want[`queue_messages_replayed_total{account="acct",queue_name="other"}`] = 1
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("a process that replays to a queue it does not consume (-want +got):\n%s", diff)
	}
}

func TestDeletedQueueLeavesNothing(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	stays := consumer.Queue("acct", "stays")
	stays.Watch(func() metric.GaugeSet { return metric.GaugeSet{MaxHandlers: 1} })
	want := samples(t, reg)

	goes := consumer.Queue("acct", "goes")
	goes.Watch(func() metric.GaugeSet { return metric.GaugeSet{MaxHandlers: 1} })
	if got := len(samples(t, reg)); got != 2*len(want) {
		t.Fatalf("two queues have %d series, one has %d", got, len(want))
	}
	goes.Delete()
	goes.Delete()
	goes.Received(1)
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("series (-before the queue came +after it went):\n%s", diff)
	}
}

func TestReplacedProcessorLosesNoCount(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	busy := func(g metric.GaugeSet) func() metric.GaugeSet { return func() metric.GaugeSet { return g } }
	before := consumer.Queue("acct", "orders")
	before.Watch(busy(metric.GaugeSet{
		ActiveHandlers: 1, MaxHandlers: 4, Held: 5, OldestHandler: time.Hour, Paused: true, ReceiveFailures: 3, LastReceive: time.Unix(5, 0),
	}))
	before.Received(10)
	after := consumer.Queue("acct", "orders")
	after.Watch(busy(metric.GaugeSet{
		ActiveHandlers: 2, MaxHandlers: 8, Held: 4, OldestHandler: time.Minute, LastReceive: time.Unix(7, 0),
	}))
	after.Received(1)

	read := func() map[string]float64 {
		out := map[string]float64{}
		for series, v := range samples(t, reg) {
			name, _, _ := strings.Cut(series, "{")
			if strings.HasPrefix(name, "queue_processor_") || name == metric.MessagesReceived {
				out[name] = v
			}
		}
		return out
	}
	both := map[string]float64{
		metric.MessagesReceived: 11, metric.ActiveHandlers: 3, metric.MaxHandlers: 12, metric.OldestHandlerAge: 3600,
		metric.ProcessorPaused: 0, metric.BreakerOpen: 0, metric.HeldMessages: 9, metric.ConsecutiveReceiveFailures: 3, metric.LastReceive: 7,
	}
	if diff := cmp.Diff(both, read()); diff != "" {
		t.Errorf("while both run (-want +got):\n%s", diff)
	}
	before.Delete()
	one := map[string]float64{
		metric.MessagesReceived: 11, metric.ActiveHandlers: 2, metric.MaxHandlers: 8, metric.OldestHandlerAge: 60,
		metric.ProcessorPaused: 0, metric.BreakerOpen: 0, metric.HeldMessages: 4, metric.ConsecutiveReceiveFailures: 0, metric.LastReceive: 7,
	}
	if diff := cmp.Diff(one, read()); diff != "" {
		t.Errorf("when the first is gone (-want +got):\n%s", diff)
	}
	after.Watch(nil)
	if diff := cmp.Diff(map[string]float64{metric.MessagesReceived: 11}, read()); diff != "" {
		t.Errorf("when nobody tells the gauges (-want +got):\n%s", diff)
	}
}

// After many reloads and the consumer's removal, nobody runs handlers any more, but what was counted and is hidden shows.
func TestEndedProcessorsMayRunNoHandlers(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	for i := range 12 {
		q := consumer.Queue("acct", "orders")
		q.Watch(func() metric.GaugeSet {
			return metric.GaugeSet{MaxHandlers: 4 + 3*(i%2), Held: 1, LastReceive: time.Unix(5, 0), Ended: true}
		})
		q.Received(1)
	}
	const labels = `{account="acct",queue_name="orders"}`
	got := samples(t, reg)
	for name, want := range map[string]float64{
		metric.MaxHandlers: 0, metric.HeldMessages: 12, metric.MessagesReceived: 12, metric.LastReceive: 5,
	} {
		if v, ok := got[name+labels]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	consumer.Queue("acct", "orders").Watch(func() metric.GaugeSet { return metric.GaugeSet{MaxHandlers: 8} })
	if v := samples(t, reg)[metric.MaxHandlers+labels]; v != 8 {
		t.Errorf("with one that runs, %v handlers may run, want 8", v)
	}
}

func TestOneRegistryHasOneConsumer(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	first := metric.NewConsumer(reg, metric.Options{})
	if second := metric.NewConsumer(reg, metric.Options{Native: true}); second != first {
		t.Error("the second call did not return the metrics of the first")
	}
	other := prometheus.NewPedanticRegistry()
	other.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: metric.MessagesSent, Help: "Mine."}))
	defer func() {
		if recover() == nil {
			t.Error("a taken name went unnoticed")
		}
	}()
	metric.NewConsumer(other, metric.Options{})
}

func TestNothingIsCountedWithoutMetrics(t *testing.T) {
	t.Parallel()
	var none *metric.Consumer
	none.Sent("acct", "orders")()
	q := none.Queue("acct", "orders")
	use(q)
	q.Watch(func() metric.GaugeSet { return metric.GaugeSet{} })
	q.Delete()
	if q != nil {
		t.Error("a nil consumer has a queue")
	}
	use(metric.NewConsumer(nil, metric.Options{}).Queue("acct", "orders")) // counts, and is exported nowhere
}

// use calls everything the processor calls on its way.
func use(q *metric.ConsumerQueue) {
	q.ReceiveRequest(metric.ReceiveMessage)
	q.Received(1)
	q.Size(200)
	q.DeliveryAttempts(1)
	q.Sent()
	q.Started(time.Second, true, true, "")
	q.Processed(1)
	q.Failed()
	q.Finished(metric.OutcomeInterrupted, time.Second, "")
	q.Renewed()
	q.RenewalFailed(metric.RenewalOther)
	q.ReceiptConflict(metric.ConflictUpdate)
	q.DeadLettered(metric.DeadLetterOther)
	q.DeadLetterFailed(metric.StageDelete)
	q.Retried(metric.RetryOther)
	q.AmbiguousDelete()
	q.ShutdownReleased(1)
	q.Deduplicated(true)
}

func TestCountingAllocatesNothing(t *testing.T) {
	q := metric.NewConsumer(prometheus.NewRegistry(), metric.Options{}).Queue("acct", "orders")
	storage := metric.NewStorage(prometheus.NewRegistry(), metric.Options{})
	storage.Init("acct", []string{"receive"})
	unsampled := "00-" + trace + "-00f067aa0ba902b7-00"
	if n := testing.AllocsPerRun(100, func() {
		use(q)
		q.Started(time.Second, true, false, unsampled)
		storage.Observe("acct", "receive", "ok", time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBucketsCanBeChosen(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	metric.NewConsumer(reg, metric.Options{
		ProcessingBuckets: []time.Duration{time.Second, 15 * time.Second},
		WaitBuckets:       []time.Duration{2 * time.Minute},
	}).Queue("acct", "orders")
	var got []string
	for series := range samples(t, reg) {
		if strings.HasPrefix(series, metric.TimeInQueue+"_bucket") ||
			strings.HasPrefix(series, metric.ProcessingDuration+"_bucket") && strings.Contains(series, metric.OutcomeCompleted) {
			got = append(got, series[strings.Index(series, `le="`):])
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{`le="+Inf"}`, `le="+Inf"}`, `le="1"}`, `le="120"}`, `le="15"}`}, got); diff != "" {
		t.Errorf("buckets (-want +got):\n%s", diff)
	}
}

func TestExemplarsCarryTheTrace(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	q := metric.NewConsumer(reg, metric.Options{}).Queue("acct", "orders")
	q.Started(time.Second, true, false, sampled)
	q.Finished(metric.OutcomeCompleted, time.Second, sampled)
	q.Finished(metric.OutcomeAbandoned, time.Second, "garbage")
	found := map[string]bool{}
	for line := range strings.Lines(expose(t, reg, expfmt.NewFormat(expfmt.TypeOpenMetrics))) {
		if name, _, _ := strings.Cut(line, "{"); strings.Contains(line, " # {") {
			if !openMetricsSample.MatchString(strings.TrimSpace(line)) || !strings.Contains(line, `{trace_id="`+trace+`"}`) {
				t.Errorf("exemplar: %s", line)
			}
			found[name] = true
		}
	}
	want := map[string]bool{metric.TimeInQueue + "_bucket": true, metric.ProcessingDuration + "_bucket": true}
	if !maps.Equal(found, want) {
		t.Errorf("exemplars on %v, want %v", found, want)
	}
}

// A scrape sees a queue's series all or not at all, whatever comes and goes meanwhile.
func TestScrapesSeeWholeQueues(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	consumer := metric.NewConsumer(reg, metric.Options{})
	consumer.Queue("acct", "one").Watch(func() metric.GaugeSet { return metric.GaugeSet{} })
	whole := len(samples(t, reg))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				q := consumer.Queue("acct", "two")
				use(q)
				q.Delete()
				runtime.Gosched()
			}
		})
	}
	for range 50 {
		n := 0
		for series := range samples(t, reg) {
			if strings.Contains(series, `queue_name="two"`) {
				n++
			}
		}
		if gauges := 8; n != 0 && n != whole-gauges {
			t.Errorf("a scrape saw %d series of a queue that has %d", n, whole-gauges)
		}
	}
	close(stop)
	wg.Wait()
}

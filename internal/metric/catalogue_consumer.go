package metric

func consumerDefs() []Def {
	defs := []Def{
		{
			Name: MessagesReceived, Type: Counter,
			Help: "Messages received.",
		},
		{
			Name: MessagesSent, Type: Counter,
			Help: "Messages sent, and accepted by the service.",
		},
		{
			Name: MessagesProcessed, Type: Counter,
			Help: "Messages completed.",
		},
		{
			Name: MessagesFailed, Type: Counter,
			Help: "Handler failures, whatever became of the message.",
		},
		{
			Name: MessagesStarted, Type: Counter,
			Help: "First deliveries handed to the handler.",
		},
		{
			Name: MessagesLate, Type: Counter,
			Help: "First deliveries handed to the handler after waiting longer than the queue's objective.",
		},
		{
			Name: ProcessingDuration, Type: Histogram, Unit: "seconds", Buckets: durationBuckets(),
			Labels: consumed(Label{LabelOutcome, outcomes()}),
			Help:   "How long handlers ran, by what became of the message.",
		},
		{
			Name: MessageSize, Type: Histogram, Unit: "bytes", Buckets: sizeBuckets(),
			Help: "Size of message bodies, before any envelope.",
		},
		{
			Name: TimeInQueue, Type: Histogram, Unit: "seconds", Buckets: waitBuckets(),
			Help: "Time from insertion to every start of the handler, retries included, by the service's clock.",
		},
		{
			Name: DeliveryAttempts, Type: Histogram, Buckets: attemptBuckets(),
			Help: "Dequeue count of messages when received.",
		},
		{
			Name: AttemptsToComplete, Type: Histogram, Buckets: attemptBuckets(),
			Help: "Dequeue count of messages when completed.",
		},
		{
			Name: ReceiveRequests, Type: Counter, Labels: consumed(Label{LabelReceiveResult, receiveResults()}),
			Help: "Receive requests, by what came back. Every one is billed.",
		},
		{
			Name: ActiveHandlers, Type: Gauge,
			Help: "Handlers running now.",
		},
		{
			Name: MaxHandlers, Type: Gauge,
			Help: "Handlers that may run at once.",
		},
		{
			Name: OldestHandlerAge, Type: Gauge, Unit: "seconds", Combine: byMax,
			Help: "How long the longest-running handler has been running; 0 when none runs.",
		},
		{
			Name: ProcessorPaused, Type: Gauge, Combine: byMin,
			Help: "1 while the processor is paused.",
		},
		{
			Name: BreakerOpen, Type: Gauge, Combine: byMax,
			Help: "1 while the processor does not receive, but for probes, because handlers fail as a whole.",
		},
		{
			Name: HeldMessages, Type: Gauge,
			Help: "Messages that are hidden on the processor's account: leased, in a retry delay, or left to their lease.",
		},
		{
			Name: ConsecutiveReceiveFailures, Type: Gauge, Combine: byMax,
			Help: "Receive requests that failed since the last that did not.",
		},
		{
			Name: LastReceive, Type: Gauge, Unit: "seconds", Combine: byMax,
			Help: "When a receive request last succeeded, empty or not, as a Unix timestamp; 0 until then.",
		},
		{
			Name: LeaseRenewals, Type: Counter,
			Help: "Lease renewals.",
		},
		{
			Name: LeaseRenewalFailures, Type: Counter, Labels: consumed(Label{LabelReason, renewalReasons()}),
			Help: "Lease renewals that failed, by reason.",
		},
		{
			Name: PopReceiptConflicts, Type: Counter, Labels: consumed(Label{LabelOperation, conflictOperations()}),
			Help: "Settlements refused because another receiver owned the message.",
		},
		{
			Name: MessagesDeadLettered, Type: Counter, Labels: consumed(Label{LabelDeadLetterReason, deadLetterReasons()}),
			Help: "Messages moved to the poison queue, by category.",
		},
		{
			Name: DeadLetterFailures, Type: Counter, Labels: consumed(Label{LabelStage, stages()}),
			Help: "Moves to the poison queue that failed, by what failed: the copy (send) or the removal of the original (delete).",
		},
		{
			Name: MessageRetries, Type: Counter, Labels: consumed(Label{LabelCategory, retryCategories()}),
			Help: "Messages given back to be tried again, by why.",
		},
		{
			Name: ShutdownReleased, Type: Counter,
			Help: "Messages released at shutdown, so that another worker takes them at once.",
		},
		{
			Name: AmbiguousDeletes, Type: Counter,
			Help: "Deletes whose response was lost and whose retry found nothing; counted as completed.",
		},
		{
			Name: MessagesReplayed, Type: Counter,
			Help: "Messages put back on the queue from its poison queue by this process, when an operator asked for it.",
		},
		{
			Name: DedupLookups, Type: Counter,
			Help: "Deliveries whose business key was looked up in an idempotency store.",
		},
		{
			Name: DedupHits, Type: Counter,
			Help: "Lookups that found the key done: the message was completed without calling the handler.",
		},
	}
	for i := range defs {
		d := &defs[i]
		d.Owner, d.Scope = OwnedByConsumer, PerConsumer
		if d.Combine == "" {
			d.Combine = bySum
		}
		if d.Labels == nil {
			d.Labels = consumed()
		}
	}
	return defs
}

// durationBuckets reach from a cached answer to a night's work.
func durationBuckets() []float64 {
	return []float64{
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
		60, 120, 300, 900, 3600, 3 * 3600, 12 * 3600,
	}
}

// waitBuckets end at seven days, the service's default time to live.
func waitBuckets() []float64 {
	return []float64{
		.1, .25, .5, 1, 2.5, 5, 10, 30,
		60, 120, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400,
	}
}

// sizeBuckets end at the service's limit; 48 KiB is what fits in it as base64.
func sizeBuckets() []float64 {
	return []float64{64, 256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 48 << 10, 64 << 10}
}

func attemptBuckets() []float64 { return []float64{1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50} }

// storageBuckets end at the time a single try may take.
func storageBuckets() []float64 { return []float64{.005, .01, .025, .05, .1, .25, 1, 2.5, 10} }

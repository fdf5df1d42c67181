package alerts

// replaced are the queues of which a consumer went away lately, and did not come back within minutes: what it held
// is delivered again, and its last scrape may have been too early to count what it gave back. One that dies and
// comes back under its own name, again and again, excuses nothing.
const replaced = `unless on ($q) (
  count by ($q) (last_over_time(queue_processor_max_handlers[30m]))
  > on ($q) count by ($q) (last_over_time(queue_processor_max_handlers[5m]))
)`

// aboutConsumers returns the alerts about what consumers count.
func aboutConsumers() []alert {
	return []alert{
		{
			name: "QwatchBreakerOpen", class: Ticket, scope: Queue, wait: "1m", keep: "5m",
			expr:        `max by ($q) (queue_processor_breaker_open) == 1`,
			summary:     "A consumer of " + theQueue + " has stopped receiving, because its handlers fail as a whole.",
			description: "What the handlers of " + theQueue + " call seems to be down. The consumer probes it and goes on by itself; meanwhile messages wait, and lose no attempt.",
		},
		{
			name: "QwatchHandlerHung", class: Page, scope: Queue, wait: "2m",
			expr: `
max by ($q, instance) (queue_processor_oldest_handler_age_seconds)
> on ($q) group_left () (
  max by ($q) (queue_handler_time_limit_seconds)
  or on ($q) 0 * max by ($q) (queue_processor_oldest_handler_age_seconds) + <1h>
)`,
			summary:     "A handler of " + theQueue + " on {{ $labels.instance }} has been running for {{ $value | humanizeDuration }}.",
			description: "The oldest running handler of " + theQueue + " on {{ $labels.instance }} has been at work for {{ $value | humanizeDuration }}, which is longer than the queue's handler time limit (an hour where there is none). Its lease is renewed all the while, so nobody else gets the message.",
		},
		{
			name: "QwatchFailureRatioHigh", class: Ticket, scope: Queue, wait: "5m", keep: "10m",
			expr: `
max by ($q) (
  sum by ($q, instance) (rate(queue_messages_failed_total[15m]))
  / on ($q, instance) (sum by ($q, instance) (rate(queue_messages_received_total[15m])) > 0)
  and on ($q, instance) sum by ($q, instance) (increase(queue_messages_failed_total[15m])) >= 5
) > 0.1`,
			summary:     "Deliveries of " + theQueue + " fail.",
			description: "On the instance where it is worst, {{ $value | humanizePercentage }} of the deliveries of " + theQueue + " within 15 minutes failed, five at least. They are tried again.",
		},
		{
			name: "QwatchLeaseRenewalsFailing", class: Ticket, scope: Queue, wait: "3m", keep: "15m",
			expr: `
sum by ($q) (increase(queue_lease_renewal_failures_total[15m])) > 0
` + sightless,
			summary:     "Leases of messages of " + theQueue + " are lost while handlers run.",
			description: "{{ $value | humanize }} renewals of leases on " + theQueue + " failed within 15 minutes. What lost its lease is delivered again while the first handler may still be at work.",
		},
		{
			name: "QwatchPopReceiptConflicts", class: Ticket, scope: Queue, wait: "1m", keep: "15m",
			expr:        `sum by ($q) (increase(queue_pop_receipt_conflicts_total[30m])) > 5`,
			summary:     "Messages of " + theQueue + " are handled by two at a time.",
			description: "{{ $value | humanize }} settlements on " + theQueue + " within 30 minutes were refused, because another receiver owned the message by then: handlers outlive their leases.",
		},
		{
			name: "QwatchRedeliveryHigh", class: Ticket, scope: Queue, wait: "20m", keep: "10m",
			expr: `
1 - sum by ($q) (rate(queue_message_delivery_attempts_bucket{le=~"1(\\.0)?"}[10m]))
  / on ($q) (sum by ($q) (rate(queue_message_delivery_attempts_count[10m])) > 0) > 0.25
and on ($q) sum by ($q) (increase(queue_message_delivery_attempts_count[10m])) > 10
` + replaced,
			summary:     "Many deliveries of " + theQueue + " are not the first.",
			description: "{{ $value | humanizePercentage }} of the deliveries of " + theQueue + " within 10 minutes, for 20 minutes on end, were of messages that had been delivered before.",
		},
		{
			name: "QwatchRedeliveriesUnaccounted", class: Ticket, scope: Queue, window: "consumer", wait: "20m", keep: "10m",
			expr: `
(
  sum by ($q) (rate(queue_message_delivery_attempts_count[10m]))
  - on ($q) sum by ($q) (rate(queue_message_delivery_attempts_bucket{le=~"1(\\.0)?"}[10m]))
  - on ($q) sum by ($q) (rate(queue_message_retries_total[10m]))
  - on ($q) sum by ($q) (rate(queue_shutdown_released_messages_total[10m]))
)
/ on ($q) (sum by ($q) (rate(queue_message_delivery_attempts_count[10m])) > 0) > 0.1
and on ($q) sum by ($q) (increase(queue_message_delivery_attempts_count[10m])) > 10
` + replaced,
			summary:     "Messages of " + theQueue + " come back, and no consumer says why.",
			description: "{{ $value | humanizePercentage }} of the deliveries of " + theQueue + " within 10 minutes, for 20 minutes on end, were of messages that had been delivered before and that no consumer gave back: consumers crash, leases are too short, or somebody else receives from the queue.",
		},
		{
			name: "QwatchRedeliveriesUnaccounted", class: Ticket, scope: Queue, window: "watcher", wait: "5m", keep: "10m",
			expr: `
max by ($q) (min_over_time(queue_peeked_delivery_attempts_max{queue_kind="main"}[poll 15m])) >= 3
unless on ($q) account_queue:queue_consumed:bool`,
			summary:     "Messages of " + theQueue + " come back again and again.",
			description: "For 15 minutes, at every look at " + theQueue + " a message was visible that had been delivered {{ $value | humanize }} times or more. Its consumer is not qwatch's: it crashes, fails, or its visibility timeout is too short.",
		},
		{
			name: "QwatchReceiveFailing", class: Ticket, scope: Queue, wait: "5m", keep: "10m",
			expr: `
max by ($q) (
  sum by ($q, instance) (rate(queue_receive_requests_total{queue_receive_result="error"}[10m]))
  / on ($q, instance) (sum by ($q, instance) (rate(queue_receive_requests_total[10m])) > 0)
  and on ($q, instance) sum by ($q, instance) (increase(queue_receive_requests_total{queue_receive_result="error"}[10m])) >= 3
) > 0.2
unless on ($q) max by ($q) (last_over_time(queue_exists{queue_kind="main"}[15m])) == 0
` + sightless,
			summary:     "Consumers of " + theQueue + " cannot receive.",
			description: "On the instance where it is worst, {{ $value | humanizePercentage }} of the receive requests to " + theQueue + " within 10 minutes failed, while most of the account answers.",
		},
		{
			name: "QwatchConsumersSaturated", class: Ticket, scope: Queue, wait: "20m", keep: "5m",
			expr: `
sum by ($q) (avg_over_time(queue_processor_active_handlers[10m]))
/ on ($q) (sum by ($q) (avg_over_time(queue_processor_max_handlers[10m])) > 0) >= 0.95
and on ($q) max by ($q) (min_over_time(queue_peeked_messages{queue_kind="main"}[poll 10m])) >= 32
and on ($q) deriv(account_queue:queue_messages_waiting:max[30m]) > 0`,
			summary:     "Every handler of " + theQueue + " is busy, and the backlog grows.",
			description: "{{ $value | humanizePercentage }} of the handlers of " + theQueue + " have been busy for half an hour while more and more messages wait. More consumers, more concurrency or faster handlers are needed.",
		},
		{
			name: "QwatchProcessorPaused", class: Note, scope: Queue, wait: "1h",
			expr:        `max by ($q) (queue_processor_paused) == 1`,
			summary:     "A consumer of " + theQueue + " has been paused for over an hour.",
			description: "Somebody paused a consumer of " + theQueue + " and has not resumed it. Nobody is paged about a queue whose consumers are all paused.",
		},
		{
			name: "QwatchWastedPolls", class: Note, scope: Queue, wait: "1h", keep: "1h",
			expr: `
sum by ($q) (rate(queue_receive_requests_total{queue_receive_result="empty"}[6h]))
/ on ($q) (sum by ($q) (rate(queue_receive_requests_total[6h])) > 1) > 0.98`,
			summary:     "Nearly every receive request of " + theQueue + " finds nothing.",
			description: "{{ $value | humanizePercentage }} of the receive requests of " + theQueue + " within six hours, more than one a second, found no message. Each one is billed.",
		},
	}
}

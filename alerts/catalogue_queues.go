package alerts

// sightless are the accounts that were out of reach lately, for longer than a moment: one alert stands for
// all their queues.
const sightless = `unless on ($a) count_over_time(account:qwatch_account_unreachable:bool[15m]) >= <evaluations in 5m>`

// aboutQueues returns the alerts about what the watcher sees.
func aboutQueues() []alert {
	return []alert{
		{
			name: "QwatchQueueMissing", class: Page, scope: Queue, wait: "1m", keep: "5m",
			// A queue that discovery found goes with the next listing, so it takes one to know that this one stays.
			expr: `
max by ($q) (max_over_time(queue_exists{queue_kind="main"}[4m])) == 0
unless on ($a) time() - max by ($a) (qwatch_discovery_last_success_timestamp_seconds) > <4m>`,
			summary:     "Queue " + theQueue + " does not exist.",
			description: "The service has been saying for five minutes that the queue " + theQueue + " is not there. Whoever sends to it gets an error; its messages are gone if it was deleted.",
		},
		{
			name: "QwatchDiscoveredQueueDeleted", class: Ticket, scope: Queue, wait: "2m",
			expr: `
group by ($q) (last_over_time(queue_last_poll_success_timestamp_seconds{queue_kind="main"}[1h]))
unless on ($q) group by ($q) (queue_last_poll_success_timestamp_seconds{queue_kind="main"})
and on ($a) time() - max by ($a) (qwatch_discovery_last_success_timestamp_seconds) < <1h>`,
			summary:     "Queue " + theQueue + " was deleted, or is no longer to be watched.",
			description: "Discovery listed account " + theAccount + " and did not find " + theQueue + " any more, which it watched within the last hour: the queue was deleted, or is excluded now. Nothing is unreachable. This ends by itself after an hour.",
		},
		{
			name: "QwatchQueuePollFailing", class: Ticket, scope: Queue, wait: "5m", keep: "5m",
			expr: `
min by ($q) (
  max by ($q, queue_kind) (max_over_time(queue_up[5m]))
  unless on ($q, queue_kind) max by ($q, queue_kind) (queue_exists) == 0
) == 0
` + sightless,
			summary:     theQueue + " or its poison queue cannot be polled.",
			description: "Every replica has failed to poll " + theQueue + " or its poison queue for ten minutes, while most of the account answers. What is known of it grows old.",
		},
		{
			name: "QwatchQueuePollStale", class: Ticket, scope: Queue, wait: "5m",
			expr: `
max by ($q) (
  time() - max by ($q, queue_kind) (queue_last_poll_success_timestamp_seconds > 0)
  > on ($q, queue_kind) (5 * max by ($q, queue_kind) (queue_poll_interval_seconds))
  unless on ($q, queue_kind) max by ($q, queue_kind) (queue_up) == 0
)
` + sightless,
			summary:     theQueue + " or its poison queue has not been polled for {{ $value | humanizeDuration }}.",
			description: "The last successful poll of " + theQueue + " or its poison queue was {{ $value | humanizeDuration }} ago, which is five intervals and more, and no poll failed: the watcher does not get to it.",
		},
		{
			name: "QwatchQueueSeriesVanished", class: Ticket, scope: Queue, wait: "10m",
			expr: `
group by ($q) (last_over_time(queue_last_poll_success_timestamp_seconds{queue_kind="main"}[1h]))
unless on ($q) group by ($q) (queue_last_poll_success_timestamp_seconds{queue_kind="main"})
unless on ($a) group by ($a) (qwatch_discovery_queues)
unless on (cluster) (
  group by (cluster) (last_over_time(qwatch_build_info[1h]))
  unless on (cluster) group by (cluster) (qwatch_build_info)
)`,
			summary:     "Nobody watches " + theQueue + " any more.",
			description: theQueue + " was watched within the last hour, and no qwatch reports it now: it was taken out of the configuration, or a replica of its own is gone. This ends by itself after an hour.",
		},
		{
			name: "QwatchConsumerStalled", class: Page, scope: Queue, wait: "2m", keep: "3m",
			expr:        `account_queue:qwatch_consumer_stalled:held`,
			summary:     "Messages wait in " + theQueue + " and none is finished.",
			description: "{{ $value | humanize }} messages or more are on " + theQueue + ", and for minutes nobody has finished one: consumers are gone, crash, or every handler fails.",
		},
		{
			name: "QwatchMessagesRetriedInVain", class: Page, scope: Queue, wait: "5m", keep: "5m",
			expr:        `account_queue:qwatch_retried_in_vain:held`,
			summary:     "Messages of " + theQueue + " are tried again and again, and none is finished.",
			description: "{{ $value | humanize }} messages are on " + theQueue + " and (nearly) all of them are hidden all the time: consumers take them, fail, and hide them until the next attempt. What the handlers call may be down.",
		},
		{
			name: "QwatchHeadOfQueueStuck", class: Ticket, scope: Queue, wait: "5m", keep: "5m",
			expr: `
max by ($q) (queue_head_unchanged_seconds{queue_kind="main"})
> on ($q) (
  account_queue:queue_time_in_queue_objective_seconds:max
  or on ($q) 0 * max by ($q) (queue_head_unchanged_seconds{queue_kind="main"}) + <1h>
)
` + excused + `
unless on ($q) min by ($q) (queue_monitor_only) == 1
unless on ($q) account_queue:qwatch_consumer_stalled:held`,
			summary:     "The oldest messages of " + theQueue + " are not being taken.",
			description: "The messages at the head of " + theQueue + " have been visible for {{ $value | humanizeDuration }}, which is longer than the objective (an hour where there is none), and nobody took one.",
		},
		{
			name: "QwatchBacklogPredictedLate", class: Ticket, scope: Queue, wait: "15m", keep: "5m",
			expr: `
account_queue:queue_predicted_wait_seconds
> on ($q) group_left () account_queue:queue_time_in_queue_objective_seconds:max`,
			summary:     "A message sent to " + theQueue + " now will be late.",
			description: "At the rate of the last 15 minutes a message sent to " + theQueue + " now waits {{ $value | humanizeDuration }}, which is longer than its objective.",
		},
		{
			name: "QwatchBacklogGrowing", class: Ticket, scope: Queue, wait: "10m", keep: "10m",
			expr: `
(
  account_queue:queue_messages_waiting:max
  and on ($q) group by ($q) (queue_status{status="falling_behind"} == 1)
)
or on ($q) (
  account_queue:queue_messages_waiting:max > 100
  and on ($q) deriv(account_queue:queue_messages_waiting:max[1h]) > 0
  and on ($q) predict_linear(account_queue:queue_messages_waiting:max[1h], <4h>) > 2 * account_queue:queue_messages_waiting:max
  and on ($q) max by ($q) (min_over_time(queue_oldest_visible_message_age_seconds{queue_kind="main"}[poll 15m])) > <10m>
  unless on ($q) group by ($q) (queue_status)
)`,
			summary:     "The backlog of " + theQueue + " grows faster than it is worked off.",
			description: "{{ $value | humanize }} messages are on " + theQueue + ". They are being taken, yet more and more wait, and ever longer.",
		},
		{
			name: "QwatchMessagesExpiringSoon", class: Ticket, scope: Queue, window: "day", wait: "10m", keep: "10m",
			expr:        `account_queue:qwatch_messages_lost_in_seconds:held >= <2h>`,
			summary:     "Messages of " + theQueue + " will be deleted within a day.",
			description: "At the present pace the service deletes the first message of " + theQueue + " or of its poison queue in {{ $value | humanizeDuration }}, before anybody has handled it.",
		},
		{
			name: "QwatchMessagesExpiringSoon", class: Page, scope: Queue, window: "soon", wait: "5m", keep: "10m",
			expr:        `account_queue:qwatch_messages_lost_in_seconds:held < <2h>`,
			summary:     "Messages of " + theQueue + " will be deleted within two hours.",
			description: "{{ if le $value 0.0 }}The service deletes messages of " + theQueue + " or of its poison queue now,{{ else }}In {{ $value | humanizeDuration }} the service deletes the first message of " + theQueue + " or of its poison queue,{{ end }} before anybody has handled it. What has expired cannot be brought back.",
		},
		{
			name: "QwatchScalingSignalStale", class: Ticket, scope: Queue, wait: "5m",
			expr:        `min by ($q) (qwatch_scaling_signal_age_seconds) > <180s>`,
			summary:     "Consumers of " + theQueue + " are scaled by old numbers, or not at all.",
			description: "The number that the autoscaler is given for " + theQueue + " is {{ $value | humanizeDuration }} old. Once it counts as stale qwatch answers \"unavailable\", and the autoscaler keeps what it has, or its fallback.",
		},
	}
}

package alerts

// catalogue returns every rule. Expressions are written with the short forms of generator.expand.
func catalogue(cfg Config) []group {
	return []group{
		{name: "qwatch.recording", records: observed()},
		{name: "qwatch.slo", records: objectives()},
		{name: "qwatch.conditions", records: conditions()},
		{name: "qwatch.self", alerts: aboutItself(cfg)},
		{name: "qwatch.accounts", alerts: aboutAccounts(cfg)},
		{name: "qwatch.queues", alerts: aboutQueues()},
		{name: "qwatch.poison", alerts: aboutPoison()},
		{name: "qwatch.consumers", alerts: aboutConsumers()},
		{name: "qwatch.burn", alerts: aboutBurn()},
	}
}

// What queues are called in texts.
const (
	theQueue   = "{{ $labels.account }}/{{ $labels.queue_name }}"
	theAccount = "{{ $labels.account }}"
)

// owner ranks what says whose a queue is: where replicas disagree, as in a rollout, the most important tier
// wins and one of the teams, so that the result is one series a queue. While nobody watches, what the last
// watcher said holds: what was critical stays so.
const owner = `
topk by ($q) (1,
  max by ($q, tier, team) (
    3 * queue_info{tier="1"}
    or 2 * queue_info{tier=~"|2"}
    or queue_info{tier="3"}
  )
) ^ 0
or on ($q) topk by ($q) (1,
  max by ($q, tier, team) (
    3 * last_over_time(queue_info{tier="1"}[1h])
    or 2 * last_over_time(queue_info{tier=~"|2"}[1h])
    or last_over_time(queue_info{tier="3"}[1h])
  )
) ^ 0
or on ($q) group by ($q) (queue_up)
or on ($q) group by ($q) (queue_messages_received_total)
or on ($q) group by ($q) (last_over_time(queue_up[1h]))`

const accountOwner = `
topk by ($a) (1,
  max by ($a, tier) (
    3 * queue_info{tier="1"}
    or 2 * queue_info{tier=~"|2"}
    or queue_info{tier="3"}
  )
) ^ 0
or on ($a) topk by ($a) (1,
  max by ($a, tier) (
    3 * last_over_time(queue_info{tier="1"}[1h])
    or 2 * last_over_time(queue_info{tier=~"|2"}[1h])
    or last_over_time(queue_info{tier="3"}[1h])
  )
) ^ 0
or on ($a) group by ($a) (queue_up)
or on ($a) group by ($a) (qwatch_storage_request_duration_seconds_count)
or on ($a) group by ($a) (qwatch_discovery_queues)
or on ($a) group by ($a) (qwatch_clock_skew_seconds)
or on ($a) group by ($a) (qwatch_storage_estimated_monthly_cost)
or on ($a) group by ($a) (qwatch_credential_expiry_timestamp_seconds)`

// observed records what was seen. Every replica polls every queue, so views are joined by max, never added up;
// every consumer counts its own work, so that is added up.
func observed() []record {
	return []record{
		{name: "account_queue:queue_owner:info", expr: owner},
		{name: "account:queue_owner:info", expr: accountOwner},
		{name: "account_queue_kind:queue_approximate_messages:max", expr: `max by ($q, queue_kind) (queue_approximate_messages)`},
		{name: "account_queue_kind:queue_peeked_messages:max", expr: `max by ($q, queue_kind) (queue_peeked_messages)`},
		{
			name: "account_queue_kind:queue_oldest_visible_message_age_seconds:max",
			expr: `max by ($q, queue_kind) (queue_oldest_visible_message_age_seconds)`,
		},
		{name: "account_queue:queue_time_in_queue_objective_seconds:max", expr: `max by ($q) (queue_time_in_queue_objective_seconds)`},
		// Messages that are there, hidden ones included.
		{name: "account_queue:queue_messages_waiting:max", expr: `
max by ($q) (queue_approximate_messages{queue_kind="main"})
or on ($q) max by ($q) (queue_peeked_messages{queue_kind="main"})`},
		{name: "account_queue:queue_messages_visible:bool", expr: `max by ($q) (queue_peeked_messages{queue_kind="main"} > bool 0)`},
		{name: "account_queue:queue_poison_messages:max", expr: `max by ($q) (queue_approximate_messages{queue_kind="poison"})`},
		// What the poison queue gained since the last evaluation, whatever was taken out of it: a fall is no gain,
		// and a poison queue that appears while its main queue was being watched was empty before. What it gained
		// while nobody watched counts once somebody does again.
		{name: "account_queue:queue_poison_messages_gained:max", expr: `
clamp_min(
  account_queue:queue_poison_messages:max
  - on ($q) last_over_time(account_queue:queue_poison_messages:max[6h] offset 1m),
  0
)
or on ($q) (
  account_queue:queue_poison_messages:max
  unless on ($q) count_over_time(account_queue:queue_poison_messages:max[6h] offset 1m)
  and on ($q) max by ($q) (queue_up{queue_kind="main"} offset 5m)
  unless on ($q) max by ($q) (queue_up{queue_kind="poison"} offset 5m) == 0
)`},
		{name: "account_queue:queue_messages_settled:rate15m", expr: `
sum by ($q) (rate(queue_messages_processed_total[15m]))
+ on ($q) sum by ($q) (rate(queue_messages_dead_lettered_total[15m]))`},
		// How long a message sent now waits (Little's law); absent when nothing settles. Messages that are hidden
		// do not count where all that are visible were seen: they may be scheduled.
		{name: "account_queue:queue_predicted_wait_seconds", expr: `
(
  account_queue_kind:queue_peeked_messages:max{queue_kind="main"} < 32
  or on ($q) account_queue_kind:queue_approximate_messages:max{queue_kind="main"}
)
/ on ($q) group_left () (account_queue:queue_messages_settled:rate15m > 0)`},
		// From depth alone; works for consumers qwatch does not run. Absent unless draining.
		{name: "account_queue:queue_drain_seconds", expr: `
account_queue_kind:queue_approximate_messages:max{queue_kind="main"}
/ -(deriv(account_queue_kind:queue_approximate_messages:max{queue_kind="main"}[30m]) < 0)`},
		// Whether qwatch's own kind of consumer is, or was a moment ago, at work on the queue for longer than
		// one scrape: its counters then tell for certain whether messages are finished.
		{name: "account_queue:queue_consumed:bool", expr: `
group by ($q) (queue_info{mode="consume",queue_kind="main"})
or on ($q) group by ($q) (count_over_time(queue_processor_max_handlers[10m]) >= 2)`},
		// Of the queues that are there, the share whose last poll failed.
		{name: "account:queue_polls_failing:ratio", expr: `
1 - avg by ($a) (
  max by ($q, queue_kind) (queue_up)
  unless on ($q, queue_kind) max by ($q, queue_kind) (queue_exists) == 0
)`},
		{name: "account:qwatch_storage_failing:ratio_rate3m", expr: `
sum by ($a) (rate(qwatch_storage_request_duration_seconds_count{result=~"auth|throttled|timeout|network|server"}[3m]))
/ on ($a) (sum by ($a) (rate(qwatch_storage_request_duration_seconds_count{result!="not_found"}[3m])) > 0)`},
		// 1 for accounts out of reach: most queues, or (nearly) all requests, fail.
		{name: "account:qwatch_account_unreachable:bool", expr: `
group by ($a) (account:queue_polls_failing:ratio > 0.5)
or on ($a) group by ($a) (account:qwatch_storage_failing:ratio_rate3m > 0.9)`},
	}
}

// finished are the queues of which a message was settled within a window, by consumers that say so. Series of
// a consumer that has no account label count where one account of the cluster has a queue of that name.
const finished = `unless on ($q) sum by ($q) (increase(queue_messages_processed_total[poll 7m])) > 0
unless on ($q) sum by ($q) (increase(queue_messages_dead_lettered_total[poll 7m])) > 0
unless on (cluster, queue_name) (
  sum by (cluster, queue_name) (increase(queue_messages_processed_total{account=""}[poll 7m])) > 0
  and on (cluster, queue_name) count by (cluster, queue_name) (group by ($q) (queue_up{queue_kind="main"})) == 1
)`

// excused are the queues of which nobody expects that messages are handled now. A watcher that does not
// know of a consumer must not silence it, so all must agree.
const excused = `unless on ($q) min by ($q) (queue_processor_paused) == 1
unless on ($q) max by ($q) (queue_exists{queue_kind="main"}) == 0`

// seen are the queues that are polled now. Whoever sees nothing begins no alert: a value that is recorded from
// windows outlasts the watcher that saw it.
const seen = `and on ($q) max by ($q) (queue_up{queue_kind="main"}) == 1`

// conditions records what pages, held while the queue cannot be seen.
func conditions() []record {
	return []record{
		// Messages wait and none is finished. Of a queue with a consumer of qwatch's kind that is certain soon, from
		// its counters. Of others the watcher finds it by comparing peeks, which takes longer. A single look that
		// finds a message, or one failure, is what a queue of scheduled messages has as well when one comes due.
		// A handler that has been at work nearly as long as the window excuses, unless its process dies again and again.
		{name: "account_queue:qwatch_consumer_stalled:held", hold: true, expr: `
(
  (
    min_over_time(account_queue:queue_messages_waiting:max[poll 7m]) > 0
    and on ($q) count_over_time(account_queue:queue_messages_waiting:max[poll 7m]) >= <evaluations in 7m>
    and on ($q) (
      avg_over_time(account_queue:queue_messages_visible:bool[poll 7m]) > <share of two polls in 7m>
      or on ($q) sum by ($q) (increase(queue_messages_failed_total[10m])) >= 3
      or on ($q) max by ($q) (queue_processor_breaker_open) == 1
    )
    unless on ($q) resets(account_queue:queue_messages_waiting:max[poll 7m]) > 0
    unless on ($q) max by ($q) (
      queue_processor_oldest_handler_age_seconds > <360s>
      unless on (cluster, instance) changes(process_start_time_seconds[30m]) >= 2
    )
    unless on ($q) (
      group by ($q) (queue_status{status!="stalled"} == 1)
      unless on ($q) account_queue:queue_consumed:bool
    )
  )
  or on ($q) (
    account_queue:queue_messages_waiting:max
    and on ($q) group by ($q) (queue_status{status="stalled"} == 1)
  )
  or on ($q) group by ($q) (queue_status{status="stalled"} == 1)
)
` + finished + `
` + excused + `
unless on ($q) min by ($q) (queue_monitor_only) == 1
` + seen},
		// Every message is hidden again and again, came back from deliveries, and none is finished. Messages
		// that are scheduled ahead are hidden too, but have no delivery behind them.
		{name: "account_queue:qwatch_retried_in_vain:held", hold: true, expr: `
account_queue:queue_messages_waiting:max > 0
and on ($q) group by ($q) (queue_status{status="hidden"} == 1)
and on ($q) max by ($q) (max_over_time(queue_peeked_delivery_attempts_max{queue_kind="main"}[30m])) >= 1
unless on ($q) resets(account_queue:queue_messages_waiting:max[poll 15m]) > 0
` + finished + `
` + excused + `
unless on ($q) account_queue:qwatch_consumer_stalled:held
` + seen},
		// The service's counts are approximate: one that goes up and down by one or two gains nothing.
		{name: "account_queue:qwatch_poison_growing:held", hold: true, expr: `
sum_over_time(account_queue:queue_poison_messages_gained:max[30m]) > 10
and on ($q) (
  max_over_time(account_queue:queue_poison_messages:max[30m]) - min_over_time(account_queue:queue_poison_messages:max[30m]) > 2
  or on ($q) max_over_time(account_queue:queue_poison_messages_gained:max[30m]) > 2
)`},
		{name: "account_queue:qwatch_poison_messages:held", hold: true, expr: `
max_over_time(account_queue:queue_poison_messages:max[poll 10m]) > 0`},
		// Main queues: what the watcher foretells, for a queue whose messages are taken in time loses none. Of a poison
		// queue nothing is taken, so there the first expiry is a loss.
		{name: "account_queue:qwatch_messages_lost_in_seconds:held", hold: true, expr: `
min by ($q) (
  min by ($q, queue_kind) (queue_forecast_loss_seconds)
  or on ($q, queue_kind) (
    min by ($q, queue_kind) (queue_next_expiration_timestamp_seconds{queue_kind="poison"}) - time()
  )
) < <24h>`},
		{name: "account_queue:qwatch_dead_letter_failing:held", hold: true, expr: `
sum by ($q) (increase(queue_dead_letter_failures_total[15m])) > 0`},
		{name: "account_queue:qwatch_dead_letter_ratio_high:held", hold: true, expr: `
sum by ($q) (increase(queue_messages_dead_lettered_total[30m]))
/ on ($q) (sum by ($q) (increase(queue_messages_received_total[30m])) > 0) > 0.05
and on ($q) sum by ($q) (increase(queue_messages_dead_lettered_total[30m])) >= 20`},
		{name: "account_queue:qwatch_latency_burn_fast:held", hold: true, expr: `
account_queue:qwatch_slo_latency_error:ratio_rate1h > on ($q) clamp_max(14.4 * account_queue:qwatch_slo_latency_budget:ratio, 0.8)
and on ($q) account_queue:qwatch_slo_latency_error:ratio_rate5m > on ($q) clamp_max(14.4 * account_queue:qwatch_slo_latency_budget:ratio, 0.8)
and on ($q) sum by ($q) (increase(queue_messages_started_total[1h])) > 20
unless on ($q) max_over_time(account_queue:queue_messages_wait:bool[5m]) == 0`},
		{name: "account_queue:qwatch_failure_burn_fast:held", hold: true, expr: `
account_queue:qwatch_slo_failure_error:ratio_rate1h > 14.4 * 0.01
and on ($q) account_queue:qwatch_slo_failure_error:ratio_rate5m > 14.4 * 0.01
and on ($q) sum by ($q) (increase(queue_messages_failed_total[1h])) >= 100
and on ($q) sum by ($q) (increase(queue_messages_failed_total[5m])) >= 20`},
		{name: "account_queue:qwatch_head_late_burn_fast:held", hold: true, expr: `
avg_over_time(account_queue:qwatch_slo_head_late:bool[1h]) > on ($q) clamp_max(14.4 * account_queue:qwatch_slo_latency_budget:ratio, 0.8)
and on ($q) avg_over_time(account_queue:qwatch_slo_head_late:bool[5m]) > on ($q) clamp_max(14.4 * account_queue:qwatch_slo_latency_budget:ratio, 0.8)
and on ($q) count_over_time(account_queue:qwatch_slo_head_late:bool[1h]) >= <evaluations in 15m>
unless on ($q) sum by ($q) (increase(queue_messages_started_total[1h])) > 20`},
	}
}

package alerts

import "strings"

// objectives records how much of the error budgets is spent. An event is a message's first start, late when
// it waited longer than the objective; and a run of a handler, bad when it failed.
func objectives() []record {
	records := []record{
		{name: "account_queue:qwatch_slo_latency_budget:ratio", expr: `
clamp_min(1 - max by ($q) (queue_time_in_queue_objective_ratio), 0.0001)
or on ($q) 0.01 * group by ($q) (queue_messages_started_total)
or on ($q) 0.01 * group by ($q) (queue_time_in_queue_objective_seconds)`},
		// 1 where many messages have been visible for as long as the objective allows, ten minutes at least and two hours
		// at most: what was scheduled ahead for one moment is many as well, but is worked off by then.
		// Of a watch that has just begun that is not known yet.
		{name: "account_queue:queue_messages_many:bool", expr: many("15m", "8m", "> <10m> <= <15m>") +
			"or on ($q) " + many("30m", "15m", "> <15m> <= <30m>") +
			"or on ($q) " + many("1h", "30m", "> <30m> <= <1h>") +
			"or on ($q) " + many("2h", "1h", "> <1h>") +
			"or on ($q) " + many("10m", "5m", "")},
		// 1 where messages really wait: many are visible, or as many as the objective allows for at the present rate
		// (Little's law). 0 where they do not, though they may look late, as those that were scheduled ahead by a
		// sender whose delays are not known. While none starts there is no rate.
		{name: "account_queue:queue_messages_wait:bool", expr: `
clamp_max(
  account_queue:queue_messages_many:bool
  + on ($q) (
    max by ($q) (avg_over_time(queue_peeked_messages{queue_kind="main"}[poll 10m]))
    > bool on ($q) (
      0.5 * max by ($q) (queue_time_in_queue_objective_seconds)
      * on ($q) (sum by ($q) (rate(queue_messages_started_total[poll 10m])) > 0)
    )
  ),
  1
)
or on ($q) account_queue:queue_messages_many:bool`},
		// 1 in the minutes in which the head of the queue was older than the objective: it sees stalls, and needs no
		// consumer. An age tells of waiting only where most messages are visible: one that was scheduled
		// ahead is old when it appears.
		{name: "account_queue:qwatch_slo_head_late:bool", expr: `
(
  max by ($q) (queue_oldest_visible_message_age_seconds{queue_kind="main"})
  > bool on ($q) account_queue:queue_time_in_queue_objective_seconds:max
)
* on ($q) clamp_max(
  account_queue:queue_messages_many:bool
  + on ($q) (
    max by ($q) (queue_peeked_messages{queue_kind="main"})
    > bool on ($q) 0.25 * max by ($q) (queue_approximate_messages{queue_kind="main"})
  ),
  1
)`},
	}
	for _, window := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"} {
		records = append(records, record{
			name: "account_queue:qwatch_slo_latency_error:ratio_rate" + window,
			expr: strings.ReplaceAll(`
sum by ($q) (rate(queue_messages_late_total[5m]))
/ on ($q) (sum by ($q) (rate(queue_messages_started_total[5m])) > 0)`, "5m", window),
		})
	}
	for _, window := range []string{"5m", "30m", "1h", "6h"} {
		records = append(records, record{
			name: "account_queue:qwatch_slo_failure_error:ratio_rate" + window,
			expr: strings.ReplaceAll(`
sum by ($q) (rate(queue_messages_failed_total[5m]))
/ on ($q) (
  (
    sum by ($q) (rate(queue_messages_failed_total[5m]))
    + on ($q) sum by ($q) (rate(queue_messages_processed_total[5m]))
  ) > 0
)`, "5m", window),
		})
	}
	return records
}

// many tells whether many messages have been visible for a window, of which at least a part was watched: of
// all queues, or of those whose objective is within bounds.
func many(window, part, bounds string) string {
	const peeked = `account_queue_kind:queue_peeked_messages:max{queue_kind="main"}`
	expr := `(
  (max by ($q) (avg_over_time(` + peeked + `[poll ` + window + `])) >= bool 30)
  * on ($q) (max by ($q) (count_over_time(` + peeked + `[poll ` + window + `])) >= bool <evaluations in ` + part + `>)
`
	if bounds != "" {
		expr += "  and on ($q) account_queue:queue_time_in_queue_objective_seconds:max " + bounds + "\n"
	}
	return expr + ")\n"
}

// waits leaves out queues in which nothing waits, of those that are watched.
func waits(window string) string {
	return "unless on ($q) max_over_time(account_queue:queue_messages_wait:bool[" + window + "]) == 0"
}

func aboutBurn() []alert {
	latency := func(long, short, factor string) string {
		threshold := "clamp_max(" + factor + " * account_queue:qwatch_slo_latency_budget:ratio, 0.8)"
		return `
account_queue:qwatch_slo_latency_error:ratio_rate` + long + ` > on ($q) ` + threshold + `
and on ($q) account_queue:qwatch_slo_latency_error:ratio_rate` + short + ` > on ($q) ` + threshold + `
and on ($q) sum by ($q) (increase(queue_messages_started_total[` + long + `])) > 20
` + waits(short)
	}
	burns := func(factor, long, spent string) string {
		return "{{ $value | humanizePercentage }} of the messages that " + theQueue + " started within " + long +
			" had waited longer than their objective: at least " + factor + " times what its target allows. " + spent
	}
	const name = "QwatchTimeInQueueBudgetBurn"
	const failing = "QwatchFailureBudgetBurn"
	return []alert{
		{
			name: name, class: Page, scope: Queue, window: "fast", wait: "2m", keep: "5m",
			expr:        `account_queue:qwatch_latency_burn_fast:held`,
			summary:     "Messages of " + theQueue + " wait far too long.",
			description: burns("14", "the last hour", "At that pace a month's budget is gone in two days."),
		},
		{
			name: name, class: Ticket, scope: Queue, window: "slow", wait: "15m", keep: "15m",
			expr:        latency("6h", "30m", "6"),
			summary:     "Messages of " + theQueue + " have been waiting too long for hours.",
			description: burns("6", "six hours", "At that pace a month's budget is gone in five days."),
		},
		{
			name: name, class: Ticket, scope: Queue, window: "day", wait: "1h", keep: "15m",
			expr:        latency("1d", "2h", "3"),
			summary:     "Messages of " + theQueue + " have been waiting too long for a day.",
			description: burns("3", "a day", "At that pace a month's budget is gone in ten days."),
		},
		{
			name: name, class: Note, scope: Queue, window: "trend", wait: "3h", keep: "15m",
			expr:        latency("3d", "6h", "1"),
			summary:     theQueue + " will miss its objective for time in queue.",
			description: burns("1", "three days", "At that pace the month's budget will be spent."),
		},
		{
			name: failing, class: Page, scope: Queue, window: "fast", wait: "2m", keep: "5m",
			expr:        `account_queue:qwatch_failure_burn_fast:held`,
			summary:     "Many handlers of " + theQueue + " fail.",
			description: "{{ $value | humanizePercentage }} of the handler runs of " + theQueue + " within the last hour failed, a hundred at least, and it goes on: 14 times what an error budget of 1 % allows.",
		},
		{
			name: failing, class: Ticket, scope: Queue, window: "slow", wait: "15m", keep: "15m",
			expr: `
account_queue:qwatch_slo_failure_error:ratio_rate6h > 6 * 0.01
and on ($q) account_queue:qwatch_slo_failure_error:ratio_rate30m > 6 * 0.01
and on ($q) sum by ($q) (increase(queue_messages_failed_total[6h])) >= 20`,
			summary:     "Handlers of " + theQueue + " have been failing for hours.",
			description: "{{ $value | humanizePercentage }} of the handler runs of " + theQueue + " within six hours failed, and it goes on: 6 times what an error budget of 1 % allows.",
		},
		{
			name: "QwatchHeadLateBudgetBurn", class: Page, scope: Queue, window: "fast", wait: "2m", keep: "5m",
			expr:        `account_queue:qwatch_head_late_burn_fast:held`,
			summary:     "The head of " + theQueue + " is older than its objective too often.",
			description: "In {{ $value | humanizePercentage }} of the last hour the oldest visible message of " + theQueue + " was older than the objective, and it still is. No consumer counts the waits of this queue, so they are judged by looking at its head.",
		},
		{
			name: "QwatchTimeInQueueHigh", class: Ticket, scope: Queue, wait: "10m", keep: "10m",
			expr: `
(
  histogram_quantile(0.95, sum by ($q) (rate(queue_message_time_in_queue_seconds[15m])))
  or on ($q) histogram_quantile(0.95, sum by ($q, le) (rate(queue_message_time_in_queue_seconds_bucket[15m])))
)
> on ($q) account_queue:queue_time_in_queue_objective_seconds:max
and on ($q) sum by ($q) (increase(queue_message_time_in_queue_seconds_count[15m])) > 20
` + waits("15m"),
			summary:     "The 95th percentile of time in queue of " + theQueue + " is above its objective.",
			description: "Of the messages that " + theQueue + " started in the last 15 minutes, retries included, one in twenty had waited {{ $value | humanizeDuration }} or longer, which is above the objective.",
		},
	}
}

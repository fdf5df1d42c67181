package alerts

// aboutPoison returns the alerts about messages that were given up.
func aboutPoison() []alert {
	return []alert{
		{
			name: "QwatchPoisonMessages", class: Ticket, scope: Queue, wait: "5m", keep: "5m",
			expr:        `account_queue:qwatch_poison_messages:held`,
			summary:     "The poison queue of " + theQueue + " holds messages.",
			description: "{{ $value | humanize }} messages lie in the poison queue of " + theQueue + ". Nothing handles them until somebody replays or deletes them.",
		},
		{
			name: "QwatchPoisonGrowing", class: Page, scope: Queue, wait: "2m", keep: "15m",
			expr:        `account_queue:qwatch_poison_growing:held`,
			summary:     "The poison queue of " + theQueue + " is filling up.",
			description: "The poison queue of " + theQueue + " gained {{ $value | humanize }} messages within 30 minutes, whatever was taken out of it meanwhile.",
		},
		{
			name: "QwatchMessagesDeadLettered", class: Ticket, scope: Queue, keep: "15m",
			// The two windows are the same, so that a scrape that was missed does not hide the poison queue alone.
			expr: `
sum by ($q) (increase(queue_messages_dead_lettered_total[15m])) > 0
unless on ($q) max_over_time(account_queue:queue_poison_messages:max[poll 15m]) > 0`,
			summary:     "Consumers of " + theQueue + " gave up on messages.",
			description: "{{ $value | humanize }} messages of " + theQueue + " were moved to its poison queue within 15 minutes, and the watcher has seen none of them there: somebody took them out, or the poison queue is not watched.",
		},
		{
			name: "QwatchUnreadableMessages", class: Ticket, scope: Queue, keep: "15m",
			expr:        `sum by ($q) (increase(queue_messages_dead_lettered_total{queue_dead_letter_reason="deserialization"}[15m])) >= 5`,
			summary:     "Messages of " + theQueue + " cannot be read.",
			description: "{{ $value | humanize }} messages of " + theQueue + " went to the poison queue within 15 minutes because they could not be decoded: a sender and the consumer disagree about encoding, envelope or type.",
		},
		{
			name: "QwatchDeadLetterFailing", class: Page, scope: Queue, keep: "15m",
			expr:        `account_queue:qwatch_dead_letter_failing:held`,
			summary:     "Messages of " + theQueue + " cannot be moved to its poison queue.",
			description: "{{ $value | humanize }} moves from " + theQueue + " to its poison queue failed within 15 minutes. The messages are not lost: they come back and are tried again, and block others meanwhile.",
		},
		{
			name: "QwatchDeadLetterRatioHigh", class: Page, scope: Queue, wait: "2m", keep: "15m",
			expr:        `account_queue:qwatch_dead_letter_ratio_high:held`,
			summary:     "Many messages of " + theQueue + " end in its poison queue.",
			description: "{{ $value | humanizePercentage }} of the deliveries of " + theQueue + " within 30 minutes, and twenty messages at least, ended in the poison queue.",
		},
	}
}

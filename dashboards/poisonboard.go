package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/qwatch/qwatch/internal/metric"
)

func poisonBoard(Config) board {
	return board{
		uid: UIDPoison, title: "qwatch / Poison",
		about: "What could not be handled: how much, since when, why, until when, and the commands to look and to mend.",
		rows: []row{
			{title: "How bad is it?", panels: poisonSignals()},
			{title: "What to do", panels: []panel{poisonCommands(), poisonGuide()}},
			{title: "How much, since when?", panels: poisonDepth()},
			{title: "Why?", panels: poisonCauses()},
		},
	}
}

func poisonSignals() []panel {
	return []panel{
		newStat(401, "Poison messages", "Messages in the poison queues. They wait there for a person, until they expire.").
			query("sum("+depth(onPoison)+")", "poison").steps(noneElse(colourPoison)...).empty(notWatched),
		newStat(402, "Queues with poison", "Queues whose poison queue holds messages.").
			query(counted(having(metric.QueuePoisonStatus, "holding|growing"), now(metric.QueuePoisonStatus)), "with poison").
			steps(noneElse(colourPoison)...).empty(notWatched).light(),
		newStat(403, "Growing", "Queues whose poison queue grows just now: something is broken at present, not only in the past.").
			query(counted(having(metric.QueuePoisonStatus, "growing"), now(metric.QueuePoisonStatus)), "growing").
			steps(noneElse(colourBad)...).empty(notWatched).light(),
		newStat(404, "Oldest", "How long the first poison message has been there.").
			query("max("+now(metric.QueueOldestVisibleAge, onPoison)+" > 0)", "oldest").unit(units.Seconds).colour(colourInfo).empty("no poison"),
		newStat(405, "First expires in", "How long until the first poison message in sight expires: then it is lost.").
			query("min(min by ("+byQueue+") ("+sel(metric.QueueNextExpiration, onPoison)+")) - time()", "expires").unit(units.Seconds).
			steps(step{0, colourBad}, step{3600, colourLook}, step{86400, colourGood}).empty("nothing expires"),
		newStat(406, "Quarantined", "Messages that qwatch's consumers moved to poison queues within the time shown.").
			query("sum("+seen(byQueue, metric.MessagesDeadLettered)+")", "quarantined").decimals(0).steps(noneElse(colourPoison)...).empty(noConsumer),
		newStat(407, "Moves that failed", "Moves to a poison queue that failed, within the time shown. The message stays where it was and comes back.").
			query("sum("+seen(byQueue, metric.DeadLetterFailures)+")", "failed").decimals(0).steps(noneElse(colourBad)...).empty(noConsumer),
		newStat(408, "Quarantined share", "Share of received messages that go to a poison queue.").
			query(share("sum("+rate(byQueue, metric.MessagesDeadLettered)+")", "sum("+rate(byQueue, metric.MessagesReceived)+")"), "share").
			unit(units.PercentUnit).decimals(2).steps(step{0, colourGood}, step{0.001, colourPoison}, step{0.05, colourBad}).empty("nothing received"),
	}
}

// poisonCommands is a table with the commands to run for each queue that has poison messages.
func poisonCommands() panel {
	// The name as the command line takes it becomes a label, and the command another.
	named := fmt.Sprintf(`label_join(max by (%s) (%s) > 0, "queue", "/", "account", "queue_name")`, byQueue, sel(metric.QueueApproximateMessages, onPoison))
	commands := fmt.Sprintf(`label_replace(label_replace(%s, "look", "qwatch poison list $1", "queue", "(.+)"), "replay", "qwatch poison replay $1 --all --dry-run", "queue", "(.+)")`, named)
	return newTable(410, "Queues with poison, and the commands to run", "Copy a command and run it where qwatch's configuration is. Replaying shows first what it would do; without --dry-run it does it, once the cause is mended.",
		"Messages", true,
		column{title: "Account", label: "account"},
		column{title: "Queue", label: "queue_name", links: rowLinks(UIDQueue, UIDConsumers)},
		column{title: "Messages", expr: commands, field: field{unit: units.Short, steps: quietElse(colourPoison)}, width: 100},
		column{title: "Look", label: "look"},
		column{title: "Replay, once mended", label: "replay"},
		column{title: "Joined", label: "queue", hidden: true},
	).size(15, 9).empty("no poison: nothing to do")
}

func poisonGuide() panel {
	return newText(411, "How to go about it", "The steps of a triage, with the commands.", paragraphs(
		"1. **Why?** `qwatch poison list ACCOUNT/QUEUE` groups what is there by category and reason. The panels under *Why?* show when it came.",
		"2. **One of them:** `qwatch poison show ACCOUNT/QUEUE ID`, with `--body` for the body.",
		"3. **Mend the cause first.** What is replayed too early comes back here.",
		"4. **Replay:** `qwatch poison replay ACCOUNT/QUEUE --all --dry-run` shows what would be done; `--canary 5` tries five first.",
		"5. **Or give up:** `delete` or `purge`, which cannot be undone. `export` keeps a copy.",
	)).size(9, 9)
}

func poisonDepth() []panel {
	return []panel{
		newSeries(420, "Poison messages", "Messages in each poison queue.").
			query(depth(onPoison), legendQueue).link(seriesLinks(UIDQueue, UIDConsumers)...).empty(notWatched),
		newSeries(421, "Growth", "How the poison queues grow or shrink, in messages an hour by the last fifteen minutes: above zero they fill, below zero somebody empties them.").
			query(fmt.Sprintf("3600 * max by (%s) (deriv(%s[15m]))", byQueue, sel(metric.QueueApproximateMessages, onPoison)), legendQueue).
			signed().empty(notWatched),
		newSeries(422, "Oldest", "How long the first poison message of each queue has been there.").
			query(now(metric.QueueOldestVisibleAge, onPoison), legendQueue).unit(units.Seconds).empty(notWatched),
		newSeries(423, "First expires in", "How long until the first poison message in sight expires, and until the first of any kind is lost.").
			query("min by ("+byQueue+") ("+sel(metric.QueueNextExpiration, onPoison)+") - time()", legendQueue+" next").
			query("min by ("+byQueue+") ("+sel(metric.QueueForecastLoss, onPoison)+")", legendQueue+" first loss").
			unit(units.Seconds).signed().paint(painted{".* next", colourPoison}, painted{".* first loss", colourBad}).empty("nothing expires"),
	}
}

func poisonCauses() []panel {
	return []panel{
		newSeries(430, "Quarantined, by why", "Messages moved to poison queues by qwatch's consumers: out of attempts, too old, unreadable, refused by the handler, of a type nobody handles.").
			query(rate("queue_dead_letter_reason", metric.MessagesDeadLettered), "{{queue_dead_letter_reason}}").unit(units.MessagesPerSecond).stacked().
			paint(painted{"max_dequeue", colourPoison}, painted{"handler", colourRetry}, painted{"max_age", colourLook}, painted{"deserialization|unroutable", colourBad}).
			empty(noConsumer),
		newSeries(431, "Quarantined, by queue", "Messages moved to each poison queue.").
			query(rate(byQueue, metric.MessagesDeadLettered), legendQueue).unit(units.MessagesPerSecond).
			link(seriesLinks(UIDQueue, UIDConsumers)...).empty(noConsumer),
		newSeries(432, "Moves that failed", "Moves that failed at writing the copy (send) or at removing the original (delete). After the second there are two of the message, which the next attempt tidies up.").
			query(rate(byQueue+", stage", metric.DeadLetterFailures), legendQueue+" {{stage}}").unit(units.MessagesPerSecond).
			paint(painted{".*", colourBad}).empty(noConsumer),
		newSeries(433, "Attempts before", "How often messages had been delivered when received, the highest 1 % of them, and the most among those visible in the poison queue.").
			query(quantile(0.99, byQueue, metric.DeliveryAttempts), legendQueue+" received, p99").
			query(now(metric.QueuePeekedAttemptsMax, onPoison), legendQueue+" in poison, most").
			paint(painted{".* received, p99", colourRetry}, painted{".* in poison, most", colourPoison}).empty("nothing received"),
		newSeries(434, "Handler failures", "Failures that come before poison: what fails often enough ends here.").
			query(rate(byQueue, metric.MessagesFailed), legendQueue).unit(units.MessagesPerSecond).link(seriesLinks(UIDConsumers)...).empty(noConsumer),
		newSeries(435, "Retries, by why", "Messages given back to be tried again.").
			query(rate("category", metric.MessageRetries), "{{category}}").unit(units.MessagesPerSecond).stacked().
			paint(painted{"panic", colourBad}, painted{"transient", colourRetry}, painted{"throttled|timeout", colourLook}).empty(noConsumer),
		newSeries(436, "Replayed", "Messages put back on their queue because somebody asked a running qwatch to. What the command line replays by itself is not counted.").
			query(rate(byQueue, metric.MessagesReplayed), legendQueue).unit(units.MessagesPerSecond).paint(painted{".*", colourGood}).size(24, 6).empty(noConsumer),
	}
}

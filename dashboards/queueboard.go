package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/qwatch/qwatch/internal/metric"
)

// noConsumer is what a panel of consumers says when it has nothing.
const noConsumer = "no consumer of qwatch"

func queueBoard(Config) board {
	return board{
		uid: UIDQueue, title: "qwatch / Queue",
		about: "One queue: how deep, how old, how fast, and whether it keeps its objective. Choose one above; with several, every panel shows each.",
		rows: []row{
			{title: "How is it?", panels: queueSignals()},
			{title: "Depth and age", panels: queueDepth()},
			{title: "Time in queue", panels: queueWaits()},
			{title: "Flow", panels: queueFlow()},
			{title: "What it is", panels: []panel{queueFacts()}},
		},
	}
}

func queueSignals() []panel {
	return []panel{
		newStat(201, "Status", "How the queue is doing, judged by its trend. docs/status.md tells what each status means.").
			query(statusCode(), legendQueue).unit(units.NoUnit).values(codes()).steps(step{0, colourQuiet}).empty(notWatched).light(),
		newStat(202, "Poison queue", "How the poison queue is doing: empty, holding messages, or growing.").
			query(poisonCode(), legendQueue).unit(units.NoUnit).values(poisonCodes()).steps(step{0, colourQuiet}).empty(notWatched).light().
			link(seriesLinks(UIDPoison)...),
		newStat(203, "Backlog", "Messages on the queue by the service's count: waiting ones, and those that are held or put off.").
			query(depth(onMain), legendQueue).colour(colourInfo).empty("not known now"),
		newStat(204, "Visible", "Messages that wait for a consumer. One look shows 32 at most.").
			query(now(metric.QueuePeekedMessages, onMain), legendQueue).values(atLeast32()).colour(colourWait).empty("not known now"),
		newStat(205, "Poison", "Messages in the poison queue.").
			query(depth(onPoison), legendQueue).steps(noneElse(colourPoison)...).empty("not known now").link(seriesLinks(UIDPoison)...),
		newStat(206, "Oldest waits", "How long the message at the head has been waiting. Yellow from half of the objective on, red once it is reached; blue without an objective.").
			query(now(metric.QueueOldestVisibleAge, onMain)+" unless on ("+byQueue+") "+now(metric.QueueTimeInQueueObjective), legendQueue).
			query(now(metric.QueueOldestVisibleAge, onMain)+" < on ("+byQueue+") 0.5 * "+now(metric.QueueTimeInQueueObjective), legendQueue+" in time").
			query("("+now(metric.QueueOldestVisibleAge, onMain)+" >= on ("+byQueue+") 0.5 * "+now(metric.QueueTimeInQueueObjective)+") < on ("+byQueue+") "+now(metric.QueueTimeInQueueObjective), legendQueue+" soon late").
			query(now(metric.QueueOldestVisibleAge, onMain)+" >= on ("+byQueue+") "+now(metric.QueueTimeInQueueObjective), legendQueue+" late").
			unit(units.Seconds).colour(colourInfo).empty("not known now").
			paint(painted{".* in time", colourGood}, painted{".* soon late", colourLook}, painted{".* late", colourBad}),
		newStat(207, "In time", "Share of messages started within the objective, within the time shown.").
			query(attainment(byQueue, true), legendQueue).unit(units.PercentUnit).decimals(2).steps(shares()...).empty("nothing started"),
		newStat(208, "First loss in", "How long until the first message that was seen, here or in the poison queue, expires unhandled.").
			query("min by ("+byQueue+") ("+sel(metric.QueueForecastLoss)+")", legendQueue).unit(units.Seconds).
			steps(step{0, colourBad}, step{3600, colourLook}, step{86400, colourGood}).empty("none in sight"),
	}
}

func queueDepth() []panel {
	hidden := fmt.Sprintf("clamp_min(%s - (%s < 32), 0)", depth(onMain), now(metric.QueuePeekedMessages, onMain))
	inFlight := fmt.Sprintf("sum by (%s) (%s)", byQueue, sel(metric.ActiveHandlers))
	return []panel{
		newSeries(210, "Depth", "Messages by where they are. Hidden is what the count has beyond the visible ones: held by a consumer, or put off; it is told while fewer than 32 are visible. In handlers are those that qwatch's consumers work on.").
			query(depth(onMain), legendQueue+" all").
			query(now(metric.QueuePeekedMessages, onMain), legendQueue+" visible, 32 at most").
			query(hidden, legendQueue+" hidden").
			query(inFlight, legendQueue+" in handlers").
			query(depth(onPoison), legendQueue+" poison").
			paint(painted{".* all", colourInfo}, painted{".* visible.*", colourWait}, painted{".* hidden", colourHidden}, painted{".* in handlers", colourGood}, painted{".* poison", colourPoison}).
			empty(notWatched),
		newSeries(211, "Age, and the objective", "How long the first visible message has waited, and for how long the head has not moved at all. Both at once going up means that nobody takes messages.").
			query(now(metric.QueueOldestVisibleAge, onMain), legendQueue+" oldest visible").
			query(now(metric.QueueHeadUnchanged, onMain), legendQueue+" head unmoved").
			query(now(metric.QueueTimeInQueueObjective), legendQueue+" objective").
			unit(units.Seconds).paint(painted{".* oldest visible", colourInfo}, painted{".* head unmoved", colourLook}).dashes(".* objective", colourLimit).
			empty(notWatched),
		newTimeline(212, "Status, over time", "The status of the queue and of its poison queue. docs/status.md tells what each means.").
			query(statusCode(), legendQueue).values(codes()).steps(step{0, colourQuiet}).empty(notWatched).size(24, 5),
	}
}

func queueWaits() []panel {
	predicted := share(depth(onMain), settled())
	late := rate(byQueue, metric.MessagesLate)
	started := rate(byQueue, metric.MessagesStarted)
	return []panel{
		newSeries(220, "Time in queue", "From insertion to every start of the handler, retries included. The points are single messages: one that carries a trace leads to it.").
			query(quantile(0.5, byQueue, metric.TimeInQueue), legendQueue+" p50").
			query(quantile(0.95, byQueue, metric.TimeInQueue), legendQueue+" p95").
			query(quantile(0.99, byQueue, metric.TimeInQueue), legendQueue+" p99").
			query(now(metric.QueueTimeInQueueObjective), legendQueue+" objective").
			unit(units.Seconds).withExemplars().paint(painted{".* p50", colourGood}, painted{".* p95", colourInfo}, painted{".* p99", colourRetry}).
			dashes(".* objective", colourLimit).empty("nothing started"),
		newHeatmap(221, "Time in queue, all of it", "How many messages waited how long. A second band above the first is retries, or a consumer that was away.", spread(metric.TimeInQueue)).
			empty("nothing started"),
		newSeries(222, "What is ahead", "Predicted wait is the backlog divided by how fast messages leave: what a message sent now will wait. Empty in is when the backlog is gone at the rate it shrinks, also when others consume the queue; it is absent while the backlog does not shrink.").
			query(predicted, legendQueue+" predicted wait").
			query(now(metric.QueueForecastDrain, onMain), legendQueue+" empty in").
			query(now(metric.QueueTimeInQueueObjective), legendQueue+" objective").
			unit(units.Seconds).paint(painted{".* predicted wait", colourInfo}, painted{".* empty in", colourGood}).dashes(".* objective", colourLimit).
			empty("nothing moves"),
		newSeries(223, "In time", "Share of messages started within the objective, and the share that is promised.").
			query(attainment(byQueue, false), legendQueue+" in time").
			query(now(metric.QueueTimeInQueueRatio), legendQueue+" target").
			unit(units.PercentUnit).between(0, 1).paint(painted{".* in time", colourGood}).dashes(".* target", colourLimit).empty("nothing started"),
		newSeries(224, "Budget burn", "How fast the error budget is spent: 1 spends it exactly within the objective's period, 14.4 in two days of thirty. Only queues with an objective.").
			query(fmt.Sprintf("(%s) / on (%s) (1 - %s)", share(late, started), byQueue, now(metric.QueueTimeInQueueRatio)), legendQueue).
			unit(units.Short).steps(step{0, colourGood}, step{1, colourLook}, step{14.4, colourBad}).limits().empty("no objective, or nothing started"),
		newSeries(225, "Expires in", "How long until the first message in sight expires: it is then gone, handled or not.").
			query("min by ("+byQueue+", queue_kind) ("+sel(metric.QueueNextExpiration)+") - time()", legendQueue+" {{queue_kind}}").
			unit(units.Seconds).signed().paint(painted{".* main", colourInfo}, painted{".* poison", colourPoison}).empty("nothing expires"),
	}
}

func queueFlow() []panel {
	return []panel{
		newSeries(230, "Messages each second", "What comes and goes through qwatch. Received counts every delivery, so retries make it higher than processed.").
			query(rate(byQueue, metric.MessagesSent), legendQueue+" sent").
			query(rate(byQueue, metric.MessagesReceived), legendQueue+" received").
			query(rate(byQueue, metric.MessagesStarted), legendQueue+" started first").
			query(rate(byQueue, metric.MessagesProcessed), legendQueue+" processed").
			query(rate(byQueue, metric.MessagesFailed), legendQueue+" failed").
			query(rate(byQueue, metric.MessagesDeadLettered), legendQueue+" to poison").
			unit(units.MessagesPerSecond).
			paint(painted{".* sent", colourWait}, painted{".* received", colourInfo}, painted{".* started first", colourHidden}, painted{".* processed", colourGood}, painted{".* failed", colourRetry}, painted{".* to poison", colourPoison}).
			empty(noConsumer),
		newSeries(231, "Attempts", "How often messages had been delivered when received and when completed, and the highest count among the visible ones. Most of a healthy queue is 1.").
			query(quantile(0.95, byQueue, metric.DeliveryAttempts), legendQueue+" received, p95").
			query(quantile(0.95, byQueue, metric.AttemptsToComplete), legendQueue+" completed, p95").
			query(now(metric.QueuePeekedAttemptsMax, onMain), legendQueue+" visible, most").
			paint(painted{".* received, p95", colourInfo}, painted{".* completed, p95", colourGood}, painted{".* visible, most", colourRetry}).
			empty("nothing received"),
		newSeries(232, "Message sizes", "Sizes of bodies when received, before any envelope. The service takes 64 KiB.").
			query(quantile(0.5, byQueue, metric.MessageSize), legendQueue+" p50").
			query(quantile(0.99, byQueue, metric.MessageSize), legendQueue+" p99").
			unit(units.BytesIEC).steps(step{0, colourGood}, step{48 << 10, colourLook}, step{64 << 10, colourBad}).limits().
			paint(painted{".* p50", colourGood}, painted{".* p99", colourRetry}).empty("nothing received"),
		newSeries(233, "How long handlers run", "Processing time of every outcome together; the consumers' dashboard tells them apart.").
			query(quantile(0.5, byQueue, metric.ProcessingDuration), legendQueue+" p50").
			query(quantile(0.95, byQueue, metric.ProcessingDuration), legendQueue+" p95").
			query(quantile(0.99, byQueue, metric.ProcessingDuration), legendQueue+" p99").
			unit(units.Seconds).withExemplars().paint(painted{".* p50", colourGood}, painted{".* p95", colourInfo}, painted{".* p99", colourRetry}).
			link(seriesLinks(UIDConsumers)...).empty(noConsumer),
	}
}

func queueFacts() panel {
	info := "max by (" + byQueue + ", physical_name, poison_queue, mode, team, tier, storage_account) (" + sel(metric.QueueInfo, onMain) + ")"
	return newTable(240, "What it is", "Whose the queue is, where it is, and what it is measured against. Empty objectives and limits are not set.",
		"Queue", false,
		column{title: "Account", label: "account"},
		column{title: "Queue", label: "queue_name"},
		column{title: "At the service", label: "physical_name"},
		column{title: "Poison queue", label: "poison_queue"},
		column{title: "Storage account", label: "storage_account"},
		column{title: "Mode", label: "mode"},
		column{title: "Team", label: "team"},
		column{title: "Tier", label: "tier"},
		column{title: "Info", expr: info, hidden: true},
		column{title: "Objective", expr: now(metric.QueueTimeInQueueObjective), field: field{unit: units.Seconds}},
		column{title: "Target", expr: now(metric.QueueTimeInQueueRatio), field: field{unit: units.PercentUnit, decimals: new(2.)}},
		column{title: "Handler limit", expr: now(metric.QueueHandlerTimeLimit), field: field{unit: units.Seconds}},
		column{title: "Polled every", expr: now(metric.QueuePollInterval, onMain), field: field{unit: units.Seconds}},
		column{title: "Stall is no fault", expr: now(metric.QueueMonitorOnly), field: field{unit: units.NoUnit, values: []value{{0, "no", ""}, {1, "yes", colourInfo}}}},
	).size(24, 6).empty(notWatched)
}

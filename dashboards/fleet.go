package dashboards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/qwatch/qwatch/internal/metric"
)

// notWatched is what a panel of the watcher says when it has nothing.
const notWatched = "no qwatch in sight"

func fleetBoard(c Config) board {
	return board{
		uid: UIDFleet, title: "qwatch / Fleet",
		about: "Is anything wrong, and where? Every queue that is watched, the worst first.",
		rows: []row{
			{title: "Is anything wrong, and where?", panels: fleetSignals()},
			{title: "How much, and how old?", panels: fleetTotals()},
			{title: "Every queue", panels: []panel{fleetTable()}},
			{title: "Over time", panels: fleetHistory()},
			{title: "Alerts", panels: []panel{firingAlerts(119, c)}},
		},
	}
}

func fleetSignals() []panel {
	statuses := now(metric.QueueStatus)
	poisoned := now(metric.QueuePoisonStatus)
	polled := nowBy(byQueue+", queue_kind", metric.QueueUp)
	firing := "max by (alertname, severity, account, queue_name) " + alerts(`alertstate="firing"`)
	return []panel{
		newStat(101, "Stopped", "Queues that nobody empties although messages wait (stalled), that cannot be asked (unreachable) or that are not there (missing). Grey when no qwatch is scraped.").
			query(counted(having(metric.QueueStatus, stopped), statuses), "stopped").
			steps(noneElse(colourBad)...).empty(notWatched).light(),
		newStat(102, "Struggling", "Queues whose backlog grows faster than it is worked off (falling behind), or whose messages are all put off again and again (hidden).").
			query(counted(having(metric.QueueStatus, struggling), statuses), "struggling").
			steps(noneElse(colourLook)...).empty(notWatched).light(),
		newStat(103, "Queues with poison", "Queues whose poison queue holds messages. They wait there for a person, until they expire.").
			query(counted(having(metric.QueuePoisonStatus, "holding|growing"), poisoned), "with poison").
			steps(noneElse(colourPoison)...).empty(notWatched).light(),
		newTable(107, "Somebody should look at these", "Queues that stopped, that struggle or whose poison queue grows, the worst first. Empty is good: then all is well, or no qwatch is in sight, which the signals tell. Click a queue for its details.",
			"Status", true,
			column{title: "Account", label: "account"},
			column{title: "Queue", label: "queue_name", links: rowLinks(UIDQueue, UIDConsumers, UIDPoison)},
			column{title: "Status", expr: "(" + statusCode() + ") and on (" + byQueue + ") " + troubled(), field: field{values: codes()}, fill: true},
			column{title: "Backlog", expr: depth(onMain) + " and on (" + byQueue + ") " + troubled(), field: field{unit: units.Short, colour: colourInfo}},
			column{title: "Oldest waits", expr: now(metric.QueueOldestVisibleAge, onMain) + " and on (" + byQueue + ") " + troubled(), field: field{unit: units.Seconds}},
			column{title: "Poison", expr: depth(onPoison) + " and on (" + byQueue + ") " + troubled(), field: field{unit: units.Short, steps: quietElse(colourPoison)}},
			column{title: "Poison queue", expr: "(" + poisonCode() + ") and on (" + byQueue + ") " + troubled(), field: field{values: poisonCodes()}, fill: true},
		).size(15, 8).empty("nothing needs anybody"),
		newStat(104, "Alerts firing", "Alerts of qwatch that fire, as Prometheus or Grafana tells. 0 also when no rules are loaded: see docs/dashboards.md.").
			query(counted(firing, metric.QwatchBuildInfo), "firing").
			steps(noneElse(colourBad)...).empty(notWatched).light(),
		newStat(105, "Polls failing", "Queues and poison queues whose last poll failed on every replica. What is shown of them is old, and goes away after three intervals.").
			query(counted(polled+" == 0", polled), "failing").
			steps(noneElse(colourBad)...).empty(notWatched).light(),
		newStat(106, "Missing", "Configured queues that the service says are not there. A missing poison queue is no fault: it is made when it is needed.").
			query(counted(now(metric.QueueExists, onMain)+" == 0", now(metric.QueueExists, onMain)), "missing").
			steps(noneElse(colourBad)...).empty(notWatched).light(),
	}
}

// troubled are the queues that somebody should look at.
func troubled() string {
	return "(" + having(metric.QueueStatus, stopped+"|"+struggling) + " or " + having(metric.QueuePoisonStatus, "growing") + ")"
}

func fleetTotals() []panel {
	return []panel{
		newStat(110, "Queues watched", "Main queues that a qwatch reports, in every account chosen.").
			query("count("+nowBy(byQueue, metric.QueuePollInterval, onMain)+")", "queues").colour(colourInfo).empty(notWatched),
		newStat(111, "Backlog", "Messages on all queues by the service's count: waiting ones, and those that are held or put off.").
			query("sum("+depth(onMain)+")", "backlog").colour(colourInfo).empty(notWatched),
		newStat(112, "Poison", "Messages in all poison queues.").
			query("sum("+depth(onPoison)+")", "poison").steps(noneElse(colourPoison)...).empty(notWatched),
		newStat(113, "Oldest wait", "How long the message at the head of the worst queue has been waiting.").
			query("max("+now(metric.QueueOldestVisibleAge, onMain)+")", "oldest").unit(units.Seconds).colour(colourInfo).empty(notWatched),
		newStat(114, "Processed", "Messages that qwatch's consumers complete each second. Queues that others consume are not in it.").
			query("sum("+rate(byQueue, metric.MessagesProcessed)+")", "processed").unit(units.MessagesPerSecond).colour(colourGood).empty("no consumer of qwatch"),
		newStat(115, "Failing", "Share of handler calls that fail, whatever becomes of the message.").
			query(share("sum("+rate(byQueue, metric.MessagesFailed)+")", "sum("+rate(byQueue, metric.MessagesReceived)+")"), "failing").
			unit(units.PercentUnit).steps(step{0, colourGood}, step{0.01, colourLook}, step{0.1, colourBad}).empty("nothing received"),
		newStat(116, "In time", "Share of messages that were started within their queue's objective, within the time shown. Only queues with an objective and a consumer of qwatch count.").
			query("1 - "+share("sum("+seen(byQueue, metric.MessagesLate)+")", "sum("+seen(byQueue, metric.MessagesStarted)+")"), "in time").
			unit(units.PercentUnit).decimals(2).steps(shares()...).empty("nothing started"),
		newStat(117, "qwatch instances", "Processes of qwatch that are scraped, watchers and consumers alike.").
			query("count("+metric.QwatchBuildInfo+")", "instances").steps(step{0, colourBad}, step{1, colourGood}).empty(notWatched),
	}
}

func fleetTable() panel {
	return newTable(118, "Every queue", "One row a queue, the worst first. Click a queue for its details. A column is empty where it does not apply: drain time when the backlog does not shrink, rates and times when no consumer of qwatch works.",
		"Status", true,
		column{title: "Account", label: "account"},
		column{title: "Queue", label: "queue_name", links: rowLinks(UIDQueue, UIDConsumers, UIDPoison)},
		column{title: "Status", expr: statusCode(), field: field{values: codes()}, fill: true, width: 130},
		column{title: "Backlog", expr: depth(onMain), field: field{unit: units.Short, colour: colourInfo}},
		column{title: "Visible", expr: now(metric.QueuePeekedMessages, onMain), field: field{unit: units.Short, values: atLeast32()}},
		column{title: "Oldest waits", expr: now(metric.QueueOldestVisibleAge, onMain), field: field{unit: units.Seconds}},
		column{title: "Poison", expr: depth(onPoison), field: field{unit: units.Short, steps: quietElse(colourPoison)}, links: rowLinks(UIDPoison)},
		column{title: "Empty in", expr: now(metric.QueueForecastDrain, onMain), field: field{unit: units.Seconds}},
		column{title: "Processed", expr: rate(byQueue, metric.MessagesProcessed), field: field{unit: units.MessagesPerSecond}},
		column{title: "p95 in queue", expr: quantile(0.95, byQueue, metric.TimeInQueue), field: field{unit: units.Seconds}},
		column{title: "In time", expr: attainment(byQueue, false), field: field{unit: units.PercentUnit, decimals: new(1.), steps: shares()}},
		column{title: "Polled", expr: "time() - (" + now(metric.QueueLastPollSuccess, onMain) + " > 0)", field: field{unit: units.Seconds}},
	).size(24, 12).empty(notWatched)
}

func fleetHistory() []panel {
	perQueue := func(id int, title, about, expr, unit string) panel {
		return newSeries(id, title, about+" The ten highest; click a line for its queue.").query(worst(10, expr), legendQueue).
			unit(unit).link(seriesLinks(UIDQueue, UIDConsumers, UIDPoison)...).empty(notWatched)
	}
	return []panel{
		newSeries(120, "Queues by status", "How many queues have each status. Anything but green and grey is worth a look.").
			query("count by (status) (max by ("+byQueue+", status) ("+sel(metric.QueueStatus)+" == 1))", "{{status}}").
			stacked().paint(statusColours()...).empty(notWatched),
		newBars(121, "Oldest waits", "The ten queues whose first message has waited longest. Bars that reach the end are the worst, not necessarily late: that depends on the queue's objective.").
			query(worst(10, now(metric.QueueOldestVisibleAge, onMain)), legendQueue).unit(units.Seconds).colour(colourInfo).
			link(seriesLinks(UIDQueue)...).empty(notWatched),
		perQueue(122, "Backlog", "Messages on each queue.", depth(onMain), units.Short),
		perQueue(123, "Processed", "Messages completed each second, by qwatch's consumers.", rate(byQueue, metric.MessagesProcessed), units.MessagesPerSecond).empty("no consumer of qwatch"),
		perQueue(124, "Oldest waits, over time", "Age of the first visible message.", now(metric.QueueOldestVisibleAge, onMain), units.Seconds),
		perQueue(125, "Poison", "Messages in each poison queue.", depth(onPoison), units.Short),
	}
}

// firingAlerts is the table of alerts, with when each began.
func firingAlerts(id int, c Config) panel {
	const by = "max by (alertname, severity, account, queue_name, instance) "
	name := column{title: "Alert", label: "alertname"}
	if c.RunbookURL != "" {
		name.links = []dataLink{{"What to do", strings.TrimSuffix(c.RunbookURL, "/") + "/${__data.fields.Alert}.md", true}}
	}
	states := "max by (alertname, severity, account, queue_name, instance, alertstate) " + alerts(`alertstate=~"firing|pending"`)
	since := fmt.Sprintf(`time() - %s(ALERTS_FOR_STATE{alertname=~"Qwatch.+",account=~"$account|",queue_name=~"$queue_name|"})`, by)
	return newTable(id, "Alerts, firing and pending", "Alerts of qwatch as Prometheus keeps them, or Grafana where its state history goes to Prometheus. Empty: none fires, or no rules are loaded.",
		"Since", false,
		name,
		column{title: "Severity", label: "severity"},
		column{title: "State", label: "alertstate"},
		column{title: "Account", label: "account"},
		column{title: "Queue", label: "queue_name", links: rowLinks(UIDQueue, UIDConsumers, UIDPoison)},
		column{title: "Instance", label: "instance"},
		column{title: "Active", expr: states, hidden: true},
		column{title: "Since", expr: since, field: field{unit: units.Seconds}},
	).size(24, 8).empty("no alert")
}

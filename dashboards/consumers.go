package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/qwatch/qwatch/internal/metric"
)

// legendInstance names a series by the process, and by its queue.
const legendInstance = legendQueue + " {{instance}}"

func consumersBoard(Config) board {
	return board{
		uid: UIDConsumers, title: "qwatch / Consumers",
		about: "What qwatch's consumers do, instance by instance: handlers, receives, leases, retries, storage and the processes.",
		rows: []row{
			{title: "Do they work?", panels: consumerSignals()},
			{title: "Handlers", panels: consumerHandlers()},
			{title: "Receiving", panels: consumerReceives()},
			{title: "Leases and retries", panels: consumerLeases()},
			{title: "Storage and processes", panels: append(storagePanels(330), processPanels(334)...)},
		},
	}
}

func consumerSignals() []panel {
	active, limit := "sum("+sel(metric.ActiveHandlers)+")", "sum("+sel(metric.MaxHandlers)+")"
	return []panel{
		newStat(301, "Consuming", "Processors of the chosen queues, one for each queue and instance. An instance that is gone is not counted.").
			query("count("+sel(metric.MaxHandlers)+")", "processors").colour(colourInfo).empty(noConsumer),
		newStat(302, "Saturation", "Share of all handlers that are busy. At 100 % messages wait although everybody works: add consumers or concurrency.").
			query(share(active, limit), "busy").unit(units.PercentUnit).
			steps(step{0, colourGood}, step{0.8, colourLook}, step{0.95, colourRetry}).empty(noConsumer),
		newStat(303, "Paused", "Processors that somebody paused. They hold no messages and take none until they are resumed.").
			query("sum("+sel(metric.ProcessorPaused)+")", "paused").steps(noneElse(colourInfo)...).empty(noConsumer).light(),
		newStat(304, "Breakers open", "Processors that stopped receiving, but for probes, because what their handlers call fails as a whole.").
			query("sum("+sel(metric.BreakerOpen)+")", "open").steps(noneElse(colourBad)...).empty(noConsumer).light(),
		newStat(305, "Failing", "Share of handler calls that fail, whatever becomes of the message.").
			query(share("sum("+rate(byQueue, metric.MessagesFailed)+")", "sum("+rate(byQueue, metric.MessagesReceived)+")"), "failing").
			unit(units.PercentUnit).steps(step{0, colourGood}, step{0.01, colourLook}, step{0.1, colourBad}).empty("nothing received"),
		newStat(306, "Longest handler", "How long the handler that has run longest has been running.").
			query("max("+sel(metric.OldestHandlerAge)+")", "longest").unit(units.Seconds).colour(colourInfo).empty(noConsumer),
		newStat(307, "Receives fail", "Share of receive requests that end in an error.").
			query(share("sum("+rate(byQueue, metric.ReceiveRequests, `queue_receive_result="error"`)+")", "sum("+rate(byQueue, metric.ReceiveRequests)+")"), "failing").
			unit(units.PercentUnit).steps(step{0, colourGood}, step{0.01, colourLook}, step{0.4, colourBad}).empty(noConsumer),
		newStat(308, "Leases lost", "Messages that another consumer took while a handler worked on them, within the time shown. Expect them twice.").
			query("sum("+seen(byQueue, metric.LeaseRenewalFailures, `reason="lost"`)+")", "lost").decimals(0).
			steps(noneElse(colourBad)...).empty(noConsumer),
	}
}

func consumerHandlers() []panel {
	sum := func(name string) string { return fmt.Sprintf("sum by (%s) (%s)", byQueueInstance, sel(name)) }
	p95 := quantile(0.95, byQueue+", queue_outcome", metric.ProcessingDuration)
	return []panel{
		newSeries(310, "Handlers running", "Handlers at work on each instance, and how many may be at once.").
			query(sum(metric.ActiveHandlers), legendInstance).
			query(sum(metric.MaxHandlers), legendInstance+" at most").
			dashes(".* at most", colourLimit).empty(noConsumer),
		newSeries(311, "Saturation", "Share of each instance's handlers that are busy.").
			query(share(sum(metric.ActiveHandlers), sum(metric.MaxHandlers)), legendInstance).
			unit(units.PercentUnit).between(0, 1).empty(noConsumer),
		newSeries(312, "Longest handler, against its limit", "How long the longest-running handler of each instance has been running, and how long one may before somebody should look, where that is set.").
			query(fmt.Sprintf("max by (%s) (%s)", byQueueInstance, sel(metric.OldestHandlerAge)), legendInstance).
			query(now(metric.QueueHandlerTimeLimit), legendQueue+" limit").
			unit(units.Seconds).dashes(".* limit", colourLimit).empty(noConsumer),
		newSeries(313, "Processing time, p95 by outcome", "How long handlers ran, by what became of the message.").
			query(p95, legendQueue+" {{queue_outcome}}").unit(units.Seconds).withExemplars().paint(outcomeColours()...).empty("nothing handled"),
		newSeries(314, "Outcomes", "What becomes of the messages that are handled. Green is done, orange is tried again, purple goes to the poison queue, red was taken by another.").
			query(rate("queue_outcome", metric.ProcessingDuration+"_count"), "{{queue_outcome}}").unit(units.MessagesPerSecond).
			stacked().paint(outcomeColours()...).empty("nothing handled"),
		newSeries(315, "Processed, by instance", "Messages completed by each instance. Uneven is normal while there is little to do.").
			query(rate(byQueueInstance, metric.MessagesProcessed), legendInstance).unit(units.MessagesPerSecond).empty(noConsumer),
	}
}

func consumerReceives() []panel {
	return []panel{
		newSeries(316, "Receive requests", "Every one is billed, the empty ones as well.").
			query(rate("queue_receive_result", metric.ReceiveRequests), "{{queue_receive_result}}").unit(units.RequestsPerSecond).stacked().
			paint(painted{"message", colourGood}, painted{"empty", colourQuiet}, painted{"error", colourBad}).empty(noConsumer),
		newSeries(317, "Empty share", "Share of receive requests that find nothing. High on an idle queue is normal: the pauses between them grow by themselves.").
			query(share(rate(byQueue, metric.ReceiveRequests, `queue_receive_result="empty"`), rate(byQueue, metric.ReceiveRequests)), legendQueue).
			unit(units.PercentUnit).between(0, 1).empty(noConsumer),
		newSeries(318, "Receives that fail in a row", "How many receive requests have failed since the last that did not, on each instance.").
			query(fmt.Sprintf("max by (%s) (%s)", byQueueInstance, sel(metric.ConsecutiveReceiveFailures)), legendInstance).empty(noConsumer),
		newSeries(319, "Last receive", "How long ago each instance last had an answer from the queue, empty or not. It grows while a processor is paused or all its handlers are busy.").
			query(fmt.Sprintf("time() - max by (%s) (%s > 0)", byQueueInstance, sel(metric.LastReceive)), legendInstance).unit(units.Seconds).empty(noConsumer),
		newSeries(326, "Held messages", "Messages that are hidden on qwatch's account: in handlers, put off until a retry, or left to their lease. Many more than handlers run means that most wait for their next attempt.").
			query(fmt.Sprintf("sum by (%s) (%s)", byQueueInstance, sel(metric.HeldMessages)), legendInstance).empty(noConsumer).size(12, 6),
		newSeries(309, "Paused, or breaker open", "1 while a processor is paused (blue) or its breaker is open (red).").
			query(fmt.Sprintf("max by (%s) (%s)", byQueueInstance, sel(metric.ProcessorPaused)), legendInstance+" paused").
			query(fmt.Sprintf("max by (%s) (%s)", byQueueInstance, sel(metric.BreakerOpen)), legendInstance+" breaker open").
			unit(units.NoUnit).between(0, 1).paint(painted{".* paused", colourInfo}, painted{".* breaker open", colourBad}).empty(noConsumer).size(12, 6),
	}
}

func consumerLeases() []panel {
	return []panel{
		newSeries(320, "Lease renewals", "Renewals keep messages hidden while handlers work. A failed one may mean that a message is handled twice.").
			query(rate(byQueue, metric.LeaseRenewals), legendQueue+" renewed").
			query(rate(byQueue+", reason", metric.LeaseRenewalFailures), legendQueue+" failed, {{reason}}").
			unit(units.OpsPerSecond).paint(painted{".* renewed", colourGood}, painted{".* failed, lost", colourBad}, painted{".* failed, .*", colourRetry}).empty(noConsumer),
		newSeries(321, "Settled too late", "Messages that another consumer owned when this one wanted to remove or put them off, and deletes of which nobody knows whether they happened.").
			query(rate(byQueue+", operation", metric.PopReceiptConflicts), legendQueue+" {{operation}} refused").
			query(rate(byQueue, metric.AmbiguousDeletes), legendQueue+" delete unsure").
			unit(units.MessagesPerSecond).paint(painted{".* refused", colourBad}, painted{".* unsure", colourLook}).empty(noConsumer),
		newSeries(322, "Retries, by why", "Messages given back to be tried again.").
			query(rate("category", metric.MessageRetries), "{{category}}").unit(units.MessagesPerSecond).stacked().
			paint(painted{"panic", colourBad}, painted{"transient", colourRetry}, painted{"throttled|timeout", colourLook}).empty(noConsumer),
		newSeries(323, "Handler failures", "Calls of the handler that failed, by queue and instance. One instance alone points at that instance, all together at what they call.").
			query(rate(byQueueInstance, metric.MessagesFailed), legendInstance).unit(units.MessagesPerSecond).empty(noConsumer),
		newSeries(324, "Duplicates avoided", "Share of deliveries whose business key was done already, so that the handler was not called. Only with an idempotency store.").
			query(share(rate(byQueue, metric.DedupHits), rate(byQueue, metric.DedupLookups)), legendQueue).unit(units.PercentUnit).between(0, 1).
			paint(painted{".*", colourInfo}).empty("no idempotency store, or nothing looked up"),
		newSeries(325, "Released at shutdown", "Messages that an ending consumer gave back so that another takes them at once. Peaks belong to rollouts.").
			query(rate(byQueue, metric.ShutdownReleased), legendQueue).unit(units.MessagesPerSecond).empty(noConsumer),
	}
}

// storagePanels are about requests to the accounts; four ids from first on are theirs.
func storagePanels(first int) []panel {
	requests := metric.StorageRequestDuration + "_count"
	return []panel{
		newSeries(first, "Storage requests, by result", "Requests to the chosen accounts. Each is a billed transaction, failed ones and retries as well.").
			query(rate("result", requests), "{{result}}").unit(units.RequestsPerSecond).stacked().
			paint(painted{"ok", colourGood}, painted{"not_found|conflict", colourQuiet}, painted{"throttled|timeout", colourLook}, painted{"auth|network|server|other", colourBad}).
			empty(notWatched),
		newSeries(first+1, "Storage requests, by operation", "What is asked of the accounts, so what the bill is made of.").
			query(rate("account, operation", requests), "{{account}} {{operation}}").unit(units.RequestsPerSecond).stacked().empty(notWatched),
		newSeries(first+2, "Storage latency, p95", "How long requests take, by account and operation, retries one by one.").
			query(quantile(0.95, "account, operation", metric.StorageRequestDuration), "{{account}} {{operation}}").unit(units.Seconds).empty(notWatched),
		newSeries(first+3, "Throttled", "Requests that an account refused because it had too many. It is the account's limit, shared by all who use it.").
			query(rate("account", requests, `result="throttled"`), "{{account}}").unit(units.RequestsPerSecond).empty(notWatched),
	}
}

// processPanels are about the processes; three ids from first on are theirs.
func processPanels(first int) []panel {
	return []panel{
		newSeries(first, "CPU", "Cores that each process uses.").
			query(ofQwatch("sum by (job, instance) (rate(process_cpu_seconds_total"+window+"))"), "{{instance}}").unit(units.Short).size(8, 8).empty(notWatched),
		newSeries(first+1, "Memory", "Memory that each process holds.").
			query(ofQwatch("max by (job, instance) (process_resident_memory_bytes)"), "{{instance}}").unit(units.BytesIEC).size(8, 8).empty(notWatched),
		newSeries(first+2, "Goroutines", "Goroutines of each process. A line that only goes up is a leak.").
			query(ofQwatch("max by (job, instance) (go_goroutines)"), "{{instance}}").size(8, 8).empty(notWatched),
	}
}

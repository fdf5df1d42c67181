package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/qwatch/qwatch/internal/metric"
)

func selfBoard(c Config) board {
	return board{
		uid: UIDSelf, title: "qwatch / Itself",
		about: "Whether what the other dashboards show can be trusted: polls, clocks, storage requests and their bill, discovery, health and scrapes.",
		rows: []row{
			{title: "Can the rest be trusted?", panels: selfSignals()},
			{title: "Polls", panels: selfPolls(c)},
			{title: "Storage and its bill", panels: append(storagePanels(530), selfBill()...)},
			{title: "Discovery", panels: selfDiscovery()},
			{title: "Replicas, scaling and the canary", panels: selfReplicas()},
			{title: "Health and processes", panels: append(selfHealth(), processPanels(554)...)},
		},
	}
}

// lag is how many intervals ago a queue was last polled with success.
func lag() string {
	const by = byQueue + ", queue_kind"
	return fmt.Sprintf("(time() - (%s > 0)) / on (%s) %s", nowBy(by, metric.QueueLastPollSuccess), by, nowBy(by, metric.QueuePollInterval))
}

func selfSignals() []panel {
	polled := nowBy(byQueue+", queue_kind", metric.QueueUp)
	ok := []step{{0, colourBad}, {0.5, colourLook}, {1, colourGood}}
	yes := []value{{0, "no", ""}, {0.5, "degraded", ""}, {1, "yes", ""}}
	return []panel{
		newStat(501, "Instances", "Processes of qwatch that are scraped.").
			query("count("+metric.QwatchBuildInfo+")", "instances").steps(step{0, colourBad}, step{1, colourGood}).empty(notWatched),
		newStat(502, "Healthy", "The worst health check of any instance. The table below tells which.").
			query("min("+metric.HealthCheckStatus+")", "healthy").unit(units.NoUnit).values(yes).steps(ok...).empty(notWatched).light(),
		newStat(503, "Polls failing", "Queues and poison queues whose last poll failed on every replica.").
			query(counted(polled+" == 0", polled), "failing").steps(noneElse(colourBad)...).empty(notWatched).light(),
		newStat(504, "Worst lag", "How many intervals ago the queue that is most behind was last polled with success. From 3 on its values are gone.").
			query("max("+lag()+")", "intervals").decimals(1).steps(step{0, colourGood}, step{2, colourLook}, step{3, colourBad}).empty("nothing polled yet"),
		newStat(505, "Configuration loaded", "Whether every instance runs the configuration it was last given.").
			query("min("+metric.ConfigLastReloadSuccessful+")", "loaded").unit(units.NoUnit).values(yes).steps(ok...).empty(notWatched).light(),
		newStat(506, "Credential expires in", "How long until the first credential that tells its end expires.").
			query("min("+sel(metric.CredentialExpiry)+") - time()", "expires").unit(units.Seconds).
			steps(step{0, colourBad}, step{86400, colourLook}, step{14 * 86400, colourGood}).empty("none tells its end"),
		newStat(507, "Estimated bill", "What a month of storage requests costs at the rate of the last hour and the configured price, in that price's currency.").
			query("sum("+sel(metric.StorageMonthlyCost)+")", "a month").decimals(2).colour(colourInfo).empty("no price configured"),
		newStat(508, "Left out", "Queues that discovery found and does not watch, because there are too many.").
			query("sum("+nowBy("account", metric.DiscoveryDropped)+")", "left out").steps(noneElse(colourLook)...).empty("no discovery"),
	}
}

func selfPolls(c Config) []panel {
	var panels []panel
	if !c.Compact {
		panels = append(panels,
			newSeries(510, "Polls", "Polls of queues and poison queues, by account and kind, failed ones included.").
				query(rate("account, queue_kind", metric.QueuePolls), "{{account}} {{queue_kind}}").unit(units.RequestsPerSecond).empty(notWatched),
			newSeries(511, "Slowest polls", "How long the slowest last poll of each account took, retries included. A poll may take its interval or 10 s, whichever is less.").
				query("max by (account) ("+sel(metric.QueueLastPollDuration)+")", "{{account}}").unit(units.Seconds).empty(notWatched),
		)
	}
	return append(panels,
		newSeries(512, "Failed polls, by why", "Polls that failed. A poison queue that does not exist yet is not_found, and no fault.").
			query(rate("account, reason", metric.QueuePollFailures), "{{account}} {{reason}}").unit(units.RequestsPerSecond).stacked().
			paint(painted{".* not_found", colourQuiet}, painted{".* (throttled|timeout)", colourLook}, painted{".* (auth|network|server|other)", colourBad}).empty("no poll failed"),
		newSeries(513, "Poll lag", "How many intervals ago each queue was last polled with success. The ten highest; from 3 on its values are gone.").
			query(worst(10, lag()), legendQueue+" {{queue_kind}}").decimals(1).steps(step{0, colourGood}, step{3, colourBad}).limits().
			link(seriesLinks(UIDQueue)...).empty("nothing polled yet"),
		newSeries(514, "Clock skew", "The service's clock less the local one. Ages are told by the service's clock; shared keys stop working at 15 minutes.").
			query(nowBy("account", metric.ClockSkew), "{{account}}").unit(units.Seconds).signed().empty("no account has answered yet"),
		newSeries(515, "Ages taken as 0", "Messages that seemed to come from the future. More than now and then is a wrong clock at a sender.").
			query(rate("account", metric.QueueAgesClamped), "{{account}}").unit(units.CountsPerSecond).empty("none"),
	)
}

func selfBill() []panel {
	return []panel{
		newSeries(534, "Estimated bill", "What a month of storage requests costs at the rate of the last hour and the configured price, in that price's currency.").
			query("sum by (account) ("+sel(metric.StorageMonthlyCost)+")", "{{account}}").decimals(2).empty("no price configured"),
		newSeries(535, "Credentials expire in", "How long each account's credential lasts, where it tells.").
			query("min by (account) ("+sel(metric.CredentialExpiry)+") - time()", "{{account}}").unit(units.Seconds).signed().empty("none tells its end"),
	}
}

func selfDiscovery() []panel {
	return []panel{
		newSeries(540, "Queues found", "Queues that discovery found and watches, and those it leaves out because there are too many.").
			query(nowBy("account", metric.DiscoveryQueues), "{{account}} watched").
			query(nowBy("account", metric.DiscoveryDropped), "{{account}} left out").
			paint(painted{".* watched", colourInfo}, painted{".* left out", colourLook}).empty("no discovery"),
		newSeries(541, "Last listed", "How long ago each account's queues were last listed with success.").
			query("time() - ("+nowBy("account", metric.DiscoveryLastSuccess)+" > 0)", "{{account}}").unit(units.Seconds).empty("no discovery"),
	}
}

func selfReplicas() []panel {
	replica := func(name string) string { return definition(name).Combine + "(" + name + ")" }
	return []panel{
		newSeries(560, "Leader and shards", "Replicas that lead (exactly one is right, where replicas elect), and shards: how many there are, and how many the replica that sees fewest takes for alive.").
			query("sum("+metric.Leader+")", "leaders").
			query(replica(metric.Shards), "shards").
			query(replica(metric.ShardsAlive), "shards alive").
			paint(painted{"leaders", colourGood}, painted{"shards alive", colourInfo}).dashes("shards", colourLimit).size(8, 8).
			empty("one replica, or each for itself"),
		newSeries(561, "Age of what scalers are told", "How old what KEDA is told about a queue is, for the queues it asks about. The ten oldest.").
			query(worst(10, now(metric.ScalingSignalAge)), legendQueue).unit(units.Seconds).link(seriesLinks(UIDQueue)...).size(8, 8).
			empty("no scaler asks"),
		newSeries(562, "Questions passed on", "Questions about queues that another replica watches, passed on to it. Unavailable: it could not be reached.").
			query(rate("result", metric.ForwardedRequests), "{{result}}").unit(units.RequestsPerSecond).stacked().size(8, 8).
			paint(painted{"ok", colourGood}, painted{"unavailable", colourBad}).empty(notWatched),
		newSeries(563, "Canary", "How long the last canary message took from sending to deleting.").
			query(replica(metric.CanaryRoundTrip), "round trip").unit(units.Seconds).paint(painted{"round trip", colourInfo}).empty("no canary, or it did not come back"),
		newSeries(564, "Canaries lost", "Canary messages that could not be sent, received and deleted in time.").
			query("sum(rate("+metric.CanaryFailures+window+"))", "lost").unit(units.CountsPerSecond).paint(painted{"lost", colourBad}).empty(notWatched),
	}
}

func selfHealth() []panel {
	status := []value{{0, "failed", colourBad}, {0.5, "degraded", colourLook}, {1, "ok", colourGood}}
	return []panel{
		newTable(550, "Health checks", "Every check of every instance, as the probes see them, failed ones first.",
			"Status", false,
			column{title: "Instance", label: "instance"},
			column{title: "Probe", label: "probe"},
			column{title: "Check", label: "check"},
			column{title: "Status", expr: "min by (instance, probe, check) (" + metric.HealthCheckStatus + ")", field: field{unit: units.NoUnit, values: status}, fill: true},
		).size(12, 9).empty(notWatched),
		newTable(551, "Versions and configuration", "What each instance was built from, and since when it runs its configuration.",
			"Instance", false,
			column{title: "Instance", label: "instance"},
			column{title: "Version", label: "version"},
			column{title: "Revision", label: "revision"},
			column{title: "Go", label: "goversion"},
			column{title: "Info", expr: "max by (instance, version, revision, goversion) (" + metric.QwatchBuildInfo + ")", hidden: true},
			column{title: "Configured for", expr: "time() - max by (instance) (" + metric.ConfigLastReloadSuccessTime + ")", field: field{unit: units.Seconds}},
			column{title: "Up for", expr: "max by (instance) (time() - " + ofQwatch("max by (job, instance) (process_start_time_seconds)") + ")", field: field{unit: units.Seconds}},
		).size(12, 9).empty(notWatched),
		newSeries(552, "Scrape duration", "How long Prometheus takes to scrape each instance.").
			query(ofQwatch("max by (job, instance) (scrape_duration_seconds)"), "{{instance}}").unit(units.Seconds).empty(notWatched),
		newSeries(553, "Series scraped", "Samples in each scrape: what qwatch costs Prometheus.").
			query(ofQwatch("max by (job, instance) (scrape_samples_post_metric_relabeling)"), "{{instance}}").empty(notWatched),
	}
}

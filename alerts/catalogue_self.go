package alerts

// aboutItself returns the alerts about qwatch. It is found by qwatch_build_info, never by a job's name.
func aboutItself(Config) []alert {
	return []alert{
		{
			name: "QwatchAbsent", class: Page, scope: Self, wait: "3m",
			expr: `
group by (cluster) (last_over_time(qwatch_build_info[1d]))
unless on (cluster) group by (cluster) (qwatch_build_info)
or on () absent(qwatch_build_info)`,
			summary:     "No qwatch is being scraped{{ with $labels.cluster }} in {{ . }}{{ end }}: nobody watches the queues.",
			description: "Prometheus has had no sample of qwatch_build_info{{ with $labels.cluster }} from cluster {{ . }}{{ end }} for three minutes. Every other alert about these queues is blind until it is back.",
		},
		{
			name: "QwatchRestarting", class: Ticket, scope: Self, wait: "5m", keep: "15m",
			expr: `
changes(process_start_time_seconds[1h]) > 3
and on (cluster, job, instance) group by (cluster, job, instance) (last_over_time(qwatch_build_info[15m]))`,
			summary:     "{{ $labels.instance }} restarts again and again.",
			description: "The qwatch at {{ $labels.instance }} was started {{ $value | humanize }} times within an hour. What it learned about its queues is forgotten each time.",
		},
		{
			name: "QwatchLoopStuck", class: Ticket, scope: Self, wait: "5m",
			expr:        `min by (cluster, job, instance, check) (qwatch_health_check_status{probe="live"}) == 0`,
			summary:     "A loop of {{ $labels.instance }} does not turn: {{ $labels.check }}.",
			description: "The liveness check {{ $labels.check }} of the qwatch at {{ $labels.instance }} has been failing for five minutes. A kubelet would have restarted it by now.",
		},
		{
			name: "QwatchConfigReloadFailed", class: Ticket, scope: Self, wait: "10m",
			expr:        `min by (cluster, job, instance) (qwatch_config_last_reload_successful) == 0`,
			summary:     "{{ $labels.instance }} runs an outdated configuration.",
			description: "The qwatch at {{ $labels.instance }} refused the newest configuration file and keeps the one before. A restart would fail.",
		},
		{
			name: "QwatchLeaderMissing", class: Page, scope: Self, wait: "3m",
			expr:        `max by (cluster, namespace, job) (qwatch_leader) == 0`,
			summary:     "No replica of qwatch leads{{ with $labels.cluster }} in {{ . }}{{ end }}.",
			description: "Replicas of qwatch are up{{ with $labels.job }} (job {{ . }}){{ end }} and none of them has been the leader for three minutes, so nobody watches the fleet.",
		},
		{
			name: "QwatchShardMissing", class: Page, scope: Self, wait: "5m", keep: "5m",
			expr: `
max by (cluster, namespace, job) (qwatch_shards)
- on (cluster, namespace, job) max by (cluster, namespace, job) (qwatch_shards_alive) > 0`,
			summary:     "{{ $value | humanize }} shards of qwatch are missing{{ with $labels.cluster }} in {{ . }}{{ end }}.",
			description: "The fleet is shared by several shards of qwatch{{ with $labels.job }} (job {{ . }}){{ end }}, and {{ $value | humanize }} of them have not been seen for five minutes: nobody watches their part of the queues.",
		},
		{
			name: "QwatchCanaryFailing", class: Ticket, scope: Self, wait: "2m", keep: "10m",
			expr:        `sum by (cluster, namespace, job) (increase(qwatch_canary_failures_total[10m])) >= 3`,
			summary:     "Canary messages do not come back.",
			description: "{{ $value | humanize }} canary messages within ten minutes could not be sent, received and deleted in time. What goes through storage is slow or fails, for others most likely too.",
		},
	}
}

// aboutAccounts returns the alerts about storage accounts.
func aboutAccounts(cfg Config) []alert {
	cost := `
sum by ($a) (qwatch_storage_estimated_monthly_cost) > 2 * sum by ($a) (qwatch_storage_estimated_monthly_cost offset 1w)`
	said := "The storage requests of account " + theAccount + " cost {{ $value | humanize }} in a month at the rate of the last hour, which is more than twice what it was a week ago."
	if cfg.MonthlyBudget > 0 {
		cost = "(\n" + indent(cost[1:]) + "\n)\nor on ($a) sum by ($a) (qwatch_storage_estimated_monthly_cost) > $budget"
		said = "The storage requests of account " + theAccount + " cost {{ $value | humanize }} in a month at the rate of the last hour: more than the budget of " + number(cfg.MonthlyBudget) + ", or more than twice what it was a week ago."
	}
	return []alert{
		{
			name: "QwatchAccountUnreachable", class: Page, scope: Account, wait: "1m", keep: "5m",
			expr:        `account:qwatch_account_unreachable:bool`,
			summary:     "Storage account " + theAccount + " is out of reach.",
			description: "Most polls of the queues of account " + theAccount + ", or nearly all of qwatch's requests to it, fail: the account, the network or the credential. This alert stands for all its queues: what was known of them is kept, and alerts that were firing go on.",
		},
		{
			name: "QwatchStorageThrottled", class: Ticket, scope: Account, wait: "10m", keep: "10m",
			expr: `
sum by ($a) (rate(qwatch_storage_request_duration_seconds_count{result="throttled"}[10m])) > 0.1
unless on ($a) count_over_time(account:qwatch_account_unreachable:bool[5m]) >= <evaluations in 5m>`,
			summary:     "Storage account " + theAccount + " throttles.",
			description: "Account " + theAccount + " answers {{ $value | humanize }} requests a second with \"too many\". Messages are handled more slowly for it.",
		},
		{
			name: "QwatchCredentialExpiring", class: Ticket, scope: Account, window: "week", wait: "15m",
			expr: `
min by ($a) (qwatch_credential_expiry_timestamp_seconds) - time() < <7d>
and on ($a) min by ($a) (qwatch_credential_expiry_timestamp_seconds) - time() >= <24h>`,
			summary:     "The credential of account " + theAccount + " expires in {{ $value | humanizeDuration }}.",
			description: "After that every request to account " + theAccount + " is refused, by the watcher and by consumers. Replace it before.",
		},
		{
			name: "QwatchCredentialExpiring", class: Page, scope: Account, window: "day", wait: "5m",
			expr:        `min by ($a) (qwatch_credential_expiry_timestamp_seconds) - time() < <24h>`,
			summary:     "The credential of account " + theAccount + " expires within a day.",
			description: "{{ if lt $value 0.0 }}It has expired.{{ else }}It expires in {{ $value | humanizeDuration }}.{{ end }} Every request to account " + theAccount + " is refused then, by the watcher and by consumers.",
		},
		{
			name: "QwatchClockSkew", class: Ticket, scope: Account, wait: "10m",
			expr:        `max by ($a) (abs(qwatch_clock_skew_seconds)) > 120`,
			summary:     "The clock of a machine is {{ $value | humanizeDuration }} off the clock of account " + theAccount + ".",
			description: "The clock of a machine that runs qwatch and that of account " + theAccount + " differ by {{ $value | humanizeDuration }}. Requests signed with a key are refused when they differ by 15 minutes. Ages that qwatch reports are right in any case: they are told by the service's clock.",
		},
		{
			name: "QwatchDiscoveryFailing", class: Ticket, scope: Account, wait: "15m",
			expr: `
time() - max by ($a) (qwatch_discovery_last_success_timestamp_seconds) > <1h>
unless on ($a) account:qwatch_account_unreachable:bool`,
			summary:     "The queues of account " + theAccount + " cannot be listed.",
			description: "The last listing of account " + theAccount + " that succeeded was {{ $value | humanizeDuration }} ago. Queues made since then are not watched.",
		},
		{
			name: "QwatchDiscoveryTruncated", class: Ticket, scope: Account, wait: "15m",
			expr:        `max by ($a) (qwatch_discovery_queues_dropped) > 0`,
			summary:     "{{ $value | humanize }} queues of account " + theAccount + " are not watched.",
			description: "Discovery asks for more queues of account " + theAccount + " than discovery.maxQueues allows; {{ $value | humanize }} were left out.",
		},
		{
			name: "QwatchCostHigh", class: Note, scope: Account, wait: "1h", keep: "1h",
			expr:        cost,
			summary:     "The requests to account " + theAccount + " have become expensive.",
			description: said,
		},
	}
}

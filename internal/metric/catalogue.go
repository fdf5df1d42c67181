package metric

// How series of several replicas become one.
const (
	byMax = "max"
	byMin = "min"
	bySum = "sum"
)

func watched(extra ...Label) []Label {
	return append([]Label{{Name: LabelAccount}, {Name: LabelQueue}, {Name: LabelKind, Values: kinds()}}, extra...)
}

func consumed(extra ...Label) []Label {
	return append([]Label{{Name: LabelAccount}, {Name: LabelQueue}}, extra...)
}

// statusOf are the labels of a set of states, which a queue of one kind has.
func statusOf(kind string, statuses []string) []Label {
	return []Label{{Name: LabelAccount}, {Name: LabelQueue}, {LabelKind, []string{kind}}, {LabelStatus, statuses}}
}

func watcherDefs() []Def {
	const stale = "before the first poll, and once the last success is older than three intervals"
	defs := []Def{
		{
			Name: QueueUp, Type: Gauge, Combine: byMax, Absent: "before the first poll",
			Help: "1 when the last poll of the queue succeeded, 0 when it failed.",
		},
		{
			Name: QueueExists, Type: Gauge, Combine: byMax, Absent: "when unknown",
			Help: "0 when the service said that the queue is not there, otherwise 1.",
		},
		{
			Name: QueueApproximateMessages, Type: Gauge, Combine: byMax, Absent: stale,
			Help: "Messages on the queue by the service's own count, hidden and not yet reaped expired ones included.",
		},
		{
			Name: QueuePeekedMessages, Type: Gauge, Combine: byMax, Absent: stale,
			Help: "Visible messages in one peek, 0 to 32; 32 means 32 or more.",
		},
		{
			Name: QueueOldestVisibleAge, Type: Gauge, Unit: "seconds", Combine: byMax,
			Absent: "when the peek failed, and when stale",
			Help:   "Age of the oldest message in the peek by the service's clock; 0 when nothing is visible.",
		},
		{
			Name: QueueNextExpiration, Type: Gauge, Unit: "seconds", Combine: byMin,
			Absent: "when nothing in the peek will expire",
			Help:   "When the first message in the peek expires, as a Unix timestamp.",
		},
		{
			Name: QueuePeekedAttemptsMax, Type: Gauge, Combine: byMax, Absent: stale,
			Help: "Highest dequeue count in the peek.", Compact: CompactNonZero,
		},
		{
			Name: QueueLastPollSuccess, Type: Gauge, Unit: "seconds", Combine: byMax,
			Help: "When the queue was last polled with success, as a Unix timestamp; 0 until then, and never dropped.",
		},
		{
			Name: QueueLastPollDuration, Type: Gauge, Unit: "seconds", Combine: byMax, Absent: "before the first poll",
			Help: "How long the last poll took, retries included.", Compact: CompactDrop,
		},
		{
			Name: QueuePollInterval, Type: Gauge, Unit: "seconds", Combine: byMax,
			Help: "The interval at which the queue is really polled.",
		},
		{
			Name: QueuePolls, Type: Counter, Combine: bySum,
			Help: "Polls of the queue, failed ones included.", Compact: CompactDrop,
		},
		{
			Name: QueuePollFailures, Type: Counter, Combine: bySum,
			Labels: watched(Label{LabelReason, pollReasons()}),
			Help:   "Polls of the queue that failed, by reason.", Compact: CompactNonZero,
		},
		{
			Name: QueueInfo, Type: Info, Combine: byMax,
			Labels: watched(
				Label{Name: LabelPhysicalName}, Label{Name: LabelPoisonQueue},
				Label{LabelMode, []string{"consume", "watch"}},
				Label{Name: LabelTeam}, Label{Name: LabelTier}, Label{Name: LabelStorageAccount},
			),
			Help: "What the queue is: its name at the service, its poison queue, mode, team, tier and storage account. Always 1.",
		},
		{
			Name: QueueTimeInQueueObjective, Type: Gauge, Unit: "seconds", Combine: byMax,
			Labels: consumed(), Absent: "without an objective",
			Help: "How long a message may wait before it counts as late.",
		},
		{
			Name: QueueTimeInQueueRatio, Type: Gauge, Unit: "ratio", Combine: byMax,
			Labels: consumed(), Absent: "without an objective",
			Help: "The share of messages that shall start within the objective, 0 to 1.",
		},
		{
			Name: QueueHandlerTimeLimit, Type: Gauge, Unit: "seconds", Combine: byMax,
			Labels: consumed(), Absent: "when not set",
			Help: "How long a handler may run before somebody should look.",
		},
		{
			Name: QueueMonitorOnly, Type: Gauge, Combine: byMin, Labels: consumed(),
			Help: "1 when a missing consumer is not to be called a stall.", Compact: CompactNonZero,
		},
		{
			Name: QueueAgesClamped, Type: Counter, Combine: bySum,
			Help: "Ages that would have been negative and were taken as 0.", Compact: CompactNonZero,
		},
		{
			Name: QueueStatus, Type: Gauge, Combine: byMax, Labels: statusOf(KindMain, QueueStatuses()),
			Help: "How the queue is doing, judged by its trend: 1 for the status it has, 0 for the others.", Compact: CompactNonZero,
		},
		{
			Name: QueuePoisonStatus, Type: Gauge, Combine: byMax, Labels: statusOf(KindPoison, QueuePoisonStatuses()),
			Help: "How the poison queue is doing: 1 for the status it has, 0 for the others.", Compact: CompactNonZero,
		},
		{
			Name: QueueHeadUnchanged, Type: Gauge, Unit: "seconds", Combine: byMax, Absent: "when the peek failed, and when stale",
			Help: "How long the same messages have been visible at the head of the queue without one being taken; 0 when none is visible.", Compact: CompactNonZero,
		},
		{
			Name: QueueForecastDrain, Type: Gauge, Unit: "seconds", Combine: byMax, Absent: "when the queue does not drain",
			Help: "How long until the queue is empty, at the present rate.",
		},
		{
			Name: QueueForecastLoss, Type: Gauge, Unit: "seconds", Combine: byMin, Absent: "when nothing that was seen will expire before its turn",
			Help: "How long until the first message expires before anybody handled it, by the expiry of what was seen.",
		},
	}
	for i := range defs {
		defs[i].Owner, defs[i].Scope = OwnedByWatcher, PerQueue
		if defs[i].Labels == nil {
			defs[i].Labels = watched()
		}
	}
	return append(defs, watchedAccountDefs()...)
}

func watchedAccountDefs() []Def {
	defs := []Def{
		{
			Name: ClockSkew, Unit: "seconds", Absent: "before the account's first answer",
			Help: "The service's clock less the local one.",
		},
		{
			Name: DiscoveryQueues, Absent: "without discovery",
			Help: "Queues of the account that discovery found and that are watched, each with its poison queue.",
		},
		{
			Name: DiscoveryDropped, Absent: "without discovery",
			Help: "Queues of the account that discovery asks for and that are not watched, because there are too many.",
		},
		{
			Name: DiscoveryLastSuccess, Unit: "seconds", Absent: "without discovery",
			Help: "When the account was last listed with success, as a Unix timestamp; 0 until then.",
		},
	}
	for i := range defs {
		defs[i].Type, defs[i].Combine, defs[i].Owner, defs[i].Scope = Gauge, byMax, OwnedByWatcher, PerAccount
		defs[i].Labels = []Label{{Name: LabelAccount}}
	}
	return defs
}

func processDefs() []Def {
	account := []Label{{Name: LabelAccount}}
	return []Def{
		{
			Name: StorageRequestDuration, Type: Histogram, Unit: "seconds", Combine: bySum,
			Owner: OwnedByProcess, Scope: PerAccount, Buckets: storageBuckets(),
			Labels: []Label{{Name: LabelAccount}, {LabelOperation, storageOperations()}, {LabelResult, storageResults()}},
			Help:   "Duration of every storage request, retries one by one; its count is also what is billed.",
		},
		{
			Name: StorageMonthlyCost, Type: Gauge, Combine: bySum,
			Owner: OwnedByProcess, Scope: PerAccount, Labels: account, Absent: "without a price in the configuration, and in the first minute",
			Help: "What the storage requests of this process cost in a month, at the rate of the last hour and the configured price.",
		},
		{
			Name: CredentialExpiry, Type: Gauge, Unit: "seconds", Combine: byMin,
			Owner: OwnedByProcess, Scope: PerAccount, Labels: account, Absent: "when the credential does not tell",
			Help: "When the account's credential expires, as a Unix timestamp.",
		},
		{
			Name: ScalingSignalAge, Type: Gauge, Unit: "seconds", Combine: byMin,
			Owner: OwnedByProcess, Scope: PerScaled, Labels: consumed(), Absent: "unless a scaler asked about the queue in the last ten minutes",
			Help: "How old what the scaler is told about the queue is; it grows while nothing new is learned.",
		},
		{
			Name: ConfigLastReloadSuccessful, Type: Gauge, Combine: byMin, Owner: OwnedByProcess, Scope: PerProcess,
			Help: "1 when the configuration was last loaded with success, 0 when the last attempt was refused.",
		},
		{
			Name: ConfigLastReloadSuccessTime, Type: Gauge, Unit: "seconds", Combine: byMax, Owner: OwnedByProcess, Scope: PerProcess,
			Help: "When the configuration was last loaded with success, as a Unix timestamp.",
		},
		{
			Name: HealthCheckStatus, Type: Gauge, Combine: byMin, Owner: OwnedByProcess, Scope: PerCheck,
			Labels: []Label{{LabelProbe, []string{"live", "ready", "startup"}}, {Name: LabelCheck}},
			Help:   "A health check's result: 1 ok, 0.5 degraded, 0 failed.",
		},
		{
			Name: QwatchBuildInfo, Type: Info, Combine: byMax, Owner: OwnedByProcess, Scope: PerProcess,
			Labels: []Label{{Name: LabelVersion}, {Name: LabelRevision}, {Name: LabelGoVersion}},
			Help:   "The version, revision and Go version qwatch was built from. Always 1.",
		},
	}
}

package metric

import "slices"

// The labels that name things.
const (
	LabelAccount = "account"    // the account's configured name
	LabelQueue   = "queue_name" // the main queue's name, on series of its poison queue as well
	LabelKind    = "queue_kind" // KindMain or KindPoison
)

// The other labels.
const (
	LabelOutcome          = "queue_outcome"
	LabelReceiveResult    = "queue_receive_result"
	LabelDeadLetterReason = "queue_dead_letter_reason"
	LabelReason           = "reason"
	LabelOperation        = "operation"
	LabelResult           = "result"
	LabelStage            = "stage"
	LabelCategory         = "category"
	LabelProbe            = "probe"
	LabelCheck            = "check"
	LabelPhysicalName     = "physical_name"
	LabelPoisonQueue      = "poison_queue"
	LabelMode             = "mode"
	LabelTeam             = "team"
	LabelTier             = "tier"
	LabelStorageAccount   = "storage_account"
	LabelStatus           = "status"
	LabelVersion          = "version"
	LabelRevision         = "revision"
	LabelGoVersion        = "goversion"
)

// The watcher's metrics.
const (
	QueueUp                   = "queue_up"
	QueueExists               = "queue_exists"
	QueueApproximateMessages  = "queue_approximate_messages"
	QueuePeekedMessages       = "queue_peeked_messages"
	QueueOldestVisibleAge     = "queue_oldest_visible_message_age_seconds"
	QueueNextExpiration       = "queue_next_expiration_timestamp_seconds"
	QueuePeekedAttemptsMax    = "queue_peeked_delivery_attempts_max"
	QueueLastPollSuccess      = "queue_last_poll_success_timestamp_seconds"
	QueueLastPollDuration     = "queue_last_poll_duration_seconds"
	QueuePollInterval         = "queue_poll_interval_seconds"
	QueuePolls                = "queue_polls_total"
	QueuePollFailures         = "queue_poll_failures_total"
	QueueInfo                 = "queue_info"
	QueueTimeInQueueObjective = "queue_time_in_queue_objective_seconds"
	QueueTimeInQueueRatio     = "queue_time_in_queue_objective_ratio"
	QueueHandlerTimeLimit     = "queue_handler_time_limit_seconds"
	QueueMonitorOnly          = "queue_monitor_only"
	QueueAgesClamped          = "queue_ages_clamped_total"
	QueueStatus               = "queue_status"
	QueuePoisonStatus         = "queue_poison_status"
	QueueHeadUnchanged        = "queue_head_unchanged_seconds"
	QueueForecastDrain        = "queue_forecast_drain_seconds"
	QueueForecastLoss         = "queue_forecast_loss_seconds"
	ClockSkew                 = "qwatch_clock_skew_seconds"
	DiscoveryQueues           = "qwatch_discovery_queues"
	DiscoveryDropped          = "qwatch_discovery_queues_dropped"
	DiscoveryLastSuccess      = "qwatch_discovery_last_success_timestamp_seconds"
)

// The consumer's metrics.
const (
	MessagesReceived           = "queue_messages_received_total"
	MessagesSent               = "queue_messages_sent_total"
	MessagesProcessed          = "queue_messages_processed_total"
	MessagesFailed             = "queue_messages_failed_total"
	MessagesStarted            = "queue_messages_started_total"
	MessagesLate               = "queue_messages_late_total"
	ProcessingDuration         = "queue_message_processing_duration_seconds"
	MessageSize                = "queue_message_size_bytes"
	TimeInQueue                = "queue_message_time_in_queue_seconds"
	DeliveryAttempts           = "queue_message_delivery_attempts"
	AttemptsToComplete         = "queue_message_attempts_to_complete"
	ReceiveRequests            = "queue_receive_requests_total"
	ActiveHandlers             = "queue_processor_active_handlers"
	MaxHandlers                = "queue_processor_max_handlers"
	OldestHandlerAge           = "queue_processor_oldest_handler_age_seconds"
	ProcessorPaused            = "queue_processor_paused"
	BreakerOpen                = "queue_processor_breaker_open"
	HeldMessages               = "queue_processor_held_messages"
	ConsecutiveReceiveFailures = "queue_processor_consecutive_receive_failures"
	LastReceive                = "queue_processor_last_receive_timestamp_seconds"
	LeaseRenewals              = "queue_lease_renewals_total"
	LeaseRenewalFailures       = "queue_lease_renewal_failures_total"
	PopReceiptConflicts        = "queue_pop_receipt_conflicts_total"
	MessagesDeadLettered       = "queue_messages_dead_lettered_total"
	DeadLetterFailures         = "queue_dead_letter_failures_total"
	MessageRetries             = "queue_message_retries_total"
	ShutdownReleased           = "queue_shutdown_released_messages_total"
	AmbiguousDeletes           = "queue_ambiguous_deletes_total"
	MessagesReplayed           = "queue_messages_replayed_total"
	DedupLookups               = "queue_dedup_lookups_total"
	DedupHits                  = "queue_dedup_hits_total"
)

// The process's metrics.
const (
	StorageRequestDuration      = "qwatch_storage_request_duration_seconds"
	StorageMonthlyCost          = "qwatch_storage_estimated_monthly_cost"
	ScalingSignalAge            = "qwatch_scaling_signal_age_seconds"
	Leader                      = "qwatch_leader"
	Shards                      = "qwatch_shards"
	ShardsAlive                 = "qwatch_shards_alive"
	ForwardedRequests           = "qwatch_forwarded_requests_total"
	CanaryRoundTrip             = "qwatch_canary_round_trip_seconds"
	CanaryFailures              = "qwatch_canary_failures_total"
	CredentialExpiry            = "qwatch_credential_expiry_timestamp_seconds"
	ConfigLastReloadSuccessful  = "qwatch_config_last_reload_successful"
	ConfigLastReloadSuccessTime = "qwatch_config_last_reload_success_timestamp_seconds"
	HealthCheckStatus           = "qwatch_health_check_status"
	QwatchBuildInfo             = "qwatch_build_info"
)

// Values of queue_kind.
const (
	KindMain   = "main"
	KindPoison = "poison"
)

// Values of queue_outcome: how one handling of a message ended.
const (
	OutcomeCompleted    = "completed"
	OutcomeAbandoned    = "abandoned"
	OutcomeDeadLettered = "dead_lettered"
	OutcomeLeaseLost    = "lease_lost"
	OutcomeInterrupted  = "interrupted"
)

// Values of queue_receive_result.
const (
	ReceiveMessage = "message"
	ReceiveEmpty   = "empty"
	ReceiveError   = "error"
)

// Values of reason on failed renewals. The last counts whatever is none of the others.
const (
	RenewalLost      = "lost"
	RenewalThrottled = "throttled"
	RenewalNetwork   = "network"
	RenewalOther     = "other"
)

// Values of operation on pop receipt conflicts.
const (
	ConflictDelete = "delete"
	ConflictUpdate = "update"
)

// Values of queue_dead_letter_reason; package poison's categories.
const (
	DeadLetterMaxDequeue      = "max_dequeue"
	DeadLetterMaxAge          = "max_age"
	DeadLetterDeserialization = "deserialization"
	DeadLetterHandler         = "handler"
	DeadLetterUnroutable      = "unroutable"
	DeadLetterOther           = "other"
)

// Values of stage: which half of a dead-letter failed.
const (
	StageSend   = "send"
	StageDelete = "delete"
)

// Values of category on retries: why the message is tried again.
const (
	RetryTransient = "transient"
	RetryThrottled = "throttled"
	RetryTimeout   = "timeout"
	RetryPanic     = "panic"
	RetryHandler   = "handler"
	RetryOther     = "other"
)

// QueueStatuses returns the values of status on queue_status, in the order of package collector's.
func QueueStatuses() []string {
	return []string{"ok", "idle", "falling_behind", "stalled", "hidden", "paused", "unreachable", "missing", "unknown"}
}

// QueuePoisonStatuses returns the values of status on queue_poison_status.
func QueuePoisonStatuses() []string { return []string{"empty", "holding", "growing", "unknown"} }

func kinds() []string { return []string{KindMain, KindPoison} }

func outcomes() []string {
	return []string{OutcomeCompleted, OutcomeAbandoned, OutcomeDeadLettered, OutcomeLeaseLost, OutcomeInterrupted}
}

func receiveResults() []string { return []string{ReceiveMessage, ReceiveEmpty, ReceiveError} }

func renewalReasons() []string {
	return []string{RenewalLost, RenewalThrottled, RenewalNetwork, RenewalOther}
}

func conflictOperations() []string { return []string{ConflictDelete, ConflictUpdate} }

func deadLetterReasons() []string {
	return []string{
		DeadLetterMaxDequeue, DeadLetterMaxAge, DeadLetterDeserialization,
		DeadLetterHandler, DeadLetterUnroutable, DeadLetterOther,
	}
}

func stages() []string { return []string{StageSend, StageDelete} }

func retryCategories() []string {
	return []string{RetryTransient, RetryThrottled, RetryTimeout, RetryPanic, RetryHandler, RetryOther}
}

// pollReasons is why a poll fails: the storage results without "ok" and "conflict".
func pollReasons() []string {
	return slices.DeleteFunc(storageResults(), func(r string) bool { return r == "ok" || r == "conflict" })
}

// storageResults is package queue's Results; a test there keeps the two alike.
func storageResults() []string {
	return []string{"ok", "not_found", "conflict", "auth", "throttled", "timeout", "network", "server", "other"}
}

// storageOperations is package queue's Operations.
func storageOperations() []string {
	return []string{
		"receive", "peek", "send", "update", "delete", "clear", "properties",
		"create", "delete_queue", "list", "set_metadata", "other",
	}
}

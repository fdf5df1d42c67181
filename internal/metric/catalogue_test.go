package metric_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/metric"
)

// Names and labels are public: dashboards and rules depend on them. This list is written
// by hand and changes only when that promise does.
func TestNamesAndLabelsAreWhatWasPromised(t *testing.T) {
	t.Parallel()
	want := []string{
		"queue_up account queue_name queue_kind",
		"queue_exists account queue_name queue_kind",
		"queue_approximate_messages account queue_name queue_kind",
		"queue_peeked_messages account queue_name queue_kind",
		"queue_oldest_visible_message_age_seconds account queue_name queue_kind",
		"queue_next_expiration_timestamp_seconds account queue_name queue_kind",
		"queue_peeked_delivery_attempts_max account queue_name queue_kind",
		"queue_last_poll_success_timestamp_seconds account queue_name queue_kind",
		"queue_last_poll_duration_seconds account queue_name queue_kind",
		"queue_poll_interval_seconds account queue_name queue_kind",
		"queue_polls_total account queue_name queue_kind",
		"queue_poll_failures_total account queue_name queue_kind reason=not_found|auth|throttled|timeout|network|server|other",
		"queue_info account queue_name queue_kind physical_name poison_queue mode=consume|watch team tier storage_account",
		"queue_time_in_queue_objective_seconds account queue_name",
		"queue_time_in_queue_objective_ratio account queue_name",
		"queue_handler_time_limit_seconds account queue_name",
		"queue_monitor_only account queue_name",
		"queue_ages_clamped_total account queue_name queue_kind",
		"queue_status account queue_name queue_kind status=ok|idle|falling_behind|stalled|hidden|paused|unreachable|missing|unknown",
		"queue_poison_status account queue_name queue_kind status=empty|holding|growing|unknown",
		"queue_head_unchanged_seconds account queue_name queue_kind",
		"queue_forecast_drain_seconds account queue_name queue_kind",
		"queue_forecast_loss_seconds account queue_name queue_kind",
		"qwatch_clock_skew_seconds account",
		"qwatch_discovery_queues account",
		"qwatch_discovery_queues_dropped account",
		"qwatch_discovery_last_success_timestamp_seconds account",

		"queue_messages_received_total account queue_name",
		"queue_messages_sent_total account queue_name",
		"queue_messages_processed_total account queue_name",
		"queue_messages_failed_total account queue_name",
		"queue_messages_started_total account queue_name",
		"queue_messages_late_total account queue_name",
		"queue_message_processing_duration_seconds account queue_name queue_outcome=completed|abandoned|dead_lettered|lease_lost|interrupted",
		"queue_message_size_bytes account queue_name",
		"queue_message_time_in_queue_seconds account queue_name",
		"queue_message_delivery_attempts account queue_name",
		"queue_message_attempts_to_complete account queue_name",
		"queue_receive_requests_total account queue_name queue_receive_result=message|empty|error",
		"queue_processor_active_handlers account queue_name",
		"queue_processor_max_handlers account queue_name",
		"queue_processor_oldest_handler_age_seconds account queue_name",
		"queue_processor_paused account queue_name",
		"queue_processor_breaker_open account queue_name",
		"queue_processor_held_messages account queue_name",
		"queue_processor_consecutive_receive_failures account queue_name",
		"queue_processor_last_receive_timestamp_seconds account queue_name",
		"queue_lease_renewals_total account queue_name",
		"queue_lease_renewal_failures_total account queue_name reason=lost|throttled|network|other",
		"queue_pop_receipt_conflicts_total account queue_name operation=delete|update",
		"queue_messages_dead_lettered_total account queue_name queue_dead_letter_reason=max_dequeue|max_age|deserialization|handler|unroutable|other",
		"queue_dead_letter_failures_total account queue_name stage=send|delete",
		"queue_message_retries_total account queue_name category=transient|throttled|timeout|panic|handler|other",
		"queue_shutdown_released_messages_total account queue_name",
		"queue_ambiguous_deletes_total account queue_name",
		"queue_messages_replayed_total account queue_name",
		"queue_dedup_lookups_total account queue_name",
		"queue_dedup_hits_total account queue_name",

		"qwatch_storage_request_duration_seconds account" +
			" operation=receive|peek|send|update|delete|clear|properties|create|delete_queue|list|set_metadata|other" +
			" result=ok|not_found|conflict|auth|throttled|timeout|network|server|other",
		"qwatch_storage_estimated_monthly_cost account",
		"qwatch_credential_expiry_timestamp_seconds account",
		"qwatch_scaling_signal_age_seconds account queue_name",
		"qwatch_config_last_reload_successful",
		"qwatch_config_last_reload_success_timestamp_seconds",
		"qwatch_health_check_status probe=live|ready|startup check",
		"qwatch_build_info version revision goversion",
		"qwatch_leader",
		"qwatch_shards",
		"qwatch_shards_alive",
		"qwatch_forwarded_requests_total result=ok|unavailable",
		"qwatch_canary_round_trip_seconds",
		"qwatch_canary_failures_total",
	}
	var got []string
	for _, d := range metric.Catalogue() {
		words := []string{d.Name}
		for _, l := range d.Labels {
			if l.Name != metric.LabelKind && l.Values != nil {
				words = append(words, l.Name+"="+strings.Join(l.Values, "|"))
			} else {
				words = append(words, l.Name)
			}
		}
		got = append(got, strings.Join(words, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalogue (-promised +got):\n%s", diff)
	}
}

func TestDefinitionsAreComplete(t *testing.T) {
	t.Parallel()
	for _, d := range metric.Catalogue() {
		if !strings.HasSuffix(d.Help, ".") || strings.ContainsAny(d.Help, "\n\\") {
			t.Errorf("%s: help %q is not one or more sentences on one line", d.Name, d.Help)
		}
		if !slices.Contains([]string{"max", "min", "sum"}, d.Combine) {
			t.Errorf("%s: combined by %q", d.Name, d.Combine)
		}
		if (d.Type == metric.Counter) != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s is a %v", d.Name, d.Type)
		}
		if (d.Type == metric.Histogram) != (len(d.Buckets) > 0) {
			t.Errorf("%s is a %v with %d buckets", d.Name, d.Type, len(d.Buckets))
		}
		for i := range d.Buckets[min(1, len(d.Buckets)):] {
			if d.Buckets[i] >= d.Buckets[i+1] {
				t.Errorf("%s: bucket %v is followed by %v", d.Name, d.Buckets[i], d.Buckets[i+1])
			}
		}
		if d.Unit != "" && !strings.HasSuffix(d.Name, "_"+d.Unit) {
			t.Errorf("%s does not end with its unit %s", d.Name, d.Unit)
		}
		if strings.HasSuffix(d.Name, "_seconds") && d.Unit != "seconds" {
			t.Errorf("%s has unit %q", d.Name, d.Unit)
		}
		for what, s := range map[string]string{"type": d.Type.String(), "owner": d.Owner.String(), "scope": d.Scope.String()} {
			if s == "unknown" {
				t.Errorf("%s has no %s", d.Name, what)
			}
		}
		for _, l := range d.Labels {
			open := []string{
				"account", "queue_name", "physical_name", "poison_queue", "team", "tier", "storage_account",
				"check", "version", "revision", "goversion",
			}
			if (l.Values == nil) != slices.Contains(open, l.Name) {
				t.Errorf("%s: label %s has values %v", d.Name, l.Name, l.Values)
			}
		}
	}
}

func TestTheCallerOwnsTheCatalogue(t *testing.T) {
	t.Parallel()
	before := metric.Of(metric.MessageRetries)
	got := metric.Catalogue()
	for i := range got {
		for j := range got[i].Labels {
			got[i].Labels[j].Values = append(got[i].Labels[j].Values[:0], "spoiled")
		}
	}
	if diff := cmp.Diff(before, metric.Of(metric.MessageRetries)); diff != "" {
		t.Errorf("the table changed (-before +after):\n%s", diff)
	}
}

func TestUnknownNamePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a metric nobody defined was found")
		}
	}()
	metric.Of("queue_depth")
}

package collector_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
)

// The statuses take their names from the catalogue by position: both must stay in step.
func TestStatusesHaveTheirNames(t *testing.T) {
	var got []string
	for _, s := range collector.Statuses() {
		got = append(got, s.String())
	}
	for _, s := range collector.PoisonStatuses() {
		got = append(got, s.String())
	}
	want := []string{
		"ok", "idle", "falling_behind", "stalled", "hidden", "paused", "unreachable", "missing", "unknown",
		"empty", "holding", "growing", "unknown",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if collector.StatusHidden.String() != "hidden" || collector.PoisonGrowing.String() != "growing" {
		t.Error("a constant has another's name")
	}
}

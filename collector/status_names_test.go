package collector_test

import (
	"encoding/json"
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

// What one qwatch writes, another reads: a command asks a running one.
func TestStatusesSurviveJSON(t *testing.T) {
	type both struct {
		Main   collector.Status
		Poison collector.PoisonStatus
	}
	all := []both{{}}
	for _, s := range collector.Statuses() {
		all = append(all, both{Main: s})
	}
	for _, s := range collector.PoisonStatuses() {
		all = append(all, both{Poison: s})
	}
	for _, want := range all {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := both{collector.StatusOK, collector.PoisonEmpty}
		if err := json.Unmarshal(text, &got); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"Main":"OK"}`, `{"Main":"growing"}`, `{"Poison":"ok"}`} {
		got := both{collector.StatusHidden, collector.PoisonHolding}
		if err := json.Unmarshal([]byte(text), &got); err == nil || got != (both{collector.StatusHidden, collector.PoisonHolding}) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
}

package test_test

import (
	"encoding/json"
	"testing"
	"time"
)

// silentRecords are the recording rules that may record nothing in this fleet, and why.
func silentRecords() map[string]string {
	const well = "a condition, and nothing is wrong in that way"
	return map[string]string{
		"account_queue:queue_drain_seconds":                  "no backlog is being worked off",
		"account:qwatch_account_unreachable:bool":            well,
		"account_queue:qwatch_consumer_stalled:held":         well,
		"account_queue:qwatch_retried_in_vain:held":          well,
		"account_queue:qwatch_poison_growing:held":           well,
		"account_queue:qwatch_messages_lost_in_seconds:held": well,
		"account_queue:qwatch_dead_letter_failing:held":      well,
		"account_queue:qwatch_dead_letter_ratio_high:held":   well,
		"account_queue:qwatch_latency_burn_fast:held":        well,
		"account_queue:qwatch_failure_burn_fast:held":        well,
		"account_queue:qwatch_head_late_burn_fast:held":      well,
	}
}

// checkRules asks Prometheus how the rules fare, and what is recorded. That the expression of each alert returns something
// when it is to, its tests by promtool show.
func (f *fleet) checkRules(t *testing.T) {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Name  string
				Rules []struct{ Name, Type, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal(mustGet(t, f.prometheus.URL()+"/api/v1/rules"), &answer); err != nil {
		t.Fatal(err)
	}
	rules, silent := 0, silentRecords()
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Type == "recording" && silent[r.Name] == "" {
				eventually(t, 20*time.Second, r.Name+" records something", func() bool { return f.hasData(t, r.Name) })
			}
			delete(silent, r.Name)
			if rules++; r.Health != "ok" {
				t.Errorf("%s, %s: %s %s", g.Name, r.Name, r.Health, r.LastError)
			}
		}
	}
	if rules < 40 {
		t.Errorf("Prometheus has %d rules", rules)
	}
	for name := range silent {
		t.Errorf("%s may be silent, and there is no such rule", name)
	}
}

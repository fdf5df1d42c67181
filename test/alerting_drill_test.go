//go:build drill

package test_test

import (
	"slices"
	"testing"
	"time"
)

// TestDrillAStallKeepsWhatFollowsQuiet waits until the head of a queue nobody works on has been late for long enough: that fires
// too, and nobody is told.
func TestDrillAStallKeepsWhatFollowsQuiet(t *testing.T) {
	f := startFleet(t)
	eventually(t, time.Minute, "the fleet works", func() bool {
		return f.value(t, `sum(increase(queue_messages_processed_total{queue_name="orders"}[10s]))`) > 20
	})
	f.checkStall(t)
	eventually(t, 3*time.Minute, "the head's lateness fires and is suppressed", func() bool {
		return slices.Contains(f.suppressed(t, "orders"), "QwatchHeadLateBudgetBurn")
	})
	f.checkOnlyTheStall(t)
	eventually(t, time.Minute, "the bill is known", func() bool { return f.hasData(t, `sum(qwatch_storage_estimated_monthly_cost)`) })
}

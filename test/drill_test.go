//go:build drill

package test_test

import "testing"

// The drills run by `make e2e` are too long for every change.

func TestDrillWorkersKilledAHundredTimes(t *testing.T) {
	crash(t, plan{kills: 100, good: 800, bad: 100})
}

package metric

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A request that found its account before the account was deleted must not bring back a series.
func TestLateObservationLeavesNoSeries(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	s := NewStorage(reg, Options{})
	s.Init("acct", nil)
	found := (*s.accounts.Load())["acct"]
	s.Delete("acct")
	for range 2 { // gone, and configured anew
		if s.first(found, "acct", 0, 0) != nil {
			t.Error("an element of a deleted account was resolved")
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 0 {
			t.Errorf("%d series, %v", n, err)
		}
		s.Init("acct", nil)
	}
}

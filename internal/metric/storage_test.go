package metric_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
)

func TestStorageRequests(t *testing.T) {
	t.Parallel()
	const base = "qwatch_storage_request_duration_seconds"
	series := func(part, operation, result string) string {
		return base + part + `{account="acct",operation="` + operation + `",result="` + result + `"}`
	}
	reg := prometheus.NewPedanticRegistry()
	s := metric.NewStorage(reg, metric.Options{})
	if got := samples(t, reg); len(got) > 0 {
		t.Errorf("series before there is an account: %v", got)
	}

	s.Init("acct", []string{"peek"})
	s.Init("acct", []string{"peek", "list"})
	d := metric.Of(metric.StorageRequestDuration)
	if got, want := len(samples(t, reg)), 2*d.Samples()/len(d.Values(metric.LabelOperation)); got != want {
		t.Errorf("two operations have %d series, want %d", got, want)
	}

	s.Observe("acct", "peek", "ok", 250*time.Millisecond)
	s.Observe("acct", "peek", "ok", 250*time.Millisecond)
	s.Observe("acct", "peek", "melted", time.Second)     // a result nobody knows
	s.Observe("acct", "teleport", "server", time.Second) // an operation nobody knows
	s.Observe("acct", "send", "throttled", -time.Second) // not among the operations of Init
	s.Observe("stranger", "peek", "ok", time.Second)     // an account Init did not name
	want := map[string]float64{
		series("_count", "peek", "ok"):        2,
		series("_sum", "peek", "ok"):          0.5,
		series("_count", "peek", "other"):     1,
		series("_sum", "peek", "other"):       1,
		series("_count", "other", "server"):   1,
		series("_sum", "other", "server"):     1,
		series("_count", "send", "throttled"): 1,
	}
	if diff := cmp.Diff(want, changed(t, reg)); diff != "" {
		t.Errorf("series that are not 0 (-want +got):\n%s", diff)
	}

	s.Delete("acct")
	s.Observe("acct", "clear", "ok", time.Second) // a request that ended late
	if got := slices.Sorted(maps.Keys(samples(t, reg))); len(got) > 0 {
		t.Errorf("series of a deleted account: %s", strings.Join(got, "\n"))
	}
}

func TestStorageIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s := metric.NewStorage(reg, metric.Options{})
	s.Init("stays", []string{"peek"})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				s.Observe("stays", "send", "ok", time.Millisecond)
				s.Observe("goes", "send", "ok", time.Millisecond)
				if i == 0 {
					s.Init("goes", []string{"peek"})
					s.Delete("goes")
				}
			}
		})
	}
	wg.Wait()
	got := changed(t, reg)
	const count = `qwatch_storage_request_duration_seconds_count{account="stays",operation="send",result="ok"}`
	if got[count] != 800 {
		t.Errorf("%v observations, want 800", got[count])
	}
	for series := range got {
		if strings.Contains(series, "goes") {
			t.Errorf("a deleted account has %s", series)
		}
	}
}

package metric_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
)

func TestBuildInfo(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	metric.BuildInfo(reg, "v1.2.3", "0123abc", "go1.26")
	want := map[string]float64{`qwatch_build_info{goversion="go1.26",revision="0123abc",version="v1.2.3"}`: 1}
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	const successful, at = metric.ConfigLastReloadSuccessful, metric.ConfigLastReloadSuccessTime
	reg := prometheus.NewPedanticRegistry()
	r := metric.NewReload(reg)
	check := func(when string, want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("before the first load", map[string]float64{successful: 0, at: 0})
	r.Succeeded(time.Unix(1000, 0))
	check("after it", map[string]float64{successful: 1, at: 1000})
	r.Refused()
	check("after a bad file", map[string]float64{successful: 0, at: 1000})
	r.Succeeded(time.Unix(2000, 0))
	check("after a good one", map[string]float64{successful: 1, at: 2000})
}

func TestCredentialExpiry(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	c := metric.NewCredentials(reg)
	c.Watch("sas", func() (time.Time, bool) { return time.Unix(1_800_000_000, 0), true })
	c.Watch("key", func() (time.Time, bool) { return time.Time{}, false })
	c.Watch("gone", func() (time.Time, bool) { return time.Unix(1, 0), true })
	c.Delete("gone")
	want := map[string]float64{`qwatch_credential_expiry_timestamp_seconds{account="sas"}`: 1_800_000_000}
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHealthStatus(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	metric.Health(reg, func(report func(probe, check string, status float64)) {
		report("live", "loops", metric.HealthOK)
		report("ready", "orders/orders", metric.HealthDegraded)
		report("ready", "config", metric.HealthFailed)
	})
	want := map[string]float64{
		`qwatch_health_check_status{check="loops",probe="live"}`:          1,
		`qwatch_health_check_status{check="orders/orders",probe="ready"}`: 0.5,
		`qwatch_health_check_status{check="config",probe="ready"}`:        0,
	}
	if diff := cmp.Diff(want, samples(t, reg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

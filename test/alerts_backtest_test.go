package test_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

const hour = time.Hour

// incidents are when queues of the demo have their troubles. They overlap in part, as incidents do.
var incidents = []struct {
	queue, what string
	from, to    time.Duration // since the hour began
}{
	{"payments", "a twentieth is refused, and one in fifty cannot be read", 10 * time.Minute, 20 * time.Minute},
	{"audit", "nobody consumes it", 15 * time.Minute, 35 * time.Minute},
	{"shipping", "a third of the attempts fail", 30 * time.Minute, 45 * time.Minute},
}

// consequences are the alerts that the troubles of the demo's queues bring about: what must be heard, and what may be.
var consequences = map[string]struct{ must, may []string }{
	"payments": {
		[]string{"QwatchPoisonGrowing", "QwatchPoisonMessages", "QwatchUnreadableMessages"},
		[]string{"QwatchDeadLetterRatioHigh", "QwatchFailureBudgetBurn"},
	},
	"audit": {[]string{"QwatchConsumerStalled"}, nil},
	"shipping": {
		[]string{"QwatchFailureRatioHigh"},
		// A third of the attempts fail, so one message in two hundred is given up, which is one in three minutes.
		[]string{"QwatchFailureBudgetBurn", "QwatchPoisonMessages", "QwatchPoisonGrowing", "QwatchRedeliveryHigh", "QwatchBreakerOpen"},
	},
}

// firing is what the backtest tells of an alert.
type firing struct {
	Alert, Severity string
	Labels          map[string]string
	Start, End      time.Time
	Seconds         float64
}

// recordedHour has an hour of the demo's fleet recorded, and starts a Prometheus that holds it. The fleet lives on
// the clock of a bubble, so that takes seconds, and it begins when that clock does.
func recordedHour(t *testing.T, args ...string) (prometheus *peer.PrometheusServer, begin time.Time) {
	t.Helper()
	folder := t.TempDir()
	samples := filepath.Join(folder, "samples")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// In a process of its own, without the race detector, under which it would take minutes.
	record := exec.CommandContext(ctx, "go", append([]string{
		"test", "-count=1", "-trimpath", "./internal/app/demo", "-run", "^TestRecord$", "-args", "-record", samples, "-for", hour.String(),
	}, args...)...)
	record.Dir = ".." // the module of the program
	record.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("record an hour: %v\n%s", err, out)
	}
	data := filepath.Join(folder, "data")
	if status, out := peer.Promtool(t, "", "tsdb", "create-blocks-from", "openmetrics", samples, data); status != 0 {
		t.Fatalf("make blocks: status %d:\n%s", status, out)
	}
	return peer.PrometheusWith(t, "scrape_configs: []", data), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
}

// backtest runs the command over the hour.
func backtest(t *testing.T, prometheus *peer.PrometheusServer, begin time.Time, args ...string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	if err := os.WriteFile(config, []byte("accounts: [{name: demo, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, nil, append([]string{
		"alerts", "backtest", "-c", config, "--prometheus", prometheus.URL(),
		"--since", hour.String(), "--until", begin.Add(hour).Format(time.RFC3339),
	}, args...)...)
	if r.status != 0 {
		t.Fatalf("qwatch alerts backtest: status %d\n%s", r.status, r.stderr)
	}
	return r.stdout
}

// reported is what the backtest tells, by the queue it is about. Whatever is not about a queue with a trouble, and does not
// come of that trouble, is an error.
func reported(t *testing.T, prometheus *peer.PrometheusServer, begin time.Time) map[string][]firing {
	t.Helper()
	var all []firing
	if err := json.Unmarshal([]byte(backtest(t, prometheus, begin, "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string][]firing{}
	for _, f := range all {
		name := f.Labels["queue_name"]
		of, troubled := consequences[name]
		if !troubled || !slices.Contains(slices.Concat(of.must, of.may), f.Alert) {
			t.Errorf("reported beside the incidents: %s %s %v from %v on", f.Alert, f.Severity, f.Labels, f.Start.Sub(begin))
		}
		found[name] = append(found[name], f)
	}
	for name, of := range consequences {
		for _, alert := range of.must {
			if !slices.ContainsFunc(found[name], func(f firing) bool { return f.Alert == alert }) {
				t.Errorf("%s of %s is not reported", alert, name)
			}
		}
	}
	return found
}

// TestBacktestFindsTheIncidents asks a real Prometheus that holds a recorded hour of the demo's fleet, in which three incidents
// come and go: those are reported, when they were, and nothing else.
func TestBacktestFindsTheIncidents(t *testing.T) {
	var args []string
	for _, i := range incidents {
		args = append(args, "-trouble", fmt.Sprintf("%s %v %v", i.queue, i.from, i.to))
	}
	prometheus, begin := recordedHour(t, args...)
	found := reported(t, prometheus, begin)
	for _, i := range incidents {
		first := hour
		for _, f := range found[i.queue] {
			start, end := f.Start.Sub(begin), hour
			if !f.End.IsZero() {
				end = f.End.Sub(begin)
			}
			t.Logf("%s, %s: %s %s from %v to %v", i.queue, i.what, f.Alert, f.Severity, start, end)
			first = min(first, start)
			if start < i.from || start > i.to+15*time.Minute {
				t.Errorf("%s of %s began %v after the hour did; the incident is from %v to %v", f.Alert, i.queue, start, i.from, i.to)
			}
			if f.Alert == "QwatchConsumerStalled" && end > i.to+10*time.Minute {
				t.Errorf("%s of %s ended at %v; the incident ended at %v", f.Alert, i.queue, end, i.to)
			}
		}
		if first > i.from+10*time.Minute {
			t.Errorf("%s: first heard of after %v; the incident began at %v", i.queue, first, i.from)
		}
	}
	t.Logf("%s", backtest(t, prometheus, begin))
	// With --recorded the rules are not written out, and this Prometheus never recorded anything.
	if out := backtest(t, prometheus, begin, "--recorded", "-o", "json"); out != "[]\n" {
		t.Errorf("of series that nobody recorded: %s", out)
	}
}

// TestBacktestOfTheDemo is about the demo as it is: three of its queues have their troubles all the time, and are reported
// all the time; of the other four, with bursts, slow handlers and delays, nothing is.
func TestBacktestOfTheDemo(t *testing.T) {
	prometheus, begin := recordedHour(t)
	for name, firings := range reported(t, prometheus, begin) {
		for _, f := range firings {
			t.Logf("%s: %s from %v to %v", name, f.Alert, f.Start.Sub(begin), f.End)
			if slices.Contains(consequences[name].must, f.Alert) && !f.End.IsZero() {
				t.Errorf("%s of %s ended after %v", f.Alert, name, f.End.Sub(begin))
			}
		}
	}
}

package test_test

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts/scenario"
	"github.com/qwatch/qwatch/test/peer"
)

// recordedHour is an hour of a fleet with three incidents: handlers of emails reject everything for a while, the
// consumer of orders dies, and a handler of reports hangs.
func recordedHour() *scenario.Scenario {
	type (
		view = scenario.View
		work = scenario.Work
	)
	s := scenario.New("a recorded hour", 60)
	s.Process("", "qwatch:9780", scenario.Always)
	settings := scenario.Settings{Objective: 300, Ratio: 0.99, HandlerLimit: 600}
	healthy := func(m int) view {
		n := math.Round(20 + 10*math.Sin(float64(m)))
		return view{Count: n, Visible: math.Round(n / 2), Age: 4, Status: "ok"}
	}
	working := func(int) work { return work{Received: 120, Started: 120, Processed: 120, Active: 3, Oldest: 1} }
	for _, name := range []string{"emails", "orders", "reports", "payments", "shipping", "reminders"} {
		q := scenario.ID{Account: "demo", Queue: name, Tier: "1", Mode: "consume", Instance: "qwatch:9780"}
		s.Watch(q, settings, func(m int) view {
			v := healthy(m)
			switch {
			case name == "emails" && m >= 15:
				v.Poison = float64(20 * min(m-14, 10))
			case name == "orders" && m >= 25 && m < 45:
				v = view{Count: float64(10 * (m - 20)), Visible: 32, Age: float64(60 * (m - 25)), Head: float64(60 * (m - 25)), Status: "ok"}
				if m > 33 {
					v.Status = "stalled"
				}
			}
			return v
		})
		s.Consume(q, "qwatch:9780", false, func(m int) work {
			w := working(m)
			switch {
			case name == "emails" && m >= 15 && m < 25:
				w.DeadLettered, w.Processed = 20, 100
			case name == "orders" && m >= 25 && m < 45:
				w = work{Gone: true}
			case name == "reports" && m >= 20 && m < 50:
				w.Oldest = float64(60 * (m - 20))
			}
			return w
		})
	}
	return s
}

// TestBacktestFindsTheIncidents asks a real Prometheus that holds that hour.
func TestBacktestFindsTheIncidents(t *testing.T) {
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Minute)
	folder := t.TempDir()
	samples := filepath.Join(folder, "samples.txt")
	f, err := os.Create(samples)
	if err != nil {
		t.Fatal(err)
	}
	if err := recordedHour().WriteOpenMetrics(f, begin); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(folder, "data")
	if status, out := peer.Promtool(t, "", "tsdb", "create-blocks-from", "openmetrics", samples, data); status != 0 {
		t.Fatalf("make blocks: status %d:\n%s", status, out)
	}
	prometheus := peer.PrometheusWith(t, "scrape_configs: []", data)
	config := filepath.Join(folder, "qwatch.yaml")
	if err := os.WriteFile(config, []byte("accounts: [{name: demo, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		cmd := command(nil, append([]string{
			"alerts", "backtest", "-c", config, "--prometheus", prometheus.URL(),
			"--since", "1h", "--until", begin.Add(time.Hour).UTC().Format(time.RFC3339),
		}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			exit, _ := err.(*exec.ExitError)
			t.Fatalf("qwatch alerts backtest: %v\n%s", err, exit.Stderr)
		}
		return out
	}
	var firings []struct {
		Alert, Severity string
		Labels          map[string]string
		Start, End      time.Time
		Seconds         float64
	}
	if err := json.Unmarshal(run("-o", "json"), &firings); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range firings {
		got = append(got, one.Labels["queue_name"]+": "+one.Alert+" "+one.Severity)
		t.Logf("%s %s from minute %v for %vs", one.Labels["queue_name"], one.Alert, one.Start.Sub(begin).Minutes(), one.Seconds)
		if one.Seconds <= 0 || one.Start.Before(begin.Add(15*time.Minute)) {
			t.Errorf("%s began %v after the hour did, and lasted %vs", one.Alert, one.Start.Sub(begin), one.Seconds)
		}
	}
	slices.Sort(got)
	want := []string{
		"emails: QwatchDeadLetterRatioHigh critical",
		"emails: QwatchPoisonGrowing critical",
		"emails: QwatchPoisonMessages warning",
		"orders: QwatchConsumerStalled critical",
		"reports: QwatchHandlerHung critical",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what would have fired (-want +got):\n%s", diff)
	}
	t.Logf("%s", run())
	// With --recorded the rules are not written out, and this Prometheus never recorded anything.
	if out := string(run("--recorded", "-o", "json")); out != "[]\n" {
		t.Errorf("of series that nobody recorded: %s", out)
	}
}

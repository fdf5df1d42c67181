package alerts_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts"
)

func TestGenerateTellsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := alerts.Generate(alerts.Config{
		PollInterval: -1, Interval: time.Second, Runbooks: "ftp://x", Grafana: "grafana", MonthlyBudget: -1, Scale: -2,
		Labels: map[string]string{"severity": "x", "a-b": "x", "__name__": "x"},
	})
	want := strings.Join([]string{
		`alerts: label "__name__": not a label's name: letters, digits and underscores`,
		`label "a-b": not a label's name: letters, digits and underscores`,
		`label "severity": the rules set it themselves`,
		`the URL of grafana "grafana" is not one of http or https`,
		`the URL of runbooks "ftp://x" is not one of http or https`,
		`the interval between evaluations 1s is shorter than 15s`,
		`the monthly budget -1 is below 0`,
		`the poll interval -1ns is shorter than 1s`,
		`the scale -2 is not above 0`,
	}, "\n")
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// count counts rules, and collects their expressions.
func count(r alerts.Rules) (n int, all string) {
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			n++
			all += rule.Expr + "\n"
		}
	}
	return n, all
}

func TestTheNumberOfRulesIsConstant(t *testing.T) {
	t.Parallel()
	want, plain := count(generate(t, alerts.Config{}))
	for name, cfg := range map[string]alerts.Config{
		"a budget":          {MonthlyBudget: 12.5},
		"slow polls":        {PollInterval: 10 * time.Minute},
		"fast evaluations":  {Interval: 15 * time.Second},
		"labels and links":  {Labels: map[string]string{"a": "b"}, Grafana: "https://g"},
		"shorter durations": {Scale: 0.01},
	} {
		if n, _ := count(generate(t, cfg)); n != want {
			t.Errorf("%s: %d rules, not %d", name, n, want)
		}
	}
	_, slow := count(generate(t, alerts.Config{PollInterval: 10 * time.Minute}))
	if !strings.Contains(plain, "queue_messages_waiting:max[7m]") || !strings.Contains(slow, "queue_messages_waiting:max[30m]") {
		t.Error("the windows of stalls do not follow the poll interval")
	}
	_, short := count(generate(t, alerts.Config{Scale: 0.01}))
	if left := regexp.MustCompile(`\[\d+[mhdw]\]|offset \d+[mhdw]\b`).FindAllString(short, -1); len(left) > 0 {
		for _, l := range left {
			if strings.Contains("[15m][30m][2h][6h][1d][3d]", l) || strings.HasPrefix(l, "[1") || strings.HasPrefix(l, "offset 1h") {
				continue // a hundredth of what was longer
			}
			t.Errorf("a duration was not scaled: %s", l)
		}
	}
	if !strings.Contains(short, "oldest_handler_age_seconds > 3.6") {
		t.Error("thresholds in seconds were not scaled")
	}
}

func TestSeverityFollowsTheTier(t *testing.T) {
	t.Parallel()
	var got []string
	for _, c := range []alerts.Class{alerts.Page, alerts.Ticket, alerts.Note} {
		for _, tier := range []int{0, 1, 2, 3, 9} {
			got = append(got, c.Severity(tier))
		}
	}
	want := strings.Fields("warning critical warning info warning warning warning warning info warning info info info info info")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("severities of page, ticket, note at tiers 0, 1, 2, 3, 9 (-want +got):\n%s", diff)
	}
}

func TestStandaloneRefersToNothingRecorded(t *testing.T) {
	t.Parallel()
	rules := generate(t, alerts.Config{})
	alone, err := rules.Standalone()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules.Alerts(), alone.Alerts()); diff != "" {
		t.Errorf("alerts (-rules +standalone):\n%s", diff)
	}
	held := 0
	for _, g := range alone.Groups {
		for _, r := range g.Rules {
			if m := regexp.MustCompile(`[a-z]+:[a-z_]+`).FindString(r.Expr + r.Held); m != "" {
				t.Errorf("%s still refers to %s", r.Alert, m)
			}
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
				t.Errorf("%s has unbalanced parentheses", r.Alert)
			}
			if r.Hold {
				held++
			}
		}
	}
	if held < 8 {
		t.Errorf("only %d alerts are held", held)
	}
}

func TestAzureKeepsItsLimits(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := generate(t, alerts.Config{}).WriteAzure(&b); err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources []struct {
			Name       string
			Properties struct {
				Interval string
				Rules    []struct {
					Alert, Record, For string
					Severity           *int
					Labels             map[string]string
					ResolveConfig      struct{ TimeToResolve string } `json:"resolveConfiguration"`
				}
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &template); err != nil {
		t.Fatal(err)
	}
	severities := map[string]int{alerts.Critical: 0, alerts.Warning: 2, alerts.Info: 3}
	duration := regexp.MustCompile(`^PT(\d+H)?(\d+M)?(\d+S)?$`)
	groups, names := map[string]bool{}, map[string]bool{}
	for _, g := range template.Resources {
		if groups[g.Name] || len(g.Properties.Rules) > 20 || g.Properties.Interval != "PT1M" {
			t.Errorf("group %s: twice %t, %d rules, interval %s", g.Name, groups[g.Name], len(g.Properties.Rules), g.Properties.Interval)
		}
		groups[g.Name] = true
		for _, r := range g.Properties.Rules {
			if r.Record != "" {
				continue
			}
			if names[r.Alert] {
				t.Errorf("%s is there twice", r.Alert)
			}
			names[r.Alert] = true
			if r.Severity == nil || *r.Severity != severities[r.Labels["severity"]] || strings.Contains(r.Labels["severity"], "{") {
				t.Errorf("%s: severity %v, label %q", r.Alert, r.Severity, r.Labels["severity"])
			}
			if !duration.MatchString(r.For) || !duration.MatchString(r.ResolveConfig.TimeToResolve) || r.For == "PT" {
				t.Errorf("%s: for %q, resolved after %q", r.Alert, r.For, r.ResolveConfig.TimeToResolve)
			}
		}
	}
	if !strings.Contains(b.String(), `"for": "PT10M"`) {
		t.Error("no rule waits for ten minutes: durations are wrong")
	}
}

func TestGrafanaRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range generate(t, alerts.Config{}).Grafana(alerts.GrafanaOptions{Datasource: "prom"}) {
		for _, r := range g.Rules {
			switch {
			case seen[r.UID] || seen[r.Title]:
				t.Errorf("%s is there twice", r.Title)
			case len(r.UID) > 40 || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(r.UID):
				t.Errorf("%q is not a uid", r.UID)
			case r.Condition != r.Data[len(r.Data)-1].RefID || r.Data[0].DatasourceUID != "prom":
				t.Errorf("%s: condition %s, data %+v", r.Title, r.Condition, r.Data)
			}
			seen[r.UID], seen[r.Title] = true, true
			for name, text := range r.Annotations {
				if strings.Contains(text, "$value ") || strings.Contains(text, "$value}") {
					t.Errorf("%s: %s speaks of $value, which is no number in Grafana", r.Title, name)
				}
			}
		}
	}
}

func TestInhibitionsNameAlertsThatExist(t *testing.T) {
	t.Parallel()
	rules := generate(t, alerts.Config{})
	var b bytes.Buffer
	if err := rules.WriteAlertmanager(&b); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`Qwatch[A-Z][A-Za-z]+`).FindAllString(b.String(), -1)
	for _, name := range names {
		if !slices.Contains(rules.Alerts(), name) {
			t.Errorf("%s is inhibited or inhibits, and is no alert", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d alerts are named", len(names))
	}
}

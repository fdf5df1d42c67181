package alerts_test

import (
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/qwatch/qwatch/alerts"
)

// expand executes a template as Prometheus does: it knows labels, the value, and of functions those that
// the rules use.
func expand(t *testing.T, text string, labels map[string]string, value float64) string {
	t.Helper()
	show := func(kind string) func(float64) string {
		return func(x float64) string { return fmt.Sprintf("%s(%g)", kind, x) }
	}
	parsed, err := template.New("").Option("missingkey=zero").Funcs(template.FuncMap{
		"humanize": show("n"), "humanizeDuration": show("time"), "humanizePercentage": show("share"),
	}).Parse("{{ $labels := .Labels }}{{ $value := .Value }}" + text)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, map[string]any{"Labels": labels, "Value": value}); err != nil {
		t.Errorf("execute %q: %v", text, err)
	}
	return b.String()
}

func TestTemplatesGiveTextAndSeverity(t *testing.T) {
	t.Parallel()
	about := map[alerts.Scope][]string{alerts.Queue: {"acct", "my-queue"}, alerts.Account: {"acct"}}
	for _, g := range generate(t, alerts.Config{Grafana: "https://g"}).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			for tier, name := range []string{"", "1", "2", "3"} {
				labels := map[string]string{
					"account": "acct", "queue_name": "my-queue", "instance": "host:9780", "job": "j", "check": "loop", "cluster": "east", "tier": name,
				}
				want := r.Class.Severity(tier)
				if r.Scope == alerts.Self {
					want = r.Class.Severity(1)
				}
				if got := expand(t, r.Labels["severity"], labels, 1); got != want {
					t.Errorf("%s at tier %q is %q, want %q", r.Alert, name, got, want)
				}
			}
			labels := map[string]string{"account": "acct", "queue_name": "my-queue", "instance": "host:9780", "check": "loop"}
			for name, text := range r.Annotations {
				for _, value := range []float64{0.25, 12, -3} {
					got := expand(t, text, labels, value)
					if strings.Contains(got, "no value") || strings.Contains(got, "{{") || strings.Contains(got, "  ") {
						t.Errorf("%s: %s reads %q", r.Alert, name, got)
					}
					for _, must := range about[r.Scope] {
						if (name == "description" || name == "summary") && !strings.Contains(got, must) && !strings.Contains(text, "$value") {
							t.Errorf("%s: %s does not say which: %q", r.Alert, name, got)
						}
					}
				}
			}
		}
	}
}

package alerts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/internal/metric"
)

const runbooks = "../docs/runbooks"

// headings are what every runbook answers, in this order.
func headings() []string {
	return []string{"## What it means", "## What to look at", "## How to mend it", "## When to silence it"}
}

func TestEveryAlertHasARunbookAndNoOther(t *testing.T) {
	t.Parallel()
	names := generate(t, alerts.Config{}).Alerts()
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); name != "README" && !slices.Contains(names, name) {
			t.Errorf("%s is about no alert", page)
		}
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(runbooks, name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		page, ok := strings.CutPrefix(string(text), "# "+name+"\n")
		if !ok {
			t.Errorf("the runbook of %s has another title", name)
		}
		for _, heading := range headings() {
			_, after, found := strings.Cut(page, heading+"\n\n")
			if !found {
				t.Errorf("the runbook of %s does not say, or not in its place: %s", name, heading)
				break
			}
			answer, _, _ := strings.Cut(after, "\n## ")
			if len(strings.TrimSpace(answer)) < 15 {
				t.Errorf("the runbook of %s says too little: %s", name, heading)
			}
			page = after
		}
		if look := string(text); !strings.Contains(look, "`qwatch ") && !strings.Contains(look, "`/") && !strings.Contains(look, "curl ") && !strings.Contains(look, "queue_") && !strings.Contains(look, "qwatch_") {
			t.Errorf("the runbook of %s names nothing to look at", name)
		}
	}
}

// TestRunbooksNameAlertsThatExist keeps references between runbooks.
func TestRunbooksNameAlertsThatExist(t *testing.T) {
	t.Parallel()
	names := generate(t, alerts.Config{}).Alerts()
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }) {
			if strings.HasPrefix(word, "Qwatch") && !slices.Contains(names, word) {
				t.Errorf("%s names %s, which is no alert", page, word)
			}
		}
	}
}

func TestEveryAlertTellsWhatItMust(t *testing.T) {
	t.Parallel()
	for _, g := range generate(t, alerts.Config{Grafana: "https://grafana.example.com/", Labels: map[string]string{"origin": "qwatch"}}).Groups {
		if n := len(g.Rules); n > 20 {
			t.Errorf("group %s holds %d rules, over 20", g.Name, n)
		}
		for _, r := range g.Rules {
			if r.Alert == "" {
				if len(r.Labels) > 0 {
					t.Errorf("%s adds labels to a recorded series", r.Record)
				}
				continue
			}
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" || !strings.HasSuffix(r.Annotations[name], ".") {
					t.Errorf("%s: %s is not a sentence: %q", r.Alert, name, r.Annotations[name])
				}
			}
			if want := alerts.DefaultRunbooks + "/" + r.Alert + ".md"; r.Annotations["runbook_url"] != want {
				t.Errorf("%s: runbook_url is %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.HasPrefix(r.Annotations["dashboard_url"], "https://grafana.example.com/d/qwatch-") {
				t.Errorf("%s: dashboard_url is %q", r.Alert, r.Annotations["dashboard_url"])
			}
			if r.Labels["severity"] == "" || r.Labels["origin"] != "qwatch" || r.Class == 0 || r.Scope == 0 {
				t.Errorf("%s: labels %v, class %v, scope %v", r.Alert, r.Labels, r.Class, r.Scope)
			}
		}
	}
}

var metricName = regexp.MustCompile(`\b(?:queue|qwatch)_[a-z0-9_]+`)

// TestRunbooksNameMetricsThatExist keeps what somebody types at night from finding nothing.
func TestRunbooksNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, d := range metric.Catalogue() {
		known[d.Name] = true
		for _, l := range d.LabelNames() {
			known[l] = true
		}
		if d.Type == metric.Histogram {
			known[d.Name+"_count"], known[d.Name+"_bucket"], known[d.Name+"_sum"] = true, true, true
		}
	}
	for _, name := range []string{"qwatch_team", "qwatch_tier", "qwatch_objective", "qwatch_outage"} { // a queue's own metadata
		known[name] = true
	}
	for _, g := range generate(t, alerts.Config{}).Groups {
		for _, r := range g.Rules {
			for part := range strings.SplitSeq(r.Record, ":") {
				known[part] = true
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(runbooks, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../docs/alerts.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if !known[name] {
				t.Errorf("%s names %s, which is no metric and no label", page, name)
			}
		}
	}
}

package alerts_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/internal/metric"
)

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`\b([a-z_][a-z0-9_:]*)\s*(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
)

// notMetrics are PromQL's own words.
func notMetrics() []string {
	return strings.Fields(`and or unless offset bool by on group_left group max min sum avg count topk time abs absent rate increase delta
		deriv resets changes clamp_min clamp_max predict_linear histogram_quantile last_over_time max_over_time min_over_time avg_over_time
		sum_over_time count_over_time`)
}

// ours are the labels that a scrape or the rules add.
func ours() []string { return []string{"cluster", "namespace", "job", "instance", "le"} }

func TestEverySelectorIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	rules := generate(t, alerts.Config{MonthlyBudget: 100})
	recorded := map[string]bool{}
	defs := map[string]metric.Def{}
	for _, d := range metric.Catalogue() {
		defs[d.Name] = d
		if d.Type == metric.Histogram {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				defs[d.Name+suffix] = d
			}
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded[r.Record] = true
			}
		}
	}
	seen := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			name := r.Record + r.Alert
			for _, m := range grouping.FindAllStringSubmatch(r.Expr, -1) {
				labels := strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")
				switch {
				case m[1] == "ignoring" || m[1] == "without" || m[1] == "group_right":
					t.Errorf("%s: %s is not how these rules match", name, m[0])
				case (m[1] == "by" || m[1] == "on") && m[2] != "" && !slices.Contains(labels, "cluster"):
					t.Errorf("%s: %q does not keep cluster", name, m[0])
				}
			}
			bare := ranges.ReplaceAllString(grouping.ReplaceAllString(r.Expr, ""), "")
			for _, m := range selector.FindAllStringSubmatch(quoted.ReplaceAllStringFunc(bare, hide), -1) {
				if slices.Contains(notMetrics(), m[1]) || recorded[m[1]] {
					continue
				}
				if m[1] == "process_start_time_seconds" { // the Prometheus client library's
					continue
				}
				if _, ok := defs[m[1]]; !ok {
					t.Errorf("%s: %s is not in the catalogue of metrics", name, m[1])
				}
				seen++
			}
			for at := range defs {
				checkMatchers(t, name, r.Expr, at, defs[at])
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d selectors were looked at", seen)
	}
}

// hide keeps a string's length and takes its letters.
func hide(s string) string { return `"` + strings.Repeat("0", len(s)-2) + `"` }

// checkMatchers holds every matcher on a metric against the labels and values that it has.
func checkMatchers(t *testing.T, rule, expr, name string, d metric.Def) {
	t.Helper()
	of := regexp.MustCompile(`\b` + name + `\{([^}]*)\}`)
	for _, m := range of.FindAllStringSubmatch(expr, -1) {
		for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
			label, value := l[1], strings.Trim(l[3], `"`)
			if slices.Contains(ours(), label) {
				continue
			}
			if !slices.Contains(d.LabelNames(), label) {
				t.Errorf("%s: %s has no label %s", rule, name, label)
				continue
			}
			values := d.Values(label)
			if values == nil {
				continue
			}
			for v := range strings.SplitSeq(value, "|") {
				if !slices.Contains(values, v) {
					t.Errorf("%s: %s{%s} is never %q", rule, name, label, v)
				}
			}
		}
	}
}

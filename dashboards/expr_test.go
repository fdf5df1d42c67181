package dashboards_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/internal/metric"
)

// TestExpressions holds the linter's rules about expressions, on their text: test/ runs each on a real Prometheus.
func TestExpressions(t *testing.T) {
	t.Parallel()
	defs := map[string]metric.Def{}
	for _, d := range metric.Catalogue() {
		defs[d.Name] = d
		if d.Type == metric.Histogram {
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				part, d := d.Name+part, d
				d.Name = part
				defs[part] = d
			}
		}
	}
	checked := 0
	for _, d := range generate(t, dashboards.Config{}) {
		for _, q := range d.Queries() {
			for _, fault := range exprFaults(q.Expr, defs) {
				t.Errorf("%s, %q %s: %s: %s", d.UID, q.Panel, q.RefID, fault, q.Expr)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d expressions were checked", checked)
	}
	// The rules must be able to say no.
	for expr, want := range map[string]string{
		`rate(queue_polls_total[$__rate_interval])`:                    "is not aggregated",
		`sum(rate(queue_polls_total{account=~"$account"}[5m]))`:        "is over [5m]",
		`sum(queue_polls_total)`:                                       "a counter as it is",
		`sum(rate(queue_up[$__rate_interval]))`:                        "is no counter",
		`max by (account) (queue_up{queue_outcome="completed"})`:       "has no label queue_outcome",
		`max by (account, reason) (queue_up)`:                          "by reason",
		`max by (account) (queue_upp)`:                                 "no metric is called queue_upp",
		`max by (account) (queue_poll_failures_total{reason="tired"})`: "reason is never tired",
		`sum by (account) (queue_message_size_bytes)`:                  "a histogram as it is",
		`max by (account) (queue_status{status=~"ok|fine"})`:           "status is never fine",
		`max(queue_up{account="$account"})`:                            "account is compared with =",
	} {
		if got := strings.Join(exprFaults(expr, defs), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", expr, got, want)
		}
	}
}

var (
	selector  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})?(\[[^]]*\])?`)
	matcher   = regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"([^"]*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|on|group_left) \(([^)]*)\)`)
	ofMetric  = regexp.MustCompile(`^(queue_|qwatch_)`)
	foreign   = regexp.MustCompile(`^(process_(cpu_seconds_total|resident_memory_bytes|start_time_seconds)|go_goroutines|scrape_(duration_seconds|samples_post_metric_relabeling)|ALERTS|ALERTS_FOR_STATE|GRAFANA_ALERTS)$`)
	anyLabels = []string{"instance", "job", "le", "alertname", "severity", "alertstate"}
)

// exprFaults reads an expression as text and says what is wrong with it.
func exprFaults(expr string, defs map[string]metric.Def) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	labels := slices.Clone(anyLabels)
	labelled := map[string]bool{}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			labelled[strings.TrimSpace(name)] = true
		}
	}
	rest := grouping.ReplaceAllString(expr, "")
	for _, at := range selector.FindAllStringSubmatchIndex(rest, -1) {
		name := rest[at[2]:at[3]]
		def, known := defs[name]
		isForeign := foreign.MatchString(name)
		before := rest[:at[0]]
		if strings.Count(before, `"`)%2 == 1 || strings.HasSuffix(before, "$") { // within a string, or a variable
			continue
		}
		if !known && !isForeign {
			if ofMetric.MatchString(name) {
				fault("no metric is called %s", name)
			}
			continue
		}
		part := func(i int) string {
			if at[i] < 0 {
				return ""
			}
			return rest[at[i]:at[i+1]]
		}
		braces, span := part(4), part(6)
		call := regexp.MustCompile(`(rate|irate|increase|deriv)\($`).FindString(before)
		counter := def.Type == metric.Counter || def.Type == metric.Histogram || name == "process_cpu_seconds_total"
		switch {
		case call == "" && counter && span == "":
			if def.Type == metric.Histogram {
				fault("%s: a histogram as it is", name)
			} else {
				fault("%s: a counter as it is", name)
			}
		case call != "" && call != "deriv(" && !counter:
			fault("%s%s is no counter", call, name)
		case call != "" && call != "deriv(" && span != "[$__rate_interval]":
			fault("%s%s is over %s", call, name, span)
		case call != "" && !regexp.MustCompile(`(sum|max)( +)?\((3600 \* )?$`).MatchString(strings.TrimSuffix(before, call)):
			fault("%s%s is not aggregated", call, name)
		}
		if labels = append(labels, def.LabelNames()...); isForeign { // alerts are about queues too
			labels = append(labels, metric.LabelAccount, metric.LabelQueue)
		}
		for _, m := range matcher.FindAllStringSubmatch(braces, -1) {
			faults = append(faults, matcherFaults(name, def, isForeign, m[1], m[2], m[3])...)
		}
	}
	for name := range labelled {
		if name != "" && !slices.Contains(labels, name) {
			fault("by %s, which none of its metrics has", name)
		}
	}
	return faults
}

func matcherFaults(name string, def metric.Def, isForeign bool, label, op, value string) []string {
	switch {
	case isForeign:
		return nil
	case !slices.Contains(def.LabelNames(), label):
		return []string{name + " has no label " + label}
	case strings.HasPrefix(value, "$") && op != "=~":
		return []string{label + " is compared with " + op}
	case strings.HasPrefix(value, "$") || def.Values(label) == nil:
		return nil
	}
	var faults []string
	for v := range strings.SplitSeq(value, "|") {
		if !slices.Contains(def.Values(label), v) {
			faults = append(faults, label+" is never "+v)
		}
	}
	return faults
}

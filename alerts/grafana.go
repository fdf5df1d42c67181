package alerts

import (
	"io"
	"regexp"
	"strings"
)

// GrafanaOptions say where Grafana keeps the rules.
type GrafanaOptions struct {
	Datasource string // uid of the Prometheus data source; default "prometheus"
	Folder     string // default "qwatch"
	OrgID      int    // default 1
}

func (o GrafanaOptions) withDefaults() GrafanaOptions {
	if o.Datasource == "" {
		o.Datasource = "prometheus"
	}
	if o.Folder == "" {
		o.Folder = "qwatch"
	}
	if o.OrgID == 0 {
		o.OrgID = 1
	}
	return o
}

// WriteGrafana writes the alerts as a provisioning file of Grafana-managed rules. The recording rules are not in
// it: Prometheus must have them, from WritePrometheus.
func (r Rules) WriteGrafana(w io.Writer, o GrafanaOptions) error {
	return writeYAML(w, grafanaFile{APIVersion: 1, Groups: r.Grafana(o)})
}

type grafanaFile struct {
	APIVersion int            `yaml:"apiVersion"`
	Groups     []GrafanaGroup `yaml:"groups"`
}

// GrafanaGroup is a group of alert rules in the shape of a provisioning file.
type GrafanaGroup struct {
	OrgID    int           `yaml:"orgId"`
	Name     string        `yaml:"name"`
	Folder   string        `yaml:"folder"`
	Interval string        `yaml:"interval"`
	Rules    []GrafanaRule `yaml:"rules"`
}

// GrafanaRule is an alert rule in the shape of a provisioning file.
type GrafanaRule struct {
	UID           string            `yaml:"uid"`
	Title         string            `yaml:"title"`
	Condition     string            `yaml:"condition"`
	Data          []GrafanaQuery    `yaml:"data"`
	NoDataState   string            `yaml:"noDataState"`
	ExecErrState  string            `yaml:"execErrState"`
	For           string            `yaml:"for"`
	KeepFiringFor string            `yaml:"keepFiringFor,omitempty"`
	Annotations   map[string]string `yaml:"annotations"`
	Labels        map[string]string `yaml:"labels"`
	IsPaused      bool              `yaml:"isPaused"`
}

// GrafanaQuery is one step of a rule: a query, or an expression over others.
type GrafanaQuery struct {
	RefID             string       `yaml:"refId"`
	RelativeTimeRange GrafanaRange `yaml:"relativeTimeRange"`
	DatasourceUID     string       `yaml:"datasourceUid"`
	Model             GrafanaModel `yaml:"model"`
}

// GrafanaRange is a range of seconds before now.
type GrafanaRange struct {
	From int `yaml:"from"`
	To   int `yaml:"to"`
}

// GrafanaModel is what a step asks.
type GrafanaModel struct {
	RefID      string `yaml:"refId"`
	Expr       string `yaml:"expr,omitempty"`
	Instant    bool   `yaml:"instant,omitempty"`
	Range      bool   `yaml:"range"`
	Type       string `yaml:"type,omitempty"`
	Expression string `yaml:"expression,omitempty"`
}

// Grafana returns the alerts, in the groups they are in, as Grafana-managed rules. Every series of the query is
// an alert, whatever its value is; no series is no alert. A rule's uid is made of its name, so that it stays.
func (r Rules) Grafana(o GrafanaOptions) []GrafanaGroup {
	o = o.withDefaults()
	var groups []GrafanaGroup
	for _, g := range r.Groups {
		out := GrafanaGroup{OrgID: o.OrgID, Name: g.Name, Folder: o.Folder, Interval: promDuration(g.Interval)}
		for _, rule := range g.Rules {
			if rule.Alert != "" {
				out.Rules = append(out.Rules, rule.grafana(o))
			}
		}
		if len(out.Rules) > 0 {
			groups = append(groups, out)
		}
	}
	return groups
}

func (r Rule) grafana(o GrafanaOptions) GrafanaRule {
	title := r.Alert
	if r.Window != "" {
		title += " (" + r.Window + ")"
	}
	annotations := make(map[string]string, len(r.Annotations))
	for name, text := range r.Annotations {
		annotations[name] = grafanaTemplate(text)
	}
	last := GrafanaRange{From: 600}
	return GrafanaRule{
		UID: kebab(title), Title: title, Condition: "B",
		Data: []GrafanaQuery{
			{
				RefID: "A", RelativeTimeRange: last, DatasourceUID: o.Datasource,
				Model: GrafanaModel{RefID: "A", Expr: r.Expr, Instant: true},
			},
			{
				RefID: "B", RelativeTimeRange: last, DatasourceUID: "__expr__",
				Model: GrafanaModel{RefID: "B", Type: "math", Expression: "is_number($A) || is_inf($A)"},
			},
		},
		// A query without a result is all quiet, not a fault.
		NoDataState: "OK", ExecErrState: "Error",
		For: promDuration(max(r.For, 0)), KeepFiringFor: optional(r.KeepFiringFor),
		Annotations: annotations, Labels: r.Labels,
	}
}

var valueVariable = regexp.MustCompile(`\$value\b`)

// grafanaTemplate writes a template for Grafana, where $value is a description of all values.
func grafanaTemplate(s string) string {
	return valueVariable.ReplaceAllString(s, "$$values.A.Value")
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// kebab is a name in lower case with hyphens: QwatchQueueMissing is qwatch-queue-missing.
func kebab(s string) string {
	s = strings.ToLower(wordStart.ReplaceAllString(s, "$1-$2"))
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(s, "-"), "-")
}

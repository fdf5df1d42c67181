package dashboards

//lint:file-ignore SA1019 Grafana before 13 takes nothing but the deprecated shape

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// What every dashboard opens with.
const (
	openFrom    = "now-6h"
	openTo      = "now"
	refreshRate = "1m"
)

// The queries behind the variables. They ask for a metric that every watched queue has in every set of series.
const (
	accountsQuery = `label_values(queue_poll_interval_seconds, account)`
	queuesQuery   = `label_values(queue_poll_interval_seconds{account=~"$account"}, queue_name)`
)

// allValue is what All means: any value, but not none.
const allValue = ".+"

// Classic returns the dashboard as classic JSON, which every Grafana since 9 takes.
func (d Dashboard) Classic() ([]byte, error) {
	return indented(classic(d.board), "dashboard "+d.UID)
}

// classic makes the classic shape. Panels are siblings of their row: those inside an open one are dropped by Grafana.
func classic(b board) dashboard.Dashboard {
	made := *dashboard.NewDashboard()
	made.Uid, made.Title, made.Description = &b.uid, &b.title, &b.about
	made.Tags = []string{Tag}
	made.Editable = new(false)
	made.GraphTooltip = new(dashboard.DashboardCursorSyncCrosshair)
	made.Time = &dashboard.DashboardDashboardTime{From: openFrom, To: openTo}
	made.Refresh = new(refreshRate)
	made.Templating.List = classicVariables()
	made.Annotations.List = []dashboard.AnnotationQuery{{
		Name: alertsAnnotation, Datasource: source(), Enable: true, IconColor: colourBad, Expr: new(alertsExpr()),
		Step: new("60s"), TitleFormat: new("{{alertname}}"), TextFormat: new("{{account}}/{{queue_name}}"), TagKeys: new("severity"),
	}}
	for _, l := range b.links {
		made.Links = append(made.Links, dashboard.DashboardLink{
			Title: l.title, Type: dashboard.DashboardLinkTypeLink, Icon: l.icon(), Tooltip: l.about, Url: new(l.url), Tags: []string{},
			TargetBlank: l.outside, IncludeVars: !l.outside, KeepTime: !l.outside,
		})
	}
	y := 0
	for i, r := range b.rows {
		made.Panels = append(made.Panels, dashboard.PanelOrRowPanel{RowPanel: &dashboard.RowPanel{
			Type: "row", Title: new(r.title), Id: uint32(r.id(i)), GridPos: &dashboard.GridPos{H: 1, W: gridWidth, Y: uint32(y)}, Panels: []dashboard.Panel{},
		}})
		y++
		for _, p := range r.panels {
			made.Panels = append(made.Panels, dashboard.PanelOrRowPanel{Panel: p.classic(y)})
		}
		y += r.height()
	}
	return made
}

// id is a row's own, from its first panel's: panels end in 01 to 99 of a hundred.
func (r row) id(i int) int { return r.panels[0].id/100*100000 + i + 1 }

func (l boardLink) icon() string {
	if l.outside {
		return "external link"
	}
	return "dashboard"
}

func source() *common.DataSourceRef {
	return &common.DataSourceRef{Type: new("prometheus"), Uid: new("${" + varDatasource + "}")}
}

func classicVariables() []dashboard.VariableModel {
	text := func(s string) dashboard.StringOrArrayOfString { return dashboard.StringOrArrayOfString{String: &s} }
	all := &dashboard.VariableOption{
		Selected: new(true),
		Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	query := func(name, label, about, expr string) dashboard.VariableModel {
		return dashboard.VariableModel{
			Type: dashboard.VariableTypeQuery, Name: name, Label: &label, Description: &about, Datasource: source(), Definition: &expr,
			Query:   &dashboard.StringOrMap{Map: map[string]any{"query": expr, "refId": "Variable-" + name}},
			Current: all, Multi: new(true), IncludeAll: new(true), AllValue: new(allValue),
			Refresh: new(dashboard.VariableRefreshOnTimeRangeChanged), Sort: new(dashboard.VariableSortNaturalAsc),
		}
	}
	return []dashboard.VariableModel{
		{
			Type: dashboard.VariableTypeDatasource, Name: varDatasource, Label: new(datasourceLabel), Description: new(datasourceAbout),
			Query: &dashboard.StringOrMap{String: new("prometheus")}, Current: &dashboard.VariableOption{Text: text("default"), Value: text("default")},
			Refresh: new(dashboard.VariableRefreshOnDashboardLoad),
		},
		query(varAccount, accountLabel, accountAbout, accountsQuery),
		query(varQueue, queueLabel, queueAbout, queuesQuery),
	}
}

// The labels and descriptions of the variables.
const (
	datasourceLabel = "Data source"
	datasourceAbout = "The Prometheus that scrapes qwatch."
	accountLabel    = "Account"
	accountAbout    = "Storage accounts, as the configuration calls them."
	queueLabel      = "Queue"
	queueAbout      = "Main queues; a poison queue goes with its main queue."

	alertsAnnotation = "Alerts"
)

// alertsExpr marks the times when alerts fired.
func alertsExpr() string {
	return `max by (alertname, severity, account, queue_name) ` + alerts(`alertstate="firing"`)
}

// classic makes a panel whose row's panels begin at the line y.
func (p panel) classic(y int) *dashboard.Panel {
	made := &dashboard.Panel{
		Type: p.plugin, Id: new(uint32(p.id)), Title: &p.title, Description: &p.about, Datasource: source(), Options: p.options,
		GridPos: &dashboard.GridPos{X: uint32(p.x), Y: uint32(y + p.y), W: uint32(p.w), H: uint32(p.h)},
	}
	for i, t := range p.targets {
		q := t.query(i)
		q.Datasource = source()
		made.Targets = append(made.Targets, variants.Dataquery(q))
	}
	for _, t := range p.transforms {
		made.Transformations = append(made.Transformations, dashboard.DataTransformerConfig{Id: t.id, Options: t.options})
	}
	if p.plugin == pluginText {
		made.Datasource = nil
		return made
	}
	made.FieldConfig = p.classicField()
	return made
}

// query is the target as the Prometheus data source takes it, in either shape.
func (t target) query(i int) *prometheus.Dataquery {
	q := &prometheus.Dataquery{
		Expr: t.expr, RefId: new(refID(i)), EditorMode: new(prometheus.QueryEditorModeCode),
		Instant: new(t.instant), Range: new(!t.instant), Format: new(prometheus.PromQueryFormatTimeSeries),
	}
	if t.format != "" {
		q.Format = new(prometheus.PromQueryFormat(t.format))
	}
	if t.legend != "" {
		q.LegendFormat = &t.legend
	}
	if t.exemplar {
		q.Exemplar = new(true)
	}
	return q
}

// colouring is how values get their colours, a mode that both shapes know, and the colour where it is a fixed one.
func (p panel) colouring() (mode string, fixed *string) {
	switch {
	case p.field.colour != "":
		return string(dashboard.FieldColorModeIdFixed), &p.field.colour
	case len(p.field.steps) > 0 && p.plugin != pluginSeries:
		return string(dashboard.FieldColorModeIdThresholds), nil
	default:
		return string(dashboard.FieldColorModeIdPaletteClassicByName), nil
	}
}

func (p panel) classicField() *dashboard.FieldConfigSource {
	f := p.field
	d := dashboard.FieldConfig{Unit: &f.unit, Decimals: f.decimals, Min: f.min, Max: f.max, Custom: p.custom}
	if f.empty != "" {
		d.NoValue = &f.empty
	}
	mode, fixed := p.colouring()
	d.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeId(mode), FixedColor: fixed}
	if len(f.steps) > 0 {
		d.Thresholds = &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute}
		for i, s := range f.steps {
			t := dashboard.Threshold{Color: s.colour}
			if i > 0 {
				t.Value = new(s.from)
			}
			d.Thresholds.Steps = append(d.Thresholds.Steps, t)
		}
	}
	for i, v := range f.values {
		d.Mappings = append(d.Mappings, v.classic(i))
	}
	for _, l := range p.links {
		d.Links = append(d.Links, dashboard.DashboardLink{
			Title: l.title, Type: dashboard.DashboardLinkTypeLink, Icon: "", Tooltip: "", Url: new(l.url), Tags: []string{}, TargetBlank: l.outside,
		})
	}
	overrides := []dashboard.DashboardFieldConfigSourceOverrides{}
	for _, o := range p.overrides {
		made := dashboard.DashboardFieldConfigSourceOverrides{
			Matcher: dashboard.MatcherConfig{Id: o.matcher, Options: o.of}, Properties: []dashboard.DynamicConfigValue{},
		}
		for _, s := range o.set {
			made.Properties = append(made.Properties, dashboard.DynamicConfigValue{Id: s.id, Value: s.value})
		}
		overrides = append(overrides, made)
	}
	return &dashboard.FieldConfigSource{Defaults: d, Overrides: overrides}
}

func (v value) classic(i int) dashboard.ValueMapping {
	result := dashboard.ValueMappingResult{Text: &v.text, Index: new(int32(i))}
	if v.colour != "" {
		result.Color = &v.colour
	}
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{
		Type: dashboard.MappingTypeValueToText, Options: map[string]dashboard.ValueMappingResult{v.key(): result},
	}}
}

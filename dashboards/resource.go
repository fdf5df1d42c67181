package dashboards

import (
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/dashboardv2"
	"github.com/grafana/grafana-foundation-sdk/go/resource"
)

// APIVersion and Kind are those of the resources.
const (
	APIVersion = "dashboard.grafana.app/v2"
	Kind       = "Dashboard"
)

// folderAnnotation names the folder of a Grafana resource by its uid.
const folderAnnotation = "grafana.app/folder"

// Resource returns the dashboard as a dashboard.grafana.app/v2 resource in JSON, for Grafana 13 and its tools. A folder's
// uid puts it there; without one it goes to the top.
func (d Dashboard) Resource(folderUID string) ([]byte, error) {
	m := resource.Manifest{
		ApiVersion: APIVersion, Kind: Kind, Spec: resourceSpec(d.board),
		Metadata: resource.Metadata{Name: d.UID, Labels: map[string]string{"app.kubernetes.io/name": Tag}},
	}
	if folderUID != "" {
		m.Metadata.Annotations = map[string]string{folderAnnotation: folderUID}
	}
	return indented(m, "dashboard "+d.UID)
}

func resourceSpec(b board) dashboardv2.Dashboard {
	made := *dashboardv2.NewDashboard()
	made.Title, made.Description = b.title, &b.about
	made.Tags = []string{Tag}
	made.Editable = new(false)
	made.CursorSync = dashboardv2.DashboardCursorSyncCrosshair
	made.TimeSettings.From, made.TimeSettings.To, made.TimeSettings.AutoRefresh = openFrom, openTo, refreshRate
	made.Variables = resourceVariables()
	made.Annotations = []dashboardv2.AnnotationQueryKind{{Kind: "AnnotationQuery", Spec: dashboardv2.AnnotationQuerySpec{
		Name: alertsAnnotation, Enable: true, IconColor: colourBad,
		Query: prometheusQuery(map[string]any{"expr": alertsExpr(), "refId": "Anno"}),
		LegacyOptions: map[string]any{
			"expr": alertsExpr(), "step": "60s", "titleFormat": "{{alertname}}", "textFormat": "{{account}}/{{queue_name}}", "tagKeys": "severity",
		},
	}}}
	for _, l := range b.links {
		made.Links = append(made.Links, dashboardv2.DashboardLink{
			Title: l.title, Type: dashboardv2.DashboardLinkTypeLink, Icon: l.icon(), Tooltip: l.about, Url: new(l.url), Tags: []string{},
			TargetBlank: l.outside, IncludeVars: !l.outside, KeepTime: !l.outside,
		})
	}
	rows := dashboardv2.RowsLayoutSpec{Rows: []dashboardv2.RowsLayoutRowKind{}}
	for _, r := range b.rows {
		grid := dashboardv2.GridLayoutSpec{Items: []dashboardv2.GridLayoutItemKind{}}
		for _, p := range r.panels {
			name := "panel-" + strconv.Itoa(p.id)
			made.Elements[name] = dashboardv2.Element{PanelKind: p.resource()}
			grid.Items = append(grid.Items, dashboardv2.GridLayoutItemKind{Kind: "GridLayoutItem", Spec: dashboardv2.GridLayoutItemSpec{
				X: int64(p.x), Y: int64(p.y), Width: int64(p.w), Height: int64(p.h),
				Element: dashboardv2.ElementReference{Kind: "ElementReference", Name: name},
			}})
		}
		rows.Rows = append(rows.Rows, dashboardv2.RowsLayoutRowKind{Kind: "RowsLayoutRow", Spec: dashboardv2.RowsLayoutRowSpec{
			Title: new(r.title), Collapse: new(false),
			Layout: dashboardv2.GridLayoutKindOrAutoGridLayoutKindOrTabsLayoutKindOrRowsLayoutKind{
				GridLayoutKind: &dashboardv2.GridLayoutKind{Kind: "GridLayout", Spec: grid},
			},
		}})
	}
	made.Layout.RowsLayoutKind = &dashboardv2.RowsLayoutKind{Kind: "RowsLayout", Spec: rows}
	return made
}

// prometheusQuery is a query of the chosen data source.
func prometheusQuery(spec any) dashboardv2.DataQueryKind {
	return dashboardv2.DataQueryKind{
		Kind: "DataQuery", Group: "prometheus", Version: "v0",
		Datasource: &dashboardv2.Dashboardv2DataQueryKindDatasource{Name: new("${" + varDatasource + "}")}, Spec: spec,
	}
}

func resourceVariables() []dashboardv2.VariableKind {
	text := func(s string) dashboardv2.StringOrArrayOfString { return dashboardv2.StringOrArrayOfString{String: &s} }
	query := func(name, label, about, expr string) dashboardv2.VariableKind {
		return dashboardv2.VariableKind{QueryVariableKind: &dashboardv2.QueryVariableKind{Kind: "QueryVariable", Spec: dashboardv2.QueryVariableSpec{
			Name: name, Label: &label, Description: &about, Definition: &expr,
			Query: prometheusQuery(map[string]any{"query": expr, "refId": "Variable-" + name}),
			Current: dashboardv2.VariableOption{
				Selected: new(true),
				Text:     dashboardv2.StringOrArrayOfString{ArrayOfString: []string{"All"}},
				Value:    dashboardv2.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
			},
			Options: []dashboardv2.VariableOption{}, Multi: true, IncludeAll: true, AllValue: new(allValue), AllowCustomValue: true,
			Hide: dashboardv2.VariableHideDontHide, Refresh: dashboardv2.VariableRefreshOnTimeRangeChanged, Sort: dashboardv2.VariableSortNaturalAsc,
		}}}
	}
	return []dashboardv2.VariableKind{
		{DatasourceVariableKind: &dashboardv2.DatasourceVariableKind{Kind: "DatasourceVariable", Spec: dashboardv2.DatasourceVariableSpec{
			Name: varDatasource, Label: new(datasourceLabel), Description: new(datasourceAbout), PluginId: "prometheus",
			Current: dashboardv2.VariableOption{Text: text("default"), Value: text("default")}, Options: []dashboardv2.VariableOption{},
			Hide: dashboardv2.VariableHideDontHide, Refresh: dashboardv2.VariableRefreshOnDashboardLoad, AllowCustomValue: true,
		}}},
		query(varAccount, accountLabel, accountAbout, accountsQuery),
		query(varQueue, queueLabel, queueAbout, queuesQuery),
	}
}

func (p panel) resource() *dashboardv2.PanelKind {
	group := dashboardv2.QueryGroupSpec{Queries: []dashboardv2.PanelQueryKind{}, Transformations: []dashboardv2.TransformationKind{}}
	for i, t := range p.targets {
		q := t.query(i)
		q.RefId = nil // it is the panel query's
		group.Queries = append(group.Queries, dashboardv2.PanelQueryKind{Kind: "PanelQuery", Spec: dashboardv2.PanelQuerySpec{
			RefId: refID(i), Query: prometheusQuery(q),
		}})
	}
	for _, t := range p.transforms {
		group.Transformations = append(group.Transformations, dashboardv2.TransformationKind{
			Kind: "Transformation", Group: t.id, Spec: dashboardv2.TransformationSpec{Options: t.options},
		})
	}
	viz := dashboardv2.VizConfigKind{Kind: "VizConfig", Group: p.plugin, Spec: dashboardv2.VizConfigSpec{
		Options: p.options, FieldConfig: dashboardv2.FieldConfigSource{Overrides: []dashboardv2.Dashboardv2FieldConfigSourceOverrides{}},
	}}
	if p.plugin != pluginText {
		viz.Spec.FieldConfig = p.resourceField()
	}
	return &dashboardv2.PanelKind{Kind: "Panel", Spec: dashboardv2.PanelSpec{
		Id: float64(p.id), Title: p.title, Description: &p.about, Links: []dashboardv2.DataLink{},
		Data: dashboardv2.QueryGroupKind{Kind: "QueryGroup", Spec: group}, VizConfig: viz,
	}}
}

func (p panel) resourceField() dashboardv2.FieldConfigSource {
	f := p.field
	d := dashboardv2.FieldConfig{Unit: &f.unit, Decimals: f.decimals, Min: f.min, Max: f.max, Custom: p.custom}
	if f.empty != "" {
		d.NoValue = &f.empty
	}
	mode, fixed := p.colouring()
	d.Color = &dashboardv2.FieldColor{Mode: dashboardv2.FieldColorModeId(mode), FixedColor: fixed}
	if len(f.steps) > 0 {
		d.Thresholds = &dashboardv2.ThresholdsConfig{Mode: dashboardv2.ThresholdsModeAbsolute}
		for i, s := range f.steps {
			t := dashboardv2.Threshold{Color: s.colour}
			if i > 0 {
				t.Value = new(s.from)
			}
			d.Thresholds.Steps = append(d.Thresholds.Steps, t)
		}
	}
	for i, v := range f.values {
		result := dashboardv2.ValueMappingResult{Text: new(v.text), Index: new(int32(i))}
		if v.colour != "" {
			result.Color = new(v.colour)
		}
		d.Mappings = append(d.Mappings, dashboardv2.ValueMapping{ValueMap: &dashboardv2.ValueMap{
			Type: dashboardv2.MappingTypeValue, Options: map[string]dashboardv2.ValueMappingResult{v.key(): result},
		}})
	}
	for _, l := range p.links {
		d.Links = append(d.Links, map[string]any{"title": l.title, "url": l.url, "targetBlank": l.outside})
	}
	overrides := []dashboardv2.Dashboardv2FieldConfigSourceOverrides{}
	for _, o := range p.overrides {
		made := dashboardv2.Dashboardv2FieldConfigSourceOverrides{
			Matcher: dashboardv2.MatcherConfig{Id: o.matcher, Options: o.of}, Properties: []dashboardv2.DynamicConfigValue{},
		}
		for _, s := range o.set {
			made.Properties = append(made.Properties, dashboardv2.DynamicConfigValue{Id: s.id, Value: s.value})
		}
		overrides = append(overrides, made)
	}
	return dashboardv2.FieldConfigSource{Defaults: d, Overrides: overrides}
}

package dashboards

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/text"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// Grafana's names of the visualizations used.
const (
	pluginStat     = "stat"
	pluginSeries   = "timeseries"
	pluginTable    = "table"
	pluginHeatmap  = "heatmap"
	pluginTimeline = "state-timeline"
	pluginBarGauge = "bargauge"
	pluginText     = "text"
)

// lastValue reduces a series to its one value.
func lastValue() common.ReduceDataOptions {
	return common.ReduceDataOptions{Values: new(false), Calcs: []string{"last"}, Fields: new("")}
}

// newStat returns a panel of one big number, as it is at the end of the time shown. It is asked for that moment alone: the
// last value of a series that ended long ago would look like one of now. What was before is in the panels over time.
func newStat(id int, title, about string) panel {
	o := stat.NewOptions()
	o.ReduceOptions = lastValue()
	o.ColorMode, o.GraphMode = common.BigValueColorModeValue, common.BigValueGraphModeNone
	o.Orientation = common.VizOrientationAuto
	return panel{id: id, plugin: pluginStat, title: title, about: about, w: 3, h: 4, options: o, field: field{unit: units.Short}}
}

// light turns a stat into a signal: the whole panel takes the colour.
func (p panel) light() panel {
	o := *p.options.(*stat.Options)
	o.ColorMode = common.BigValueColorModeBackground
	p.options = &o
	return p
}

// newSeries returns a panel of lines over time. The tooltip shows all of them, the largest first.
func newSeries(id int, title, about string) panel {
	o := timeseries.NewOptions()
	o.Legend = common.VizLegendOptions{
		DisplayMode: common.LegendDisplayModeTable, Placement: common.LegendPlacementBottom, ShowLegend: true,
		Calcs: []string{"last", "max"}, SortBy: new("Last"), SortDesc: new(true),
	}
	o.Tooltip = common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending}
	return panel{
		id: id, plugin: pluginSeries, title: title, about: about, w: 12, h: 8, options: o, custom: lines(10),
		field: field{unit: units.Short, min: new(0.)},
	}
}

func lines(fill float64) *timeseries.FieldConfig {
	return &timeseries.FieldConfig{
		DrawStyle: new(common.GraphDrawStyleLine), LineWidth: new(1.), FillOpacity: &fill,
		LineInterpolation: new(common.LineInterpolationLinear), ShowPoints: new(common.VisibilityModeAuto),
		SpanNulls: &common.BoolOrFloat64{Bool: new(false)}, // a gap is a gap
	}
}

// stacked piles the series up: they are parts of a whole.
func (p panel) stacked() panel {
	c := lines(40)
	c.Stacking = &common.StackingConfig{Mode: new(common.StackingModeNormal), Group: new("A")}
	p.custom = c
	return p
}

// signed lets values fall below zero, and shows where that is.
func (p panel) signed() panel {
	c := lines(10)
	c.AxisCenteredZero = new(true)
	p.custom, p.field.min = c, nil
	return p
}

// limits draws the thresholds as lines.
func (p panel) limits() panel {
	c := *p.custom.(*timeseries.FieldConfig)
	c.ThresholdsStyle = &common.GraphThresholdsStyleConfig{Mode: common.GraphThresholdsStyleModeDashed}
	p.custom = &c
	return p
}

// dashes draws the series with those names as thin dashed lines: what others are measured against.
func (p panel) dashes(names, colour string) panel {
	return p.override(override{"byRegexp", names, []property{
		{"color", map[string]any{"mode": "fixed", "fixedColor": colour}},
		{"custom.lineStyle", common.LineStyle{Fill: new(common.LineStyleFillDash), Dash: []float64{8, 8}}},
		{"custom.fillOpacity", 0},
	}})
}

// newHeatmap returns a panel of a histogram over time.
func newHeatmap(id int, title, about, expr string) panel {
	o := heatmap.NewOptions()
	o.Color = heatmap.HeatmapColorOptions{
		Mode: new(heatmap.HeatmapColorModeScheme), Scheme: "Blues", Fill: colourInfo, Scale: new(heatmap.HeatmapColorScaleExponential),
		Exponent: 0.5, Steps: 64,
	}
	o.ShowValue = common.VisibilityModeNever
	o.YAxis.Unit = new(units.Seconds)
	o.CellValues = &heatmap.CellValues{Unit: new(units.MessagesPerSecond)}
	o.Tooltip = heatmap.HeatmapTooltip{Mode: common.TooltipDisplayModeSingle, YHistogram: new(true), ShowColorScale: new(true)}
	p := panel{id: id, plugin: pluginHeatmap, title: title, about: about, w: 12, h: 8, options: o, custom: heatmap.NewFieldConfig(), field: field{unit: units.Seconds}}
	p.targets = []target{{expr: expr, legend: "{{le}}", format: "heatmap"}}
	return p
}

// newTimeline returns a panel of states over time.
func newTimeline(id int, title, about string) panel {
	o := statetimeline.NewOptions()
	o.ShowValue = common.VisibilityModeNever
	o.Legend = common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}}
	o.Tooltip = common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone}
	return panel{id: id, plugin: pluginTimeline, title: title, about: about, w: 24, h: 6, options: o, custom: statetimeline.NewFieldConfig(), field: field{unit: units.NoUnit}}
}

// newBars returns a panel of bars, one a series, as it is now.
func newBars(id int, title, about string) panel {
	o := bargauge.NewOptions()
	o.ReduceOptions = lastValue()
	o.Orientation, o.DisplayMode = common.VizOrientationHorizontal, common.BarGaugeDisplayModeBasic
	o.Legend = common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, Calcs: []string{}}
	return panel{id: id, plugin: pluginBarGauge, title: title, about: about, w: 12, h: 8, options: o, field: field{unit: units.Short, min: new(0.)}}
}

// newText returns a panel of Markdown.
func newText(id int, title, about, markdown string) panel {
	return panel{
		id: id, plugin: pluginText, title: title, about: about, w: 24, h: 6,
		options: &text.Options{Mode: text.TextModeMarkdown, Content: markdown},
	}
}

// A column is one column of a table: a label of the rows, or a value with a query of its own.
type column struct {
	title  string
	label  string // of the rows; then there is no expression
	expr   string
	field  field
	links  []dataLink
	fill   bool // the cell takes the colour, not the text
	width  int
	hidden bool
}

// newTable returns a panel with a row for every combination of the label columns, sorted by the named column.
func newTable(id int, title, about, sortBy string, descending bool, columns ...column) panel {
	o := table.NewOptions()
	o.SortBy = []common.TableSortByFieldState{{DisplayName: sortBy, Desc: &descending}}
	// Grafana's own defaults say null here, which its strict decoder refuses.
	o.Footer = &common.TableFooterOptions{Reducer: []string{}, CountRows: new(false)}
	p := panel{
		id: id, plugin: pluginTable, title: title, about: about, w: 24, h: 10, options: o,
		custom: table.NewFieldConfig(), field: field{unit: units.Short},
	}
	values := 0
	for _, c := range columns {
		if c.expr != "" {
			values++
		}
	}
	renamed, order, excluded := map[string]string{}, map[string]int{}, map[string]bool{"Time": true}
	for i, c := range columns {
		name := c.label
		if c.expr != "" {
			name = "Value #" + refID(len(p.targets))
			if values == 1 {
				name = "Value" // Grafana numbers them only when there are several
			}
			p.targets = append(p.targets, target{expr: c.expr, instant: true, format: "table"})
		}
		renamed[name], order[name] = c.title, i
		if c.hidden {
			excluded[name] = true
		}
		p.overrides = append(p.overrides, c.override())
	}
	p.transforms = []transform{
		{"merge", map[string]any{}},
		{"organize", map[string]any{"renameByName": renamed, "indexByName": order, "excludeByName": excluded}},
	}
	return p
}

func (c column) override() override {
	set := []property{}
	add := func(id string, v any) { set = append(set, property{id, v}) }
	if c.field.unit != "" {
		add("unit", c.field.unit)
	}
	if c.field.decimals != nil {
		add("decimals", *c.field.decimals)
	}
	if len(c.field.steps) > 0 {
		add("thresholds", map[string]any{"mode": "absolute", "steps": plainSteps(c.field.steps)})
		add("color", map[string]any{"mode": "thresholds"})
	}
	if c.field.colour != "" {
		add("color", map[string]any{"mode": "fixed", "fixedColor": c.field.colour})
	}
	if len(c.field.values) > 0 {
		add("mappings", plainValues(c.field.values))
	}
	if c.field.empty != "" {
		add("noValue", c.field.empty)
	}
	switch {
	case c.fill:
		add("custom.cellOptions", common.TableColoredBackgroundCellOptions{
			Type: common.TableCellDisplayModeColorBackground, Mode: new(common.TableCellBackgroundDisplayModeBasic),
		})
	case len(c.field.steps) > 0 || c.field.colour != "":
		add("custom.cellOptions", common.TableColorTextCellOptions{Type: common.TableCellDisplayModeColorText})
	}
	if c.width > 0 {
		add("custom.width", c.width)
	}
	if len(c.links) > 0 {
		links := make([]map[string]any, len(c.links))
		for i, l := range c.links {
			links[i] = map[string]any{"title": l.title, "url": l.url, "targetBlank": l.outside}
		}
		add("links", links)
	}
	return override{"byName", c.title, set}
}

// plainSteps and plainValues are thresholds and mappings as overrides take them.
func plainSteps(steps []step) []map[string]any {
	plain := make([]map[string]any, len(steps))
	for i, s := range steps {
		plain[i] = map[string]any{"color": s.colour, "value": s.from}
		if i == 0 {
			plain[i]["value"] = nil
		}
	}
	return plain
}

func plainValues(values []value) []map[string]any {
	plain := make([]map[string]any, len(values))
	for i, v := range values {
		result := map[string]any{"text": v.text, "index": i}
		if v.colour != "" {
			result["color"] = v.colour
		}
		plain[i] = map[string]any{"type": "value", "options": map[string]any{v.key(): result}}
	}
	return plain
}

// paragraphs joins lines of Markdown.
func paragraphs(lines ...string) string { return strings.Join(lines, "\n\n") }

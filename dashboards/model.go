package dashboards

import (
	"fmt"
	"slices"
	"strconv"
)

// gridWidth is how many columns Grafana's grid has.
const gridWidth = 24

// A board is a dashboard before it takes one of Grafana's shapes.
type board struct {
	uid, title, about string
	rows              []row
	links             []boardLink // to the other dashboards and the page
}

// A row is a heading and the panels under it.
type row struct {
	title  string
	panels []panel
}

// A boardLink is a link at the top of a dashboard.
type boardLink struct {
	title, about, url string
	outside           bool // leaves Grafana: takes no variables and no time along
}

// A panel's id never changes and is never given to another panel: links and alerts name it.
type panel struct {
	id           int
	plugin       string // Grafana's name of the visualization
	title, about string
	x, y, w, h   int // x and y, within the row, are place's to set
	targets      []target
	transforms   []transform
	links        []dataLink
	field        field
	overrides    []override
	options      any // of the visualization, in the SDK's types, which both shapes share
	custom       any
}

type target struct {
	expr, legend string
	instant      bool
	exemplar     bool
	format       string // "" for time series, or table, heatmap
}

type transform struct {
	id      string
	options any
}

// A dataLink is followed from a value; its URL may use Grafana's field variables.
type dataLink struct {
	title, url string
	outside    bool
}

// A field is how values are shown, unless an override says otherwise.
type field struct {
	unit     string
	decimals *float64
	min, max *float64
	steps    []step
	values   []value
	colour   string // a fixed one; "" by thresholds when there are steps, otherwise by the series' name
	empty    string // what is shown when there is nothing
}

// A step is a colour from a value on; the first begins at minus infinity.
type step struct {
	from   float64
	colour string
}

// A value is a number with a name and a colour.
type value struct {
	number float64
	text   string
	colour string // "" as without the name
}

// key is the number as value mappings spell it.
func (v value) key() string { return strconv.FormatFloat(v.number, 'g', -1, 64) }

// An override is for the fields that a matcher picks.
type override struct {
	matcher string // byName, byRegexp
	of      string
	set     []property
}

type property struct {
	id    string
	value any
}

func refID(i int) string { return string(rune('A' + i)) }

// finish adds to a board what all have: links and places.
func finish(c Config, all []board, b board) board {
	for _, other := range all {
		if other.uid != b.uid {
			b.links = append(b.links, boardLink{title: other.title, about: other.about, url: "/d/" + other.uid})
		}
	}
	if c.PageURL != "" {
		b.links = append(b.links, boardLink{title: "The page", about: "qwatch's own page, which needs no Prometheus.", url: c.PageURL, outside: true})
	}
	for i := range b.rows {
		b.rows[i].panels = place(b.rows[i].panels)
	}
	return b
}

// place puts each panel where it fits highest, then leftmost, in the order given.
func place(panels []panel) []panel {
	placed := slices.Clone(panels)
	var heights [gridWidth]int
	for i := range placed {
		p := &placed[i]
		if p.w < 1 || p.w > gridWidth || p.h < 1 {
			panic(fmt.Sprintf("dashboards: panel %d is %d by %d", p.id, p.w, p.h)) // a mistake in this package
		}
		best := -1
		for x := 0; x+p.w <= gridWidth; x++ {
			if y := slices.Max(heights[x : x+p.w]); best < 0 || y < best {
				best, p.x, p.y = y, x, y
			}
		}
		for x := p.x; x < p.x+p.w; x++ {
			heights[x] = p.y + p.h
		}
	}
	return placed
}

// height is how many lines the row's panels take.
func (r row) height() int {
	h := 0
	for _, p := range r.panels {
		h = max(h, p.y+p.h)
	}
	return h
}

//go:fix inline
// The methods below return the panel with one thing more.

func (p panel) size(w, h int) panel {
	p.w, p.h = w, h
	return p
}

func (p panel) query(expr, legend string) panel {
	p.targets = append(slices.Clone(p.targets), target{expr: expr, legend: legend, instant: p.plugin == pluginBarGauge || p.plugin == pluginStat})
	return p
}

func (p panel) withExemplars() panel {
	p.targets = slices.Clone(p.targets)
	for i := range p.targets {
		p.targets[i].exemplar = true
	}
	return p
}

func (p panel) unit(u string) panel {
	p.field.unit = u
	return p
}

func (p panel) decimals(n int) panel {
	p.field.decimals = new(float64(n))
	return p
}

func (p panel) between(least, most float64) panel {
	p.field.min, p.field.max = &least, &most
	return p
}

func (p panel) steps(s ...step) panel {
	p.field.steps = s
	return p
}

func (p panel) values(v []value) panel {
	p.field.values = v
	return p
}

func (p panel) colour(c string) panel {
	p.field.colour = c
	return p
}

func (p panel) empty(text string) panel {
	p.field.empty = text
	return p
}

func (p panel) link(l ...dataLink) panel {
	p.links = append(slices.Clone(p.links), l...)
	return p
}

// paint gives the series whose names match their colours.
func (p panel) paint(colours ...painted) panel {
	p.overrides = slices.Clone(p.overrides)
	for _, c := range colours {
		p.overrides = append(p.overrides, override{"byRegexp", c.names, []property{
			{"color", map[string]any{"mode": "fixed", "fixedColor": c.colour}},
		}})
	}
	return p
}

// painted is a colour for the series whose whole names match a regular expression.
type painted struct{ names, colour string }

func (p panel) override(o ...override) panel {
	p.overrides = append(slices.Clone(p.overrides), o...)
	return p
}

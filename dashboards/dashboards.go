package dashboards

import (
	"errors"
	"fmt"
	"net/url"
)

// The uids of the dashboards. They are public: links and alerts name them.
const (
	UIDFleet     = "qwatch-fleet"
	UIDQueue     = "qwatch-queue"
	UIDConsumers = "qwatch-consumers"
	UIDPoison    = "qwatch-poison"
	UIDSelf      = "qwatch-self"
)

// Tag is on every dashboard.
const Tag = "qwatch"

// Config says what is generated. The zero value is good.
type Config struct {
	// Compact leaves out what reads series that the compact set does not have (watch.series: compact).
	Compact bool
	// PageURL is where people reach qwatch's own page, http or https; every dashboard then links to it.
	// Default: no link.
	PageURL string
	// RunbookURL is the address below which the alerts' runbooks are, one page an alert called <alert>.md; a firing
	// alert's name then links to its page. Default: no link.
	RunbookURL string
}

// Validate returns every fault of the configuration, joined.
func (c Config) Validate() error {
	return errors.Join(checkURL("PageURL", c.PageURL), checkURL("RunbookURL", c.RunbookURL))
}

func checkURL(what, s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s %q is not an absolute http or https URL", what, s)
	}
	return nil
}

// A Dashboard is a generated dashboard. It is not changed after Generate returns it, so it may be shared.
type Dashboard struct {
	// UID is one of the UID constants; Grafana knows the dashboard by it.
	UID string
	// Title is what people see.
	Title string
	// About says what the dashboard is for, in a sentence.
	About string

	board board
}

// Generate returns the dashboards, the fleet's first. Its error is the configuration's.
func Generate(c Config) ([]Dashboard, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("generate dashboards: %w", err)
	}
	boards := []board{fleetBoard(c), queueBoard(c), consumersBoard(c), poisonBoard(c), selfBoard(c)}
	made := make([]Dashboard, len(boards))
	for i, b := range boards {
		made[i] = Dashboard{UID: b.uid, Title: b.title, About: b.about, board: finish(c, boards, b)}
	}
	return made, nil
}

// A Query is one expression of a panel, as Grafana gets it: with its $-variables.
type Query struct {
	Panel   string // title
	PanelID int
	RefID   string
	Expr    string
	Instant bool // asked for one point in time; otherwise over the dashboard's range
}

// Queries returns every expression of the dashboard's panels, in their order.
func (d Dashboard) Queries() []Query {
	var all []Query
	for _, r := range d.board.rows {
		for _, p := range r.panels {
			for i, t := range p.targets {
				all = append(all, Query{Panel: p.title, PanelID: p.id, RefID: refID(i), Expr: t.expr, Instant: t.instant})
			}
		}
	}
	return all
}

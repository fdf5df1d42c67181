package web

import (
	"fmt"
	"strconv"
	"time"

	"github.com/qwatch/qwatch/internal/story"
)

// The models are what the page shows, in words. The templates write them into the page, and its script
// fetches them to bring the page up to date: both show the same.

// fleetModel is what the fleet's page shows.
type fleetModel struct {
	At       time.Time      `json:"at"`
	Title    string         `json:"title"`
	Heading  string         `json:"heading"` // of the causes
	Mood     string         `json:"mood"`    // calm, waiting or troubled
	Causes   []findingModel `json:"causes"`
	Tiles    []tile         `json:"tiles"`
	Chips    []chip         `json:"chips"`
	Columns  []column       `json:"columns"`
	Order    string         `json:"order"`
	Found    string         `json:"found"`
	Matched  int            `json:"matched"`
	Offset   int            `json:"offset"`
	Rows     []rowModel     `json:"rows"`
	Expiring []expiryModel  `json:"expiring"`
	Clusters []clusterModel `json:"clusters"`
	Events   []eventModel   `json:"events"`
}

// queueModel is what a queue's page shows.
type queueModel struct {
	At       time.Time             `json:"at"`
	Badge    badge                 `json:"badge"`
	Headline string                `json:"headline"`
	Facts    string                `json:"facts"`
	Findings []findingModel        `json:"findings"`
	Numbers  []tile                `json:"numbers"`
	Charts   []chart               `json:"charts"`
	Consumer []string              `json:"consumer"`
	Steered  bool                  `json:"steered"` // there is a consumer here to steer
	Paused   bool                  `json:"paused"`
	Events   []eventModel          `json:"events"`
	Clusters []clusterModel        `json:"clusters"`
	Poison   string                `json:"poison"` // the poison queue's own name
	Work     *workModel            `json:"work"`   // what an operator does to it at the moment
	Advice   []recommendationModel `json:"advice"`
	Measured string                `json:"measured"`
	Evidence *evidenceModel        `json:"evidence"`
}

// link is a queue with the address of its page.
type link struct {
	Text string `json:"text"`
	Path string `json:"path"`
}

func linkTo(n story.Name) link { return link{n.String(), pathOf(n.Account, n.Queue)} }

type findingModel struct {
	Badge    badge        `json:"badge"`
	Title    string       `json:"title"`
	Evidence []string     `json:"evidence"`
	Next     []story.Step `json:"next"`
	Links    []link       `json:"links"`
}

func findingOf(f story.Finding, names []story.Name) findingModel {
	m := findingModel{Badge: badge{f.Level, levelWord(f.Level)}, Title: f.Title, Evidence: f.Evidence, Next: f.Next}
	for _, n := range names[:min(len(names), 8)] {
		m.Links = append(m.Links, linkTo(n))
	}
	return m
}

// cell is a number as it is shown.
type cell struct {
	Text  string `json:"text"`
	Title string `json:"title,omitempty"`
	Floor bool   `json:"floor,omitempty"`
	Alarm bool   `json:"alarm,omitempty"`
}

func cellOf(n story.Number, text func(int64) string) cell {
	if !n.Known {
		return cell{Text: "–", Title: "not known"}
	}
	return cell{Text: text(n.Value), Title: "read " + ago(n.AgeSeconds), Floor: n.Floor}
}

func durationOf(seconds int64) string { return story.Short(time.Duration(seconds) * time.Second) }

type rowModel struct {
	Account  string `json:"account"`
	Queue    string `json:"queue"`
	Path     string `json:"path"`
	Sub      string `json:"sub,omitempty"`
	Badge    badge  `json:"badge"`
	Reason   string `json:"reason,omitempty"`
	Messages cell   `json:"messages"`
	Line     string `json:"line,omitempty"` // the trend, as a path of SVG
	Area     string `json:"area,omitempty"`
	Oldest   cell   `json:"oldest"`
	Poison   cell   `json:"poison"`
	Forecast string `json:"forecast"`
	Consumer string `json:"consumer"`
	Read     string `json:"read"`
}

func rowModelOf(r fleetRow) rowModel {
	m := rowModel{
		Account: r.Account, Queue: r.Queue, Path: pathOf(r.Account, r.Queue), Sub: r.Team, Badge: rowBadge(r.Row), Reason: words(r.Reason),
		Messages: cellOf(r.Messages, story.Digits), Oldest: cellOf(r.Oldest, durationOf), Poison: cellOf(r.Row.Poison, story.Digits),
		Forecast: forecast(r.Row), Consumer: consumerText(r.Row), Read: readAge(r.ReadSeconds),
	}
	m.Poison.Alarm = r.Row.Poison.Value > 0
	if r.Tier > 0 {
		if m.Sub != "" {
			m.Sub += " · "
		}
		m.Sub += "tier " + strconv.Itoa(r.Tier)
	}
	if len(r.Trend) > 1 {
		m.Line, m.Area = curve(len(r.Trend), 100, 24, func(i int) (x, y float64) { return float64(i), float64(r.Trend[i]) })
	}
	return m
}

type expiryModel struct {
	In   string `json:"in"`
	Link link   `json:"link"`
	Text string `json:"text"`
}

func expiryOf(e story.Expiry) expiryModel {
	m := expiryModel{In: secondsText(e.InSeconds), Link: linkTo(e.Name), Text: "the first of its messages"}
	if e.Messages.Known {
		m.Text = "the first of " + story.Count(e.Messages.Value, "message")
	}
	if e.Poison {
		m.Text += " on its poison queue"
	}
	return m
}

type clusterModel struct {
	Messages string    `json:"messages"`
	Link     link      `json:"link"`
	Category string    `json:"category"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
}

func clustersOf(all []story.Cluster) []clusterModel {
	out := make([]clusterModel, 0, len(all))
	for _, c := range all {
		out = append(out, clusterModel{story.Digits(c.Messages), linkTo(story.Name{Account: c.Account, Queue: c.Queue}), words(c.Category), c.Reason, c.Since, c.Last})
	}
	return out
}

type eventModel struct {
	At    time.Time   `json:"at"`
	Level story.Level `json:"level"`
	Link  *link       `json:"link,omitempty"`
	Text  string      `json:"text"`
}

// eventsOf puts events into words; without links on the page of the queue itself.
func eventsOf(all []story.Event, own story.Name) []eventModel {
	out := make([]eventModel, 0, len(all))
	for _, e := range all {
		m := eventModel{At: e.At, Level: e.Level, Text: e.Text}
		n := story.Name{Account: e.Account, Queue: e.Queue}
		switch {
		case e.Queue != "" && n != own:
			m.Link = new(linkTo(n))
		case e.Queue == "" && e.Account != "":
			m.Text = e.Account + " " + m.Text
		}
		if e.By != "" {
			m.Text += " by " + e.By
		}
		out = append(out, m)
	}
	return out
}

type recommendationModel struct {
	Setting string `json:"setting"`
	Now     string `json:"now"`
	Badge   badge  `json:"badge"`
	Why     string `json:"why"`
}

type evidenceModel struct {
	Title string      `json:"title"`
	Rows  []sampleRow `json:"rows"`
}

type sampleRow struct {
	At    time.Time `json:"at"`
	Cells []string  `json:"cells"`
}

func (h *handler) fleetModel(q fleetQuery) fleetModel {
	v := h.fleetView(q)
	m := fleetModel{
		At: v.At, Title: "qwatch", Heading: causesTitle(v), Mood: mood(v), Tiles: tiles(v.Totals), Chips: chips(v.Totals, q), Columns: columns(q),
		Order: order(q), Found: matched(v), Matched: v.Matched, Offset: v.Offset, Rows: make([]rowModel, 0, len(v.Rows)),
		Causes: []findingModel{}, Expiring: []expiryModel{}, Clusters: clustersOf(v.Clusters), Events: eventsOf(v.Events, story.Name{}),
	}
	if n := len(v.Causes) + v.More; n > 0 {
		m.Title = fmt.Sprintf("(%d) qwatch", n)
	}
	for i := range v.Causes {
		m.Causes = append(m.Causes, findingOf(v.Causes[i].Finding, v.Causes[i].Queues))
	}
	for _, r := range v.Rows {
		m.Rows = append(m.Rows, rowModelOf(r))
	}
	for _, e := range v.Expiring {
		m.Expiring = append(m.Expiring, expiryOf(e))
	}
	return m
}

func queueModelOf(s *story.Story) queueModel {
	m := queueModel{
		At: s.At, Badge: rowBadge(s.Row), Headline: s.Headline, Facts: facts(s), Findings: []findingModel{}, Numbers: numbers(s), Charts: charts(s),
		Consumer: consumerFacts(s), Steered: s.Row.Consumer != "", Paused: s.Row.Consumer == "paused",
		Events: eventsOf(s.Events, s.Row.Name), Clusters: clustersOf(s.Clusters), Poison: s.PoisonName, Advice: []recommendationModel{},
	}
	for _, f := range s.Findings {
		m.Findings = append(m.Findings, findingOf(f, nil))
	}
	if a := s.Advice; a != nil {
		for _, r := range a.Settings {
			m.Advice = append(m.Advice, recommendationModel{r.Setting, r.Now, verdict(r), r.Why})
		}
		m.Measured = "Measured in this process for " + story.Duration(s.At.Sub(a.Since)) + ": " + story.Count(a.Handled, "handler call")
		if a.Handled > 0 {
			m.Measured += ", half within " + secondsText(a.P50Seconds) + ", 99 of 100 within " + secondsText(a.P99Seconds)
		}
		m.Measured += "."
	}
	if e := s.Evidence; e != nil {
		m.Evidence = &evidenceModel{Title: fmt.Sprintf("Evidence: %s, rule %s", story.Count(int64(len(e.Samples)), "sample"), words(string(e.Rule)))}
		for i := range e.Samples {
			m.Evidence.Rows = append(m.Evidence.Rows, sampleOf(&e.Samples[len(e.Samples)-1-i]))
		}
	}
	return m
}

package web

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/poison"
)

// pageFuncs are what the templates call.
func pageFuncs() template.FuncMap {
	return template.FuncMap{
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock": clock, "words": words, "mark": mark,
		"accountPath": func(account string) string {
			return fleetQuery{Account: account, Limit: defaultRows}.with(func(*fleetQuery) {})
		},
		"inc":        func(n int) int { return n + 1 },
		"categories": func() string { return strings.Join(categoryNames(), " ") },
	}
}

// sampleOf writes a sample as a row of the evidence.
func sampleOf(s *collector.Sample) sampleRow {
	row := sampleRow{At: s.At.UTC()}
	if s.Failed != "" {
		row.Cells = []string{"–", "–", "–", "–", "–", "–", "–", "–", words(string(s.Failed))}
		return row
	}
	visible := optional(s.Visible != nil, func() string {
		if *s.Visible >= 32 {
			return fmt.Sprintf("%d+", *s.Visible)
		}
		return fmt.Sprint(*s.Visible)
	})
	row.Cells = []string{
		optional(s.Messages != nil, func() string { return story.Digits(*s.Messages) }), visible, fmt.Sprint(s.Left + s.Taken), story.Digits(s.Finished),
		story.Digits(s.Gained), fmt.Sprint(s.Returned), fmt.Sprint(s.Expired), story.Duration(time.Duration(s.OldestAgeSeconds) * time.Second), "",
	}
	return row
}

// words writes a label's value for people.
func words(label string) string { return strings.ReplaceAll(label, "_", " ") }

func optional(known bool, text func() string) string {
	if !known {
		return "–"
	}
	return text()
}

// clock writes a time as those who cannot run the script read it; the script writes it in local time.
func clock(t time.Time) string {
	t = t.UTC()
	if time.Since(t) < 24*time.Hour && time.Until(t) < 24*time.Hour {
		return t.Format("15:04:05") + " UTC"
	}
	return t.Format("2 Jan 15:04") + " UTC"
}

func secondsText(s float64) string { return story.Duration(time.Duration(s * float64(time.Second))) }

// ago writes an age as a moment.
func ago(seconds float64) string {
	if seconds < 1 {
		return "just now"
	}
	return secondsText(seconds) + " ago"
}

// badge is a word with a level, told by shape and colour.
type badge struct {
	Level story.Level `json:"level"`
	Text  string      `json:"text"`
}

func mark(l story.Level) string {
	switch l {
	case story.LevelBad:
		return "▲"
	case story.LevelWarn:
		return "◆"
	case story.LevelGood:
		return "●"
	default:
		return "○"
	}
}

func levelWord(l story.Level) string {
	switch l {
	case story.LevelBad:
		return "act"
	case story.LevelWarn:
		return "look"
	case story.LevelGood:
		return "fine"
	case story.LevelInfo:
		return "hint"
	default:
		return "unsure"
	}
}

func rowBadge(r story.Row) badge {
	if r.Status == "" {
		return badge{story.LevelOf(r.PoisonStatus), cmp.Or(r.PoisonStatus, "unknown")}
	}
	if r.BreakerOpen {
		return badge{story.LevelBad, "handler down"}
	}
	return badge{story.LevelOf(r.Status), r.Status}
}

func verdict(r story.Recommendation) badge {
	switch r.Verdict {
	case story.VerdictKeep:
		return badge{story.LevelGood, "keep " + r.Now}
	case story.VerdictTooFew:
		return badge{story.LevelUnknown, "too few samples"}
	default:
		return badge{story.LevelWarn, string(r.Verdict) + " to " + r.Advised}
	}
}

func causesTitle(v fleetView) string {
	switch n := int64(len(v.Causes) + v.More); {
	case v.Totals.Queues == 0:
		return "Nothing is watched"
	case n == 0:
		return calmTitle(v.Totals)
	case v.More > 0:
		return fmt.Sprintf("%s want attention; the worst %d", story.Count(n, "thing"), len(v.Causes))
	case n == 1:
		return "One thing wants attention"
	default:
		return story.Count(n, "thing") + " want attention"
	}
}

// mood is how the page's first line looks: calm only when every queue has been judged.
func mood(v fleetView) string {
	switch {
	case len(v.Causes) > 0:
		return "troubled"
	case v.Totals.Statuses[collector.StatusUnknown.String()] > 0, v.Totals.Queues == 0:
		return "waiting"
	default:
		return "calm"
	}
}

// calmTitle says that nothing wants attention, and no more than is known.
func calmTitle(t story.Totals) string {
	text := "Nothing is wrong with " + story.Count(int64(t.Queues), "queue")
	if n := t.Statuses[collector.StatusUnknown.String()]; n > 0 {
		text = "Nothing wrong was seen; it is too early to say how " + story.Count(int64(n), "queue") + isOrAre(int64(n))
	}
	if t.Poison > 0 {
		text += "; " + story.Count(t.Poison, "message") + isOrAre(t.Poison) + " dead-lettered"
	}
	return text
}

func isOrAre(n int64) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// tile is a number with its name.
type tile struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note,omitempty"`
	Floor bool   `json:"floor,omitempty"`
}

func tiles(t story.Totals) []tile {
	return []tile{
		{Name: "Queues", Value: story.Digits(int64(t.Queues))},
		{Name: "Messages waiting", Value: story.Digits(t.Messages)},
		{Name: "Longest wait", Value: story.Duration(time.Duration(t.OldestSeconds) * time.Second)},
		{Name: "Dead-lettered", Value: story.Digits(t.Poison)},
		{Name: "Not read", Value: story.Digits(int64(t.Unread))},
	}
}

// chip is a filter by status.
type chip struct {
	Status string      `json:"status"`
	Name   string      `json:"name"`
	Href   string      `json:"href"`
	Count  string      `json:"count"`
	Level  story.Level `json:"level"`
	On     bool        `json:"on,omitempty"`
}

func chips(t story.Totals, q fleetQuery) []chip {
	to := func(status string) string { return q.with(func(q *fleetQuery) { q.Status, q.Offset = status, 0 }) }
	out := []chip{{Name: "all", Href: to(""), Count: story.Digits(int64(t.Queues)), On: q.Status == ""}}
	for _, s := range collector.Statuses() {
		if n := t.Statuses[s.String()]; n > 0 || q.Status == s.String() {
			out = append(out, chip{s.String(), words(s.String()), to(s.String()), story.Digits(int64(n)), story.LevelOf(s.String()), q.Status == s.String()})
		}
	}
	return out
}

// column is a column of the fleet's table.
type column struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Class string `json:"class"`
	Href  string `json:"href"`
	Aria  string `json:"aria"`
}

func columns(q fleetQuery) []column {
	out := []column{
		{Key: "queue", Name: "Queue", Class: "c-queue"},
		{Key: "status", Name: "Status", Class: "c-status"},
		{Key: "messages", Name: "Messages", Class: "n c-messages"},
		{Name: "Trend", Class: "c-trend"},
		{Key: "oldest", Name: "Oldest", Class: "n c-oldest"},
		{Key: "poison", Name: "Poison", Class: "n c-poison"},
		{Key: "drain", Name: "Forecast", Class: "n c-drain"},
		{Key: "handlers", Name: "Consumer here", Class: "c-consumer"},
		{Key: "read", Name: "Read", Class: "n c-read"},
	}
	for i := range out {
		c := &out[i]
		if c.Key == "" {
			continue
		}
		text := c.Key == "queue" || c.Key == "status" || c.Key == "drain" // from a to z, the others from the highest
		c.Href = q.with(func(q *fleetQuery) {
			q.Desc = q.Sort != c.Key && !text || q.Sort == c.Key && !q.Desc
			q.Sort, q.Offset = c.Key, 0
		})
		if q.Sort == c.Key {
			c.Aria = "ascending"
			if q.Desc {
				c.Aria = "descending"
			}
		}
	}
	return out
}

func order(q fleetQuery) string {
	switch {
	case q.Sort == "":
		return "the worst first"
	case q.Desc:
		return "by " + q.Sort + ", descending"
	default:
		return "by " + q.Sort + ", ascending"
	}
}

func matched(v fleetView) string {
	if v.Matched == v.Totals.Queues {
		return story.Count(int64(v.Matched), "queue")
	}
	return story.Digits(int64(v.Matched)) + " of " + story.Count(int64(v.Totals.Queues), "queue")
}

func forecast(r story.Row) string {
	switch {
	case r.LossSeconds > 0:
		return "loss in " + durationOf(int64(r.LossSeconds))
	case r.DrainSeconds > 0:
		return "empty in " + durationOf(int64(r.DrainSeconds))
	default:
		return "–"
	}
}

func consumerText(r story.Row) string {
	if r.Consumer == "" {
		return "none here"
	}
	return fmt.Sprintf("%s %d/%d", r.Consumer, r.Handlers, r.MaxHandlers)
}

func readAge(s float64) string {
	if s < 0 {
		return "never"
	}
	if s < 1 {
		return "now"
	}
	return durationOf(int64(s))
}

func categoryNames() []string {
	var names []string
	for _, c := range poison.Categories() {
		names = append(names, string(c))
	}
	return names
}

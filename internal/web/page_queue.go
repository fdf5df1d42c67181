package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/story"
)

// curve returns the paths of a line through n points and of the area under it. A point below 0 is not
// known and leaves a gap.
func curve(n int, width, height float64, at func(i int) (x, y float64)) (line, area string) {
	first, _ := at(0)
	last, _ := at(n - 1)
	most := 1.0
	for i := range n {
		if _, y := at(i); y > most {
			most = y
		}
	}
	var l, a strings.Builder
	open, end := false, 0.0
	stop := func() {
		if open {
			fmt.Fprintf(&a, "L%.1f %.1fZ", end, height)
		}
		open = false
	}
	for i := range n {
		x, y := at(i)
		if y < 0 {
			stop()
			continue
		}
		px, py := 0.0, height-1-y/most*(height-3)
		if last > first {
			px = (x - first) / (last - first) * width
		}
		if !open {
			fmt.Fprintf(&l, "M%.1f %.1f", px, py)
			fmt.Fprintf(&a, "M%.1f %.1f", px, height)
		} else {
			fmt.Fprintf(&l, "L%.1f %.1f", px, py)
		}
		fmt.Fprintf(&a, "L%.1f %.1f", px, py)
		open, end = true, px
	}
	stop()
	return l.String(), a.String()
}

// chart is how one number of a queue went.
type chart struct {
	Name  string    `json:"name"`
	Last  string    `json:"last"`
	Most  string    `json:"most"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Label string    `json:"label"`
	Line  string    `json:"line"` // paths of SVG
	Area  string    `json:"area"`
}

func charts(s *story.Story) []chart {
	if len(s.Trend) < 2 {
		return []chart{}
	}
	duration := func(n int64) string { return story.Duration(time.Duration(n) * time.Second) }
	out := []chart{}
	for _, c := range []struct {
		name string
		of   int
		text func(int64) string
	}{{"Messages", 1, story.Digits}, {"Oldest visible", 2, duration}, {"Dead-lettered", 3, story.Digits}} {
		most, known := int64(0), false
		for _, p := range s.Trend {
			most, known = max(most, p[c.of]), known || p[c.of] >= 0
		}
		if !known {
			continue
		}
		line, area := curve(len(s.Trend), 400, 110, func(i int) (x, y float64) { return float64(s.Trend[i][0]), float64(s.Trend[i][c.of]) })
		last := "not known now"
		if n := s.Trend[len(s.Trend)-1][c.of]; n >= 0 {
			last = c.text(n)
		}
		out = append(out, chart{
			Name: c.name, Last: last, Most: c.text(most), From: time.Unix(s.Trend[0][0], 0).UTC(), To: time.Unix(s.Trend[len(s.Trend)-1][0], 0).UTC(),
			Label: fmt.Sprintf("%s over time: now %s, highest %s", c.name, last, c.text(most)), Line: line, Area: area,
		})
	}
	return out
}

// facts says what a queue is, in one line.
func facts(s *story.Story) string {
	r := s.Row
	parts := []string{"account " + r.Account}
	if r.Team != "" {
		parts = append(parts, "team "+r.Team)
	}
	if r.Tier > 0 {
		parts = append(parts, fmt.Sprintf("tier %d", r.Tier))
	}
	if s.Objective > 0 {
		parts = append(parts, "objective "+secondsText(s.Objective))
	}
	if r.Rule != "" {
		parts = append(parts, "status by rule "+words(r.Rule))
	}
	if r.ReadSeconds >= 0 {
		parts = append(parts, "read "+ago(r.ReadSeconds))
	} else {
		parts = append(parts, "never read")
	}
	return strings.Join(parts, " · ")
}

// numbers are a queue's tiles.
func numbers(s *story.Story) []tile {
	r := s.Row
	count := func(name string, n story.Number, note string) tile {
		if !n.Known {
			return tile{Name: name, Value: "–", Note: "not known"}
		}
		return tile{name, story.Digits(n.Value), strings.TrimPrefix(note+", read "+ago(n.AgeSeconds), ", "), n.Floor}
	}
	wait := func(name string, n story.Number) tile {
		t := count(name, n, "")
		if n.Known {
			t.Value = story.Duration(time.Duration(n.Value) * time.Second)
		}
		return t
	}
	out := []tile{
		count("Messages", r.Messages, "hidden ones included"), count("Visible", r.Visible, "in one peek"), count("Hidden", r.Hidden, "leased or delayed"),
		wait("Oldest visible", r.Oldest),
	}
	if s.Rates != nil {
		note := "at least, over " + secondsText(s.Rates.OverSeconds)
		out = append(out, tile{"Coming", perTime(s.Rates.InPerSecond), note, s.Rates.InPerSecond > 0}, tile{"Going", perTime(s.Rates.OutPerSecond), note, s.Rates.OutPerSecond > 0})
	}
	if r.DrainSeconds > 0 {
		out = append(out, tile{Name: "Empty in", Value: secondsText(r.DrainSeconds), Note: "at the present rate"})
	}
	if r.LossSeconds > 0 {
		out = append(out, tile{Name: "First loss in", Value: secondsText(r.LossSeconds), Note: "expires unhandled"})
	}
	if r.PoisonStatus != "" {
		out = append(out, count("Dead-lettered", r.Poison, words(r.PoisonStatus)), wait("Oldest of them", r.PoisonOldest))
	}
	return out
}

func perTime(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond >= 10:
		return fmt.Sprintf("%.0f/s", perSecond)
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	default:
		return fmt.Sprintf("%.1f/min", perSecond*60)
	}
}

// consumerFacts says who takes a queue's messages.
func consumerFacts(s *story.Story) []string {
	r := s.Row
	var out []string
	if r.Consumer == "" {
		out = append(out, "No consumer of it runs in this process.")
	} else {
		text := fmt.Sprintf("A consumer in this process is %s, with %d of %d handlers at work", r.Consumer, r.Handlers, r.MaxHandlers)
		if s.Handler != "" {
			text += "; it hands messages to " + s.Handler
		}
		out = append(out, text+".")
	}
	if r.BreakerOpen {
		out = append(out, "Its handlers fail as a whole: receiving has stopped, but for probes.")
	}
	if s.LastError != "" {
		out = append(out, "It fails to receive: "+words(s.LastError)+".")
	}
	if e := s.Evidence; e != nil {
		if e.LastProgress.IsZero() {
			out = append(out, "No message was seen to be taken, here or elsewhere, since qwatch started.")
		} else {
			out = append(out, "A message was last seen to be taken, here or elsewhere, "+ago(s.At.Sub(e.LastProgress).Seconds())+".")
		}
	}
	return out
}

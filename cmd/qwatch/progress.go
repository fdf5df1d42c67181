package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
)

// progress shows how far long work is, on one line of a terminal.
type progress struct {
	w     io.Writer // nil: nobody looks
	width int       // of the line that stands there
	doing string
	since time.Time // when doing began
	start int64     // where it began
	now   func() time.Time
}

// progress starts one. Only a terminal gets to see it.
func (c *cli) progress() *progress {
	p := &progress{now: time.Now}
	if c.stderrTerminal && c.getenv("TERM") != "dumb" {
		p.w = c.stderr
	}
	return p
}

func (p *progress) event(e triage.Event) {
	switch {
	case e.Looking != nil:
		p.show("looking", e.Looking.Done, e.Looking.Of)
	case e.Progress != nil:
		p.show("working", e.Progress.Done, e.Progress.Of)
	case e.Waiting != nil:
		p.line(fmt.Sprintf("waiting for %s that somebody hides, half a minute at most", about(*e.Waiting)))
	}
}

const (
	barWidth        = 24
	longestEstimate = 1000 * 24 * time.Hour // beyond, it is no help
)

// show draws the bar, with the rate and an estimate of the time left.
func (p *progress) show(doing string, done, of int64) {
	if doing != p.doing {
		p.doing, p.since, p.start = doing, p.now(), done
	}
	of = max(of, done)
	full := barWidth
	if of > 0 {
		full = int(float64(done) / float64(of) * barWidth)
	}
	s := fmt.Sprintf("%s [%s%s] %d/%d", doing, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, of)
	if took := p.now().Sub(p.since); took > time.Second && done > p.start {
		rate := float64(done-p.start) / took.Seconds()
		s += fmt.Sprintf("  %.4g/s", rate)
		if left := float64(of-done) / rate; left > 0 && left < longestEstimate.Seconds() {
			s += "  " + brief(time.Duration(left*float64(time.Second))) + " left"
		}
	}
	p.line(s)
}

func (p *progress) line(s string) {
	if p.w == nil {
		return
	}
	pad := max(0, p.width-len(s))
	fmt.Fprintf(p.w, "\r%s%s", s, strings.Repeat(" ", pad))
	p.width = len(s)
}

// end clears the line.
func (p *progress) end() {
	if p.w == nil || p.width == 0 {
		return
	}
	fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
	p.width = 0
}

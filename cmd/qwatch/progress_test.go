package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
)

// seen is what a terminal shows of a line that is written over itself.
func seen(written string) string {
	var screen []byte
	for part := range strings.SplitSeq(written, "\r") {
		screen = append([]byte(part), screen[min(len(part), len(screen)):]...)
	}
	return strings.TrimRight(string(screen), " ")
}

// The bar, its rate and the time that is left, as a person sees them while time goes on.
func TestTheProgressBarAndItsEstimate(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	p := &progress{w: &out, now: func() time.Time { return now }}
	working := func(done, of int64) triage.Event {
		return triage.Event{Progress: &triage.Progress{Done: done, Of: of}}
	}
	waiting := int64(3)
	for i, step := range []struct {
		after time.Duration
		event triage.Event
		want  string
	}{
		{0, triage.Event{Looking: &triage.Progress{Done: 0, Of: 4000}}, "looking [........................] 0/4000"},
		{500 * time.Millisecond, triage.Event{Looking: &triage.Progress{Done: 100, Of: 4000}}, "looking [........................] 100/4000"}, // too soon to tell
		{1500 * time.Millisecond, triage.Event{Looking: &triage.Progress{Done: 1000, Of: 4000}}, "looking [######..................] 1000/4000  500/s  6s left"},
		{2 * time.Second, triage.Event{Looking: &triage.Progress{Done: 4000, Of: 4000}}, "looking [########################] 4000/4000  1000/s"},
		// Work that follows has a rate of its own, also where an earlier run did a part.
		{0, working(100, 700), "working [###.....................] 100/700"},
		{2 * time.Second, working(100, 700), "working [###.....................] 100/700"}, // nothing was done yet
		{8 * time.Second, working(105, 700), "working [###.....................] 105/700  0.5/s  19m50s left"},
		{0, triage.Event{Waiting: &waiting}, "waiting for about 3 messages that somebody hides, half a minute at most"},
		{10 * time.Second, working(400, 700), "working [#############...........] 400/700  15/s  20s left"},
		{0, triage.Event{Doubtful: "x"}, "working [#############...........] 400/700  15/s  20s left"}, // no news of how far it is
		{10 * time.Second, working(700, 700), "working [########################] 700/700  20/s"},
		// The count was but about right.
		{10 * time.Second, working(900, 700), "working [########################] 900/900  20/s"},
		{0, triage.Event{Looking: &triage.Progress{}}, "looking [########################] 0/0"},
		{0, working(0, math.MaxInt64/barWidth), "working [........................] 0/384307168202282325"},
		{1000 * time.Second, working(1, math.MaxInt64/barWidth), "working [........................] 1/384307168202282325  0.001/s"}, // longer than can be told
	} {
		now = now.Add(step.after)
		p.event(step.event)
		if got := seen(out.String()); got != step.want {
			t.Errorf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
	p.end()
	if got := seen(out.String()); got != "" {
		t.Errorf("at the end the line is %q", got)
	}
	out.Reset()
	p.end()
	if out.Len() > 0 {
		t.Errorf("an end without a line writes %q", out.String())
	}
}

func TestOnlyATerminalGetsABar(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		terminal bool
		term     string
		want     bool
	}{
		"a terminal":             {true, "xterm", true},
		"a file":                 {false, "xterm", false},
		"a terminal that is not": {true, "dumb", false},
	} {
		var said bytes.Buffer
		c := &cli{stderr: &said, stderrTerminal: tt.terminal, getenv: func(string) string { return tt.term }}
		p := c.progress()
		p.event(triage.Event{Progress: &triage.Progress{Done: 1, Of: 2}})
		p.end()
		if got := said.Len() > 0; got != tt.want {
			t.Errorf("%s: it wrote %q", name, said.String())
		}
	}
}

package backtest

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/qwatch/qwatch/alerts"
)

// tracker follows the alerts of one rule through time.
type tracker struct {
	rule   alerts.Rule
	states map[string]*state
	done   []Firing
}

// state is one alert, from pending to resolved.
type state struct {
	labels map[string]string
	since  time.Time // pending since
	fired  time.Time // zero while pending
	last   time.Time // when the expression last had it
}

func newTracker(r alerts.Rule) *tracker {
	return &tracker{rule: r, states: map[string]*state{}}
}

// busy says whether any alert is pending or firing.
func (t *tracker) busy() bool { return len(t.states) > 0 }

// step takes in what the expression has at a time, and which queues are held.
func (t *tracker) step(at time.Time, seen, held map[string]map[string]string) {
	holds := map[string]bool{}
	for _, labels := range held {
		holds[queueOf(labels)] = true
	}
	for k, labels := range seen {
		s := t.states[k]
		if s == nil {
			s = &state{labels: labels, since: at}
			t.states[k] = s
		}
		s.last = at
	}
	for k, s := range t.states {
		active := s.last.Equal(at)
		if !active && holds[queueOf(s.labels)] {
			active, s.last = true, at
		}
		switch {
		case active:
			if s.fired.IsZero() && at.Sub(s.since) >= t.rule.For {
				s.fired = at
			}
		case s.fired.IsZero():
			delete(t.states, k)
		case at.Sub(s.last) >= t.rule.KeepFiringFor:
			t.resolve(s, at)
			delete(t.states, k)
		}
	}
}

// queueOf tells the queue that labels are about.
func queueOf(labels map[string]string) string {
	return strconv.Quote(labels["cluster"]) + strconv.Quote(labels["account"]) + strconv.Quote(labels["queue_name"])
}

func (t *tracker) resolve(s *state, end time.Time) {
	tier, _ := strconv.Atoi(s.labels["tier"])
	if t.rule.Scope == alerts.Self {
		tier = 1
	}
	f := Firing{
		Alert: t.rule.Alert, Window: t.rule.Window, Severity: t.rule.Class.Severity(tier),
		Labels: s.labels, Start: s.fired, End: end, Seconds: end.Sub(s.fired).Seconds(),
	}
	t.done = append(t.done, f)
}

// finish returns the firings. Those that go on at the end have none.
func (t *tracker) finish(end time.Time) []Firing {
	for _, k := range slices.Sorted(maps.Keys(t.states)) {
		if s := t.states[k]; !s.fired.IsZero() {
			t.resolve(s, end)
			t.done[len(t.done)-1].End = time.Time{}
		}
	}
	return t.done
}

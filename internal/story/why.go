package story

import (
	"fmt"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// Rates are how fast messages come and go, by the samples that the status rests on. Both are floors:
// what came and went between two polls is not seen.
type Rates struct {
	InPerSecond  float64 `json:"inPerSecond"`
	OutPerSecond float64 `json:"outPerSecond"`
	OverSeconds  float64 `json:"overSeconds"`
}

// Story is one queue's: how it is, why, and what to do.
type Story struct {
	At       time.Time `json:"at"`
	Headline string    `json:"headline"`
	Row      Row       `json:"queue"`
	Findings []Finding `json:"findings"` // the likely causes, the likeliest first
	Rates    *Rates    `json:"rates,omitempty"`

	Handler     string              `json:"handler,omitempty"` // of the consumer in this process
	LastError   string              `json:"lastError,omitempty"`
	Clusters    []Cluster           `json:"deadLetters"` // by reason, as far as this process moved them
	Advice      *Advice             `json:"advice,omitempty"`
	Events      []Event             `json:"events"`              // the newest first
	Trend       [][4]int64          `json:"trend,omitempty"`     // time, messages, age of the oldest, poison; −1 not known
	NextExpiry  time.Time           `json:"nextExpiry,omitzero"` // of what was seen on either queue
	Evidence    *collector.Evidence `json:"evidence,omitempty"`
	PoisonName  string              `json:"poisonQueue,omitempty"`
	Objective   float64             `json:"objectiveSeconds,omitempty"`
	PollError   string              `json:"pollError,omitempty"`
	FleetCauses []Cause             `json:"fleetCauses"` // those of many queues that are this one's too
}

// teller finds one queue's causes.
type teller struct {
	story    *Story
	main     *collector.QueueState // nil: only the poison queue is watched
	poison   *collector.QueueState
	proc     *processor.Status
	settings Settings
	name     string // quoted
}

// Why tells a queue's story; not ok when it is not watched.
func (r *Recorder) Why(name Name) (*Story, bool) {
	states := r.cfg.Queue(name.Account, name.Queue)
	if len(states) == 0 {
		return nil, false
	}
	now := time.Now()
	proc := r.processor(name)
	s := &Story{
		At: now.UTC(), Row: rowOf(states, proc, now), Findings: []Finding{}, FleetCauses: []Cause{},
		Clusters: append([]Cluster{}, r.Clusters(name, maxClusters)...), Events: r.Events(name, 100),
	}
	for _, p := range r.Trend(name) {
		s.Trend = append(s.Trend, [4]int64{p.At.Unix(), p.Messages, p.Oldest, p.Poison})
	}
	s.Advice, _ = r.Tune(name)
	t := teller{story: s, proc: proc, name: Quote(name.String())}
	t.settings, _ = r.cfg.Settings(name.Account, name.Queue)
	s.Handler = t.settings.Handler
	for i := range states {
		st := &states[i]
		if st.Kind == collector.KindPoison {
			t.poison, s.PoisonName = st, st.PhysicalName
		} else {
			t.main, s.Evidence, s.Objective = st, st.Evidence(), st.Objective.Seconds()
			s.Rates = ratesOf(s.Evidence)
		}
		if at := st.Peek.NextExpiration; !at.IsZero() && (s.NextExpiry.IsZero() || at.Before(s.NextExpiry)) {
			s.NextExpiry = at.UTC()
		}
		if st.Error != "" && s.PollError == "" {
			s.PollError = st.Error
		}
	}
	if proc != nil {
		s.LastError = proc.LastError
	}
	for _, c := range r.Fleet().Causes {
		if c.affects(name) {
			s.FleetCauses = append(s.FleetCauses, c)
		}
	}
	for _, c := range s.FleetCauses {
		if c.Affected > 1 || c.Kind != CauseStalled && c.Kind != CauseBehind && c.Kind != CausePaused && c.Kind != CauseGrowing && c.Kind != CauseDying {
			s.Findings = append(s.Findings, c.Finding)
		}
	}
	t.tell(now)
	s.Headline = t.headline(now)
	return s, true
}

// ratesOf sums the samples up; nil when there are too few.
func ratesOf(e *collector.Evidence) *Rates {
	var in, out int64
	var first, last time.Time
	for _, s := range e.Samples {
		if s.Messages == nil {
			continue
		}
		if first.IsZero() {
			first = s.At
			continue // what it counts happened before it
		}
		last = s.At
		in, out = in+s.Gained, out+s.Finished
	}
	over := last.Sub(first).Seconds()
	if last.IsZero() || over <= 0 {
		return nil
	}
	return &Rates{float64(in) / over, float64(out) / over, over}
}

func (t *teller) headline(now time.Time) string {
	row := &t.story.Row
	since := ""
	if !row.Since.IsZero() {
		since = " for " + Duration(now.Sub(row.Since))
	}
	if t.main == nil {
		return fmt.Sprintf("%s: only its poison queue is watched, which %s", row.Name, poisonWords(row.PoisonStatus))
	}
	text := fmt.Sprintf("%s has been %s%s", row.Name, words(row.Status), since)
	switch {
	case row.Status == "falling_behind":
		text = row.String() + " has been falling behind" + since
	case row.Status == "hidden":
		text = fmt.Sprintf("All messages of %s have been hidden%s", row.Name, since)
	case row.Status == "unknown" && t.nothingWaits():
		text = fmt.Sprintf("Nothing waits on %s, and it is too early to say more", row.Name)
	case row.Status == "unknown":
		text = fmt.Sprintf("It is too early to say how %s is", row.Name)
	case since == "":
		text = fmt.Sprintf("%s is %s", row.Name, words(row.Status))
	}
	if row.PoisonStatus == "growing" {
		text += "; its poison queue gains messages"
	}
	return text
}

func (t *teller) find(level Level, title string, evidence []string, next ...Step) {
	kept := evidence[:0:0]
	for _, e := range evidence {
		if e != "" {
			kept = append(kept, e)
		}
	}
	t.story.Findings = append(t.story.Findings, Finding{level, title, kept, next})
}

// nothingWaits says whether the queue was seen, and seen empty.
func (t *teller) nothingWaits() bool {
	row := &t.story.Row
	return row.Messages.Known && row.Messages.Value == 0 && row.Visible.Value == 0 && row.Oldest.Value == 0
}

// waiting says how much waits, and for how long.
func (t *teller) waiting() string {
	row := &t.story.Row
	if !row.Messages.Known {
		return ""
	}
	text := Count(row.Messages.Value, "message") + verb(int(min(row.Messages.Value, 2)), " is", " are") + " on the queue"
	if row.Oldest.Known && row.Oldest.Value > 0 {
		floor := ""
		if row.Oldest.Floor {
			floor = " or more"
		}
		text += ", the oldest visible one for " + Duration(time.Duration(row.Oldest.Value)*time.Second) + floor
	}
	return text
}

// busy says what the handlers here do.
func (t *teller) busy() string {
	if t.proc == nil {
		return "no consumer of it runs in this process"
	}
	text := fmt.Sprintf("the consumer here is %s, with %d of %d handlers at work", t.proc.State, t.proc.Handlers, t.proc.MaxHandlers)
	if t.proc.OldestHandler > 0 {
		text += ", one for " + Duration(t.proc.OldestHandler)
	}
	return text
}

func (t *teller) rates() string {
	r := t.story.Rates
	if r == nil {
		return ""
	}
	return fmt.Sprintf("over the last %s at least %s came and %s went", Duration(time.Duration(r.OverSeconds)*time.Second), rate(r.InPerSecond), rate(r.OutPerSecond))
}

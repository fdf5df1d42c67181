package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/internal/triage"
)

// running is an operator's work on a queue's poison, for as long as it lasts: whoever looks at the queue's page
// sees how far it is. Safe for concurrent use.
type running struct {
	id        string // by which it can be stopped, and nothing that comes after it
	queue     string // ACCOUNT/QUEUE
	cancel    context.CancelCauseFunc
	operator  string
	operation triage.Operation
	command   triage.Command
	since     time.Time

	mu      sync.Mutex
	looking bool // through the poison queue, before it acts
	done    triage.Progress
	waiting int64     // for hidden messages; 0: not
	began   time.Time // when it began to look, or to act
	start   int64     // and at which message
}

// watch notes what the events tell before they go to sink.
func (p *running) watch(sink func(triage.Event) error) func(triage.Event) error {
	return func(e triage.Event) error {
		p.note(e, time.Now())
		return sink(e)
	}
}

func (p *running) note(e triage.Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Looking != nil:
		p.reach(*e.Looking, true, now)
	case e.Progress != nil:
		p.reach(*e.Progress, false, now)
	case e.Waiting != nil:
		p.waiting = *e.Waiting
	}
}

func (p *running) reach(at triage.Progress, looking bool, now time.Time) {
	if p.began.IsZero() || p.looking != looking {
		p.looking, p.began, p.start = looking, now, at.Done
	}
	p.done, p.waiting = at, 0
}

// workModel is what the page shows of it.
type workModel struct {
	Text string `json:"text"`
	Note string `json:"note"`
	Done int64  `json:"done"`
	Of   int64  `json:"of"` // about; 0: it is not known how much there is to do
}

func (p *running) model(now time.Time) *workModel {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &workModel{Text: p.operator + " " + p.words(), Done: p.done.Done, Of: max(p.done.Of, p.done.Done)}
	notes := []string{"begun " + ago(now.Sub(p.since).Seconds())}
	if m.Of > 0 {
		verb := "done"
		if p.looking {
			verb = "looked at"
		}
		notes = append(notes, fmt.Sprintf("%s of %s %s", story.Digits(m.Done), story.Count(m.Of, "message"), verb))
	}
	if took := now.Sub(p.began).Seconds(); !p.began.IsZero() && took > 1 && m.Done > p.start {
		rate := float64(m.Done-p.start) / took
		notes = append(notes, perTime(rate))
		if left := m.Of - m.Done; left > 0 {
			notes = append(notes, "about "+secondsText(float64(left)/rate)+" left")
		}
	}
	if n := int64(p.command.Canary); p.operation == triage.Replay && n > 0 && !p.looking && m.Done == n && m.Of > n {
		notes = append(notes, "watching whether the first fail again")
	}
	if p.waiting > 0 {
		notes = append(notes, "waiting for "+story.Count(p.waiting, "message")+" that somebody hides")
	}
	m.Note = strings.Join(notes, " · ")
	return m
}

// words says what is being done.
func (p *running) words() string {
	switch {
	case p.command.DryRun && p.operation == triage.Replay:
		return "finds out what a replay would do"
	case p.command.DryRun && p.operation == opImport:
		return "finds out what an import would do"
	case p.command.DryRun:
		return "finds out what a deletion would do"
	case p.operation == triage.Replay:
		return "replays dead-lettered messages"
	case p.operation == triage.Delete, p.operation == triage.Purge:
		return "deletes dead-lettered messages"
	case p.operation == triage.Export:
		return "exports dead-lettered messages"
	case p.operation == opImport:
		return "imports dead-lettered messages"
	default:
		return "looks through the poison queue"
	}
}

// opImport stands beside the operations of package triage.
const opImport triage.Operation = "import"

// at returns what is being done to a queue's poison; nil when nothing is that takes long.
func (s *storageWork) at(queue string, now time.Time) *workModel {
	if p := s.find(func(_ string, p *running) bool { return p.queue == queue }); p != nil {
		return p.model(now)
	}
	return nil
}

// Elsewhere is what consumers in other processes say of a queue.
type Elsewhere struct {
	Unknown  string // why nothing is known; "": it is
	Replicas int
	Handlers int // at work
	Slots    int // handlers they may have
	Age      time.Duration
}

// elsewhereFacts says who else takes a queue's messages, or that nobody says so.
func (h *handler) elsewhereFacts(n story.Name) string {
	e, ok := h.Elsewhere(n.Account, n.Queue)
	switch {
	case !ok:
		return "Whether other processes consume it is not known here; scaling.peers in the configuration would have them asked."
	case e.Unknown != "":
		return "What the other processes of scaling.peers do is not known: " + e.Unknown + "."
	case e.Replicas == 0:
		return "None of the other processes of scaling.peers consumes it."
	case e.Replicas == 1:
		return fmt.Sprintf("One other process consumes it, with %d of %d handlers at work, as it said %s.", e.Handlers, e.Slots, ago(e.Age.Seconds()))
	default:
		return fmt.Sprintf("%d other processes consume it, with %d of %d handlers at work, as they said %s at most.", e.Replicas, e.Handlers, e.Slots, ago(e.Age.Seconds()))
	}
}

// queueModel is what a queue's page shows.
func (h *handler) queueModel(s *story.Story) queueModel {
	m := queueModelOf(s)
	m.Consumer = append(m.Consumer[:1:1], append([]string{h.elsewhereFacts(s.Row.Name)}, m.Consumer[1:]...)...)
	m.Work = h.work.at(s.Row.Name.String(), time.Now())
	return m
}

package story

import (
	"context"
	"sync"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// Config is what a Recorder looks at.
type Config struct {
	// Snapshot returns what is known of the queues. Required.
	Snapshot func() *collector.Snapshot
	// Queue returns what is known of one queue. Required.
	Queue func(account, queue string) []collector.QueueState
	// Processors returns the status of every processor. Default: there are none.
	Processors func() []processor.Status
	// Settings returns how a queue's consumer in this process is configured; not ok when it has none.
	// Default: none has.
	Settings func(account, queue string) (s Settings, ok bool)
	// Interval between two looks. Default 30s.
	Interval time.Duration
	// Beat is called with each look, as a sign of life. Default: nobody wants it.
	Beat func()
}

// Recorder remembers how queues fared and tells their story. Safe for concurrent use.
type Recorder struct {
	cfg Config
	log log

	mu     sync.RWMutex
	queues map[Name]*record

	measures measures
	cached   fleetCache
}

// record is what is remembered of one queue.
type record struct {
	series   series
	main     string // the last status
	poison   string
	state    processor.State
	breaker  bool
	handled  bool // a processor was seen
	lastSeen uint64
}

// New returns a Recorder that knows nothing yet.
func New(cfg Config) *Recorder {
	if cfg.Processors == nil {
		cfg.Processors = func() []processor.Status { return nil }
	}
	if cfg.Settings == nil {
		cfg.Settings = func(string, string) (Settings, bool) { return Settings{}, false }
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 30 * time.Second
	}
	if cfg.Beat == nil {
		cfg.Beat = func() {}
	}
	return &Recorder{cfg: cfg, queues: map[Name]*record{}}
}

// Run looks at the fleet once an interval until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	r.Note(Event{Kind: EventStarted, Level: LevelInfo, Text: "qwatch started; what happened before is not known here"})
	ticker := time.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	for turn := uint64(1); ; turn++ {
		r.cfg.Beat()
		r.look(turn)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Note adds an event. A zero time is now.
func (r *Recorder) Note(e Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC()
	e.Text = cut(e.Text, 500)
	r.log.add(e)
}

// NoteAgain adds an event that happens now. When the one before it is the same it says how many times, so that
// what is done over and over does not push out the rest.
func (r *Recorder) NoteAgain(e Event) {
	e.At = time.Now().UTC()
	e.Text = cut(e.Text, 500)
	r.log.addAgain(e)
}

// Steered notes that an operator paused or resumed the consumer of a queue.
func (r *Recorder) Steered(account, queue string, paused bool, by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.record(Name{account, queue})
	to := processor.StateRunning
	if paused {
		to = processor.StatePaused
	}
	if rec.state == to {
		return
	}
	rec.state, rec.handled = to, true
	r.Note(steered(Name{account, queue}, paused, by))
}

func steered(n Name, paused bool, by string) Event {
	e := Event{Kind: EventResumed, Level: LevelGood, Account: n.Account, Queue: n.Queue, Text: "consumer resumed", By: by}
	if paused {
		e.Kind, e.Level, e.Text = EventPaused, LevelWarn, "consumer paused"
	}
	return e
}

// Events returns the latest events, the newest first. Of one queue, with what is about all of qwatch,
// when name is not zero.
func (r *Recorder) Events(name Name, most int) []Event {
	if name == (Name{}) {
		return r.log.latest(most, nil)
	}
	return r.log.latest(most, func(e *Event) bool {
		return e.Queue == "" && (e.Account == "" || e.Account == name.Account) || e.Account == name.Account && e.Queue == name.Queue
	})
}

// Trend returns how a queue's numbers went, the oldest first.
func (r *Recorder) Trend(name Name) []Point {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if rec := r.queues[name]; rec != nil {
		return rec.series.points()
	}
	return nil
}

// Sparks returns, for each of the names, the latest counts of its main queue, most at the most.
func (r *Recorder) Sparks(names []Name, most int) [][]int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([][]int64, len(names))
	for i, n := range names {
		if rec := r.queues[n]; rec != nil {
			out[i] = rec.series.spark(most)
		}
	}
	return out
}

// record returns the record of a queue, a new one if there is none.
func (r *Recorder) record(n Name) *record {
	rec := r.queues[n]
	if rec == nil {
		rec = &record{}
		r.queues[n] = rec
	}
	return rec
}

// look takes in how the fleet is now.
func (r *Recorder) look(turn uint64) {
	snap, procs := r.cfg.Snapshot(), r.cfg.Processors()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(snap.Queues); {
		s := &snap.Queues[i]
		n := Name{s.Account, s.Queue}
		p := point{at: uint32(snap.At.Unix()), messages: -1, oldest: -1, poison: -1}
		rec := r.record(n)
		rec.lastSeen = turn
		for ; i < len(snap.Queues) && snap.Queues[i].Account == n.Account && snap.Queues[i].Queue == n.Queue; i++ {
			r.take(rec, &snap.Queues[i], &p, snap.At)
		}
		rec.series.add(p)
	}
	for _, s := range procs {
		r.watch(s, turn, snap.At)
	}
	for n, rec := range r.queues {
		if turn-rec.lastSeen > forgetAfter {
			delete(r.queues, n)
		}
	}
}

// forgetAfter is for how many looks a queue that is watched no more is remembered.
const forgetAfter = 10

// take notes one queue's numbers and whether its status changed.
func (r *Recorder) take(rec *record, s *collector.QueueState, p *point, now time.Time) {
	at := now
	if !s.Since.IsZero() {
		at = s.Since
	}
	if s.Kind == collector.KindPoison {
		if s.Count.Known {
			p.poison = clamp(s.Count.Messages)
		}
		if to := s.Poison.String(); to != rec.poison {
			if tell(rec.poison, to) {
				text := "poison queue " + poisonWords(to)
				if to == "holding" && rec.poison != "growing" {
					text = "poison queue holds messages"
				}
				r.Note(Event{
					At: at, Kind: EventPoison, Level: LevelOf(to), Account: s.Account, Queue: s.Queue, From: rec.poison, To: to,
					Text: text,
				})
			}
			rec.poison = to
		}
		return
	}
	if s.Count.Known {
		p.messages = clamp(s.Count.Messages)
	}
	if s.Peek.Known {
		p.oldest = clamp(int64(s.Peek.OldestAge / time.Second))
	}
	if to := s.Status.String(); to != rec.main {
		if tell(rec.main, to) && to != paused && rec.main != paused { // those are told by the processor
			text := "status " + words(to)
			if to == "unreachable" && s.Reason != "" {
				text += " (" + words(string(s.Reason)) + ")"
			}
			r.Note(Event{At: at, Kind: EventStatus, Level: LevelOf(to), Account: s.Account, Queue: s.Queue, From: rec.main, To: to, Text: text})
		}
		rec.main = to
	}
}

const paused = "paused"

// tell says whether a change is worth telling: not what a start finds to be in order, nor the to and fro
// between two words for all is well.
func tell(from, to string) bool {
	fine := func(s string) bool { return s == "ok" || s == "idle" || s == "empty" }
	switch {
	case to == "unknown":
		return false
	case from == "" || from == "unknown":
		return !fine(to)
	default:
		return !fine(from) || !fine(to)
	}
}

// watch notes what a processor does.
func (r *Recorder) watch(s processor.Status, turn uint64, now time.Time) {
	n := Name{s.Account, s.Queue}
	rec := r.record(n)
	rec.lastSeen = turn
	if rec.handled && (s.State == processor.StatePaused) != (rec.state == processor.StatePaused) {
		r.Note(steered(n, s.State == processor.StatePaused, ""))
	}
	if rec.handled && s.BreakerOpen != rec.breaker {
		e := Event{At: now.Add(-s.BreakerAge), Kind: EventBreaker, Level: LevelBad, Account: n.Account, Queue: n.Queue, To: "open", Text: "handlers fail as a whole: receiving stopped, but for probes"}
		if !s.BreakerOpen {
			e.Level, e.To, e.Text = LevelGood, "closed", "handlers work again: receiving goes on"
		}
		r.Note(e)
	}
	rec.handled, rec.state, rec.breaker = true, s.State, s.BreakerOpen
}

// LevelOf says how much a status, of a main or a poison queue, matters.
func LevelOf(status string) Level {
	switch status {
	case "ok", "idle", "empty":
		return LevelGood
	case "falling_behind", "hidden", paused, "holding":
		return LevelWarn
	case "stalled", "unreachable", "missing", "growing":
		return LevelBad
	default:
		return LevelUnknown
	}
}

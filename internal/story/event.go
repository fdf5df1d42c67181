package story

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// EventKind is what kind of thing happened.
type EventKind string

// The kinds.
const (
	EventStatus       EventKind = "status"        // a queue's status changed
	EventPoison       EventKind = "poison"        // its poison queue's did
	EventPaused       EventKind = "paused"        // its consumer here
	EventResumed      EventKind = "resumed"       // its consumer here
	EventBreaker      EventKind = "breaker"       // its handlers fail as a whole, or no longer
	EventReplay       EventKind = "replay"        // messages were taken back from the poison queue
	EventTriage       EventKind = "triage"        // an operator did something else to dead-lettered messages
	EventStarted      EventKind = "started"       // qwatch began to watch
	EventReload       EventKind = "reload"        // a new configuration holds
	EventReloadFailed EventKind = "reload_failed" // a new configuration was refused
)

// An Event is something that happened.
type Event struct {
	At      time.Time `json:"at"`
	Kind    EventKind `json:"kind"`
	Level   Level     `json:"level"`
	Account string    `json:"account,omitempty"` // "": it is about all of qwatch
	Queue   string    `json:"queue,omitempty"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Text    string    `json:"text"`         // in words
	By      string    `json:"by,omitempty"` // the operator who did it
}

// maxEvents is how many events are kept of the whole fleet: the oldest go first.
const maxEvents = 20_000

// log is a bounded ring of events.
type log struct {
	mu   sync.Mutex
	ring []Event
	next int // where the next one goes once the ring is full

	text  string // of the newest, as it was added
	times int    // that it happened; 0: it stands alone
}

// addAgain adds an event. When the newest, but for its time, is the same it has happened so many times.
func (l *log) addAgain(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.ring); l.times > 0 {
		newest, same := &l.ring[(l.next-1+n)%n], e
		same.At, same.Text = newest.At, newest.Text
		if same == *newest && e.Text == l.text {
			l.times++
			newest.At, newest.Text = e.At, e.Text+" ("+strconv.Itoa(l.times)+" times)"
			return
		}
	}
	l.append(e)
	l.text, l.times = e.Text, 1
}

func (l *log) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(e)
}

// append adds an event. mu is held.
func (l *log) append(e Event) {
	l.times = 0
	if len(l.ring) < maxEvents {
		l.ring = append(l.ring, e)
		return
	}
	l.ring[l.next] = e
	l.next = (l.next + 1) % maxEvents
}

// latest returns the newest events that are wanted, the newest first.
func (l *log) latest(most int, wanted func(*Event) bool) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Event, 0, min(most, len(l.ring)))
	for i := range l.ring {
		e := &l.ring[(l.next-1-i+2*len(l.ring))%len(l.ring)]
		if len(out) == most {
			break
		}
		if wanted == nil || wanted(e) {
			out = append(out, *e)
		}
	}
	return slices.Clip(out)
}

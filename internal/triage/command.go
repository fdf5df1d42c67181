// Package triage is what the commands and the API do with dead-lettered messages: a command, in the form
// in which it also travels to a running qwatch, is carried out on a queue, and told event by event.
//
// What the steps are is package poison's; who may ask is package web's; how events look to people is the
// command line's and the page's.
package triage

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// An Operation is what a command does.
type Operation string

// The operations. List and Export change nothing but dequeue counts, and those only with All.
const (
	List   Operation = "list"
	Export Operation = "export"
	Replay Operation = "replay"
	Delete Operation = "delete"
	Purge  Operation = "purge"
)

// MaxIDs is how many messages a command may name.
const MaxIDs = 10_000

// Command says what to do, and to which messages. The zero value lists what a peek sees.
type Command struct {
	Operation  Operation         `json:"-"`
	All        bool              `json:"all,omitempty"` // the whole poison queue, not only what a peek sees
	Categories []poison.Category `json:"categories,omitempty"`
	Reason     string            `json:"reason,omitempty"` // a part of it, in any case
	IDs        []string          `json:"ids,omitempty"`    // of originals or of their copies
	OlderThan  Duration          `json:"olderThan,omitempty"`
	NewerThan  Duration          `json:"newerThan,omitempty"`
	Limit      int               `json:"limit,omitempty"` // messages at most
	Body       bool              `json:"body,omitempty"`  // list: with the bodies
	// History adds to each message that IDs names what the failure records tell of it before it was replayed.
	History    bool     `json:"history,omitempty"`
	DryRun     bool     `json:"dryRun,omitempty"`
	Rate       float64  `json:"rate,omitempty"` // replay: messages a second at most
	Canary     int      `json:"canary,omitempty"`
	CanaryWait Duration `json:"canaryWait,omitempty"`
	Lease      Duration `json:"lease,omitempty"` // what is looked at is hidden for; default, and longest, 30 s
}

// Check tells every fault of a command.
func (c Command) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, k := range c.Categories {
		if !slices.Contains(poison.Categories(), k) {
			bad("category %.40q is none; there are %v", string(k), poison.Categories())
		}
	}
	if len(c.IDs) > MaxIDs {
		bad("%d ids are more than %d: use another filter, or several commands", len(c.IDs), MaxIDs)
	}
	for _, d := range []struct {
		name string
		d    Duration
	}{{"olderThan", c.OlderThan}, {"newerThan", c.NewerThan}, {"canaryWait", c.CanaryWait}} {
		if d.d < 0 {
			bad("%s %v is negative", d.name, time.Duration(d.d))
		}
	}
	if l := time.Duration(c.Lease); l != 0 && (l < queue.MinVisibility || l > poison.MaxLease || l%time.Second != 0) {
		bad("lease %v is not of whole seconds from %v to %v", l, queue.MinVisibility, poison.MaxLease)
	}
	if c.IDs != nil && len(c.IDs) == 0 {
		bad("ids is empty: name messages, or leave it out")
	}
	if slices.Contains(c.IDs, "") {
		bad("an id is empty: name messages")
	}
	if c.Categories != nil && len(c.Categories) == 0 {
		bad("categories is empty: name some, or leave it out")
	}
	if c.History && (c.Operation != List || len(c.IDs) == 0 || len(c.IDs) > MaxHistories) {
		bad("history is for a list of up to %d ids", MaxHistories)
	}
	if c.Operation == Delete && !c.Filtered() {
		bad("say which: name ids, or filter by category, reason or age; purge deletes everything")
	}
	if c.Limit < 0 {
		bad("limit %d is negative", c.Limit)
	}
	if c.Canary < 0 {
		bad("canary %d is negative", c.Canary)
	}
	if c.Rate < 0 || c.Rate > 0 && c.Rate < .001 || c.Rate > 1e6 {
		bad("rate %v is not 0.001 to 1000000 messages a second", c.Rate)
	}
	if c.Operation != Replay && (c.Rate != 0 || c.Canary != 0 || c.CanaryWait != 0) {
		bad("rate, canary and canaryWait are for replay alone")
	}
	if c.Operation == Purge && (len(c.Categories)+len(c.IDs) > 0 || c.Reason != "" || c.OlderThan != 0 || c.NewerThan != 0 || c.Limit != 0) {
		bad("purge deletes everything: use delete with a filter")
	}
	return errors.Join(errs...)
}

// Filtered says that the command names what it is about, rather than everything.
func (c Command) Filtered() bool {
	return len(c.Categories)+len(c.IDs) > 0 || c.Reason != "" || c.OlderThan != 0 || c.NewerThan != 0
}

func (c Command) filter() poison.Filter {
	return poison.Filter{
		Categories: c.Categories, Reason: c.Reason, IDs: c.IDs,
		OlderThan: time.Duration(c.OlderThan), NewerThan: time.Duration(c.NewerThan),
	}
}

// Duration is a duration in Go's notation, in JSON.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration like 1h30m", text)
	}
	*d = Duration(v)
	return nil
}

// Payload is a message's body, where it was asked for.
type Payload struct {
	Body   *string `json:"body,omitempty"`
	Body64 []byte  `json:"body64,omitempty"` // instead, when it is not text, or large and much longer as JSON text
}

// PayloadOf is the body of a message, or its exact wire text when the body cannot be read.
func PayloadOf(m *queue.Message) Payload {
	b := m.Body
	if m.Err != nil {
		b = []byte(m.Text)
	}
	if !utf8.Valid(b) || len(b) > largeText && escaped(b) > len(b)/2*longer {
		return Payload{Body64: b}
	}
	return Payload{Body: new(string(b))}
}

// Text is a body for people.
func (p Payload) Text() string {
	switch {
	case p.Body != nil:
		return *p.Body
	case p.Body64 != nil:
		return string(p.Body64)
	default:
		return ""
	}
}

// Entry is a dead-lettered message with, on request, its body.
type Entry struct {
	poison.Entry
	Payload

	History      []Earlier `json:"history,omitempty"`      // what it was before it was replayed, the latest first
	HistoryError string    `json:"historyError,omitempty"` // why the failure records could not tell, or not all
}

// Exported is a line of an export.
type Exported = poison.Exported

// Progress is how far something is.
type Progress struct {
	Done int64 `json:"done"`
	Of   int64 `json:"of"` // about
}

// Summary is what a list saw besides entries.
type Summary struct {
	Total   int64 `json:"total"`  // the poison queue's approximate count, hidden messages and other queues' included
	Peeked  int   `json:"peeked"` // physical messages looked at
	Others  int   `json:"others"` // of those, messages of other queues that share the poison queue
	Partial bool  `json:"partial"`
	Unseen  int64 `json:"unseen,omitempty"` // hidden by somebody else, about
}

// Event is one thing that a command tells: one of its fields is set.
type Event struct {
	Entry    *Entry          `json:"entry,omitempty"`    // list, and dry runs: one that was chosen
	Line     json.RawMessage `json:"line,omitempty"`     // export
	Looking  *Progress       `json:"looking,omitempty"`  // messages of the poison queue looked at
	Progress *Progress       `json:"progress,omitempty"` // messages dealt with
	Waiting  *int64          `json:"waiting,omitempty"`  // for so many hidden messages
	Doubtful string          `json:"doubtful,omitempty"` // the id of a message that may have been sent by an earlier replay
	Unmarked string          `json:"unmarked,omitempty"` // the id of a message that is about to be sent without a mark
	Summary  *Summary        `json:"summary,omitempty"`  // the end of a list or an export
	Result   *poison.Result  `json:"result,omitempty"`   // the end of what changes something
	Error    string          `json:"error,omitempty"`    // why it ended early; with Result, what was done before
}

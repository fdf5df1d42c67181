package poison

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/qwatch/qwatch/queue"
)

// Category is the kind of reason for which a message is dead-lettered. It is a closed set: metrics
// carry it as a label.
type Category string

// The categories.
const (
	CategoryMaxDequeue      Category = "max_dequeue"     // delivered too often
	CategoryMaxAge          Category = "max_age"         // too old when it was delivered
	CategoryDeserialization Category = "deserialization" // the body cannot be read
	CategoryHandler         Category = "handler"         // the handler said that trying again cannot help
	CategoryUnroutable      Category = "unroutable"      // no handler for its type
	CategoryOther           Category = "other"           // no record, or one of another writer's making
)

// Categories lists every category.
func Categories() []Category {
	return []Category{CategoryMaxDequeue, CategoryMaxAge, CategoryDeserialization, CategoryHandler, CategoryUnroutable, CategoryOther}
}

func known(s string) Category {
	for _, c := range Categories() {
		if string(c) == s {
			return c
		}
	}
	return CategoryOther
}

// Bounds of what a record holds, in bytes.
const (
	MaxReason = 4096
	MaxError  = 512 // of an attempt
	MaxKey    = 256 // a business key
)

// minReason is what shortening leaves of a reason before the body is compressed instead.
const minReason = 64

// Stage is the half of a move that failed.
type Stage string

// The stages.
const (
	StageSend   Stage = "send"   // nothing happened: the message is where it was
	StageDelete Stage = "delete" // the copy is safe, the original still there: a later delivery moves it again
)

// MoveError says which half of a move failed.
type MoveError struct {
	Stage Stage
	Err   error
}

// Error implements error.
func (e *MoveError) Error() string { return fmt.Sprintf("dead-letter (%s): %v", e.Stage, e.Err) }

// Unwrap returns the storage error.
func (e *MoveError) Unwrap() error { return e.Err }

// Case is what is known of a message that is dead-lettered.
type Case struct {
	Category    Category
	Reason      string
	BusinessKey string          // bounded to MaxKey bytes
	Attempts    []queue.Attempt // that failed, in their order; their errors are bounded to MaxError bytes
	// Copied, if set, is called once the copy is safe and the original is not yet deleted. It keeps the
	// caller's lease waiting, so it must be quick.
	Copied func(context.Context)
}

// Move is Case.Move with a category and a reason alone.
func Move(ctx context.Context, m *queue.Message, category Category, reason string) error {
	return Case{Category: category, Reason: reason}.Move(ctx, m)
}

// Move copies a received message to its queue's poison queue, with a record of why, then deletes it.
// The message's lease must be held throughout. The copy never expires unless the queue's
// PoisonTimeToLive says otherwise; the poison queue is created when it is missing.
//
// A message that could not be read is copied exactly as it lay on the queue, without a record. One
// too large for a record loses first its attempts, the oldest first, then the end of the reason; then it is
// compressed, then leaves its body in the queue's body store if there is one, and at last goes bare.
// Errors are *MoveError. It is safe for concurrent use with renewals of the message.
func (c Case) Move(ctx context.Context, m *queue.Message) error {
	q := m.Queue()
	if q.Poison() == nil {
		return &MoveError{StageSend, fmt.Errorf("queue %s has no poison queue", q)}
	}
	if s := m.Settlement(); s != queue.Unsettled {
		return &MoveError{StageSend, fmt.Errorf("message is already %s: %w", s, queue.ErrSettled)}
	}
	rec := queue.Record{
		Reason: clean(c.Reason, MaxReason), Category: string(c.Category), MessageID: m.ID,
		DequeueCount: m.DequeueCount, Queue: q.Name(), At: q.Account().Now(),
		BusinessKey: clean(c.BusinessKey, MaxKey), Attempts: make([]queue.Attempt, len(c.Attempts)),
	}
	for i, a := range c.Attempts {
		a.Error, a.Worker = clean(a.Error, MaxError), clean(a.Worker, MaxKey)
		rec.Attempts[i] = a
	}
	if err := send(ctx, m, rec); err != nil {
		return &MoveError{StageSend, err}
	}
	if c.Copied != nil {
		c.Copied(ctx)
	}
	if err := m.CompleteDeadLettered(ctx); err != nil {
		return &MoveError{StageDelete, err}
	}
	return nil
}

// send sends the fullest poison copy the wire can carry.
func send(ctx context.Context, m *queue.Message, rec queue.Record) error {
	d, err := m.Draft(ctx)
	if err != nil {
		return err
	}
	for _, compress := range []bool{false, true} {
		if r, ok := fits(d, rec, compress); ok {
			return d.Send(ctx, r, compress)
		}
		rec.Attempts = nil // they went first
	}
	// A store that is away is no reason not to move the message.
	if stored, _ := d.Store(ctx); stored {
		if r, ok := fits(d, rec, false); ok {
			return d.Send(ctx, r, false)
		}
	}
	return d.SendBare(ctx)
}

// fits leaves out the oldest attempts and then shortens the reason, as far as that goes, until the copy
// fits.
func fits(d *queue.Draft, rec queue.Record, compress bool) (queue.Record, bool) {
	for {
		over := d.Size(rec, compress) - queue.MaxTextBytes
		if over <= 0 {
			return rec, true
		}
		if n := len(rec.Attempts); n > 0 {
			rec.Attempts = rec.Attempts[min(n, max(1, over/(MaxError+2*MaxKey))):]
			continue
		}
		if len(rec.Reason) <= minReason {
			return rec, false
		}
		rec.Reason = shorten(rec.Reason, max(minReason, len(rec.Reason)-max(over, 16)))
	}
}

// shorten cuts to at most n bytes, between characters, and says so.
func shorten(s string, n int) string {
	const mark = "…"
	n = max(0, n-len(mark))
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// clean makes one bounded line of text.
func clean(s string, most int) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r < 0x20 || r == 0x7F }), " ")
	if len(s) > most {
		s = shorten(s, most)
	}
	return s
}

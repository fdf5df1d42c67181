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

// MaxReason bounds a record's reason, in bytes.
const MaxReason = 4096

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

// Move copies a received message to its queue's poison queue, with a record of why, then deletes it.
// The message's lease must be held throughout. The copy never expires unless the queue's
// PoisonTimeToLive says otherwise; the poison queue is created when it is missing.
//
// A message that could not be read is copied exactly as it lay on the queue, without a record. One
// too large for a record loses first the end of the reason, then is compressed, and at last goes bare.
// Errors are *MoveError. It is safe for concurrent use with renewals of the message.
func Move(ctx context.Context, m *queue.Message, category Category, reason string) error {
	q := m.Queue()
	if q.Poison() == nil {
		return &MoveError{StageSend, fmt.Errorf("queue %s has no poison queue", q)}
	}
	if s := m.Settlement(); s != queue.Unsettled {
		return &MoveError{StageSend, fmt.Errorf("message is already %s: %w", s, queue.ErrSettled)}
	}
	rec := queue.Record{
		Reason: clean(reason), Category: string(category), MessageID: m.ID,
		DequeueCount: m.DequeueCount, Queue: q.Name(), At: q.Account().Now(),
	}
	// A copy sent twice does no harm: the record's message id tells.
	opts := queue.SendOptions{TimeToLive: q.Config().PoisonTimeToLive, AllowDuplicates: true}
	if _, err := q.Poison().SendText(ctx, fit(m, rec), opts); err != nil {
		return &MoveError{StageSend, err}
	}
	if err := m.CompleteDeadLettered(ctx); err != nil {
		return &MoveError{StageDelete, err}
	}
	return nil
}

// fit returns the fullest poison copy the wire can carry.
func fit(m *queue.Message, rec queue.Record) string {
	for _, compress := range []bool{false, true} {
		r := rec
		for {
			text := m.TextWithRecord(r, compress)
			over := len(text) - queue.MaxTextBytes
			if over <= 0 {
				return text
			}
			if len(r.Reason) <= minReason {
				break
			}
			r.Reason = shorten(r.Reason, max(minReason, len(r.Reason)-max(over, 16)))
		}
	}
	return m.Text
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

// clean makes a reason one bounded line of text.
func clean(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return r < 0x20 || r == 0x7F }), " ")
	if len(s) > MaxReason {
		s = shorten(s, MaxReason)
	}
	return s
}

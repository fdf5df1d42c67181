package failures

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
)

// Failure is what is known of a message that was dead-lettered. All times are the service's.
type Failure struct {
	Queue          string          `json:"queue"` // the source queue
	MessageID      string          `json:"messageId"`
	BusinessKey    string          `json:"businessKey,omitempty"`
	Category       poison.Category `json:"category"` // "" while the message is still being retried
	Reason         string          `json:"reason,omitempty"`
	Causes         []Cause         `json:"causes,omitempty"` // the chain of errors, outermost first
	Panic          string          `json:"panic,omitempty"`  // what the handler panicked with
	Stack          string          `json:"stack,omitempty"`  // of the panic
	DequeueCount   int             `json:"dequeueCount"`
	InsertedAt     time.Time       `json:"insertedAt,omitzero"`
	DeadLetteredAt time.Time       `json:"deadLetteredAt,omitzero"`
	TraceParent    string          `json:"traceparent,omitempty"`
	Attempts       []Attempt       `json:"attempts,omitempty"` // that failed, in their order; List leaves them out
	Body           *Body           `json:"body,omitempty"`     // nil: not kept
	// ReplayOf is the id that the message had before it was replayed; "" when it was not, as far as is known.
	// List leaves it out.
	ReplayOf   string    `json:"replayOf,omitempty"`
	ReplayedAt time.Time `json:"replayedAt,omitzero"`
}

// Cause is one error of a chain.
type Cause struct {
	Type    string `json:"type"` // Go's, such as *net.OpError
	Message string `json:"message"`
}

// Attempt is one failed attempt at a message.
type Attempt struct {
	Number   int           `json:"number"` // the dequeue count
	At       time.Time     `json:"at"`     // when the handler was called
	Took     time.Duration `json:"took"`   // nanoseconds
	Category string        `json:"category,omitempty"`
	Error    string        `json:"error"`
	Worker   string        `json:"worker,omitempty"` // which process
}

// Body is the copy of a body.
type Body struct {
	Data []byte `json:"data"` // as much as was kept
	Size int    `json:"size"` // of the whole
}

// ErrNotFound says that nothing is known of a message.
var ErrNotFound = errors.New("no failure of the message is recorded")

// Store keeps failures. Implementations are safe for concurrent use, and every method may be repeated.
type Store interface {
	// Attempted keeps a failed attempt at a message that will be delivered again.
	Attempted(ctx context.Context, queue, messageID string, a Attempt) error
	// Record keeps a failure with the attempts it brings. If there is one of the message already, it
	// stays, and what it lacks is filled in.
	Record(ctx context.Context, f Failure) error
	// Recovered forgets the attempts at a message that was completed, unless it was dead-lettered too.
	Recovered(ctx context.Context, queue, messageID string) error
	// Load returns what is known of a message. Error: ErrNotFound, or what else went wrong.
	Load(ctx context.Context, queue, messageID string) (Failure, error)
	// List returns failures without their attempts, sorted by queue and message id. An error is the last
	// element.
	List(ctx context.Context, opts ListOptions) iter.Seq2[Failure, error]
	// Delete removes what is known of a message. It is no error if that is nothing.
	Delete(ctx context.Context, queue, messageID string) error
}

// ListOptions select failures. The zero value selects all.
type ListOptions struct {
	Queue  string    // "" for every queue
	Since  time.Time // dead-lettered then or later
	Bodies bool      // with their bodies, where these were kept
}

// Bounds of what a record holds, in bytes.
const (
	maxReason  = 4 << 10
	maxKey     = 1 << 10
	maxMessage = 1 << 10 // of an error
	maxStack   = 8 << 10
	maxCauses  = 16
)

// MaxBody is the largest Options.MaxBody.
const MaxBody = 256 << 10

// Causes returns the chain of an error, outermost first, the branches of a join one after the other. It
// leaves out what only marks another error, and is bounded.
func Causes(err error) []Cause {
	var all []Cause
	var walk func(error)
	walk = func(err error) {
		if err == nil || len(all) == maxCauses {
			return
		}
		var inner []error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			inner = []error{e.Unwrap()}
		case interface{ Unwrap() []error }:
			inner = e.Unwrap()
		}
		if len(inner) != 1 || inner[0] == nil || inner[0].Error() != err.Error() {
			all = append(all, Cause{Type: fmt.Sprintf("%T", err), Message: oneLine(err.Error(), maxMessage)})
		}
		for _, e := range inner {
			walk(e)
		}
	}
	walk(err)
	return all
}

// panicked returns what a handler panicked with, and where.
func panicked(err error) (value, stack string) {
	p, ok := errors.AsType[*processor.PanicError](err)
	if !ok {
		return "", ""
	}
	return oneLine(fmt.Sprint(p.Value), maxMessage), cut(p.Stack, maxStack)
}

// oneLine makes a bounded line of a text.
func oneLine(s string, n int) string {
	return cut(strings.Join(strings.Fields(strings.ToValidUTF8(s[:min(len(s), 2*n)], "\uFFFD")), " "), n)
}

// cut shortens to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const dots = "…"
	n -= len(dots)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + dots
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// kind is what a handler said about its failure.
type kind int

const (
	kindPermanent kind = iota + 1
	kindRetryAfter
	kindThrottled
	kindDiscard
	kindUnavailable
	kindUnreadable // or unroutable
	kindPostponed
)

// failure is an error with what the handler wants done about it.
type failure struct {
	kind     kind
	delay    time.Duration
	category poison.Category
	err      error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the handler's own error.
func (f *failure) Unwrap() error { return f.err }

// mark says what to do about an error. A nil one is marked as well: the wish counts, with or without a cause.
func mark(k kind, delay time.Duration, category poison.Category, err error) error {
	if err == nil {
		err = errNoCause
	}
	return &failure{kind: k, delay: delay, category: category, err: err}
}

var errNoCause = errors.New("no cause given")

// Permanent says that trying again cannot help: the message goes to the poison queue at once, with
// category handler and the error's text as reason.
func Permanent(err error) error {
	return mark(kindPermanent, 0, poison.CategoryHandler, err)
}

// RetryAfter asks for the next attempt after a delay (0: at once; at most 7 days; whole seconds,
// rounded up) instead of the configured one. The attempt counts all the same: after the last the
// message goes to the poison queue.
func RetryAfter(delay time.Duration, err error) error {
	return mark(kindRetryAfter, max(0, delay), "", err)
}

// Throttled is RetryAfter for a handler that was told to slow down; it is counted apart, and looks like
// an outage to the breaker. A negative delay leaves it at the configured one.
func Throttled(delay time.Duration, err error) error {
	return mark(kindThrottled, delay, "", err)
}

// Postpone gives the message back for a delay (as for RetryAfter, but at least 1 s) because it cannot be
// worked on yet although nothing has failed: somebody else has its business key in hand, say. It counts
// neither as a handler's failure nor for the breaker. The attempt counts: after the last the message goes to the poison
// queue, so a handler that has to wait then waits in place.
func Postpone(delay time.Duration, err error) error {
	return mark(kindPostponed, max(time.Second, delay), "", err)
}

// Discard says that there is nothing to do, usually because it was done before: the message is
// completed. It does not count as a failure.
func Discard(err error) error { return mark(kindDiscard, 0, "", err) }

// Unavailable says that what the handler calls is down as a whole, so that the message is not to
// blame. It is retried, and counted as transient; unless the breaker is off, the attempt does not count
// against it. See BreakerConfig.
func Unavailable(err error) error { return mark(kindUnavailable, 0, "", err) }

// Unreadable says that the body is not what the handler reads: the message goes to the poison queue,
// category deserialization. It does not count as a handler's failure.
func Unreadable(err error) error {
	return mark(kindUnreadable, 0, poison.CategoryDeserialization, err)
}

// Unroutable says that there is no handler for what the message holds: it goes to the poison queue,
// category unroutable. It does not count as a handler's failure.
func Unroutable(err error) error {
	return mark(kindUnreadable, 0, poison.CategoryUnroutable, err)
}

// IsDiscard says whether an error is Discard's, so that a handler of several things in one message can
// go on with the next.
func IsDiscard(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.kind == kindDiscard
}

// PanicError is what a handler's panic becomes: a failure like any other.
type PanicError struct {
	Value any    // what was panicked with
	Stack string // bounded
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var (
	// errGoexit is a handler that ended its goroutine, as t.FailNow does.
	errGoexit = errors.New("handler called runtime.Goexit")

	// ErrDraining is the cause (context.Cause) with which handlers are cancelled that still run when
	// shutdown has waited for Config.DrainTimeout.
	ErrDraining = errors.New("the processor is shutting down")

	// ErrLeaseLapsed is the cause with which a handler is cancelled whose lease ran out without being
	// renewed: renewals failed, or were off, or had gone on for Config.MaxRenewal. It wraps
	// queue.ErrLeaseLost, the cause when the service said that another receiver has the message.
	ErrLeaseLapsed = fmt.Errorf("the lease lapsed unrenewed: %w", queue.ErrLeaseLost)
)

// retryCategory is the metric label of a failure that is tried again.
func retryCategory(err error) string {
	if e, ok := err.(*examined); ok {
		return e.category
	}
	var f *failure
	if errors.As(err, &f) {
		switch f.kind {
		case kindThrottled:
			return metric.RetryThrottled
		case kindUnavailable:
			return metric.RetryTransient
		case kindPostponed:
			return metric.RetryOther
		}
	}
	var p *PanicError
	var n net.Error
	switch {
	case errors.As(err, &p):
		return metric.RetryPanic
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		return metric.RetryTimeout
	case errors.As(err, &n), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return metric.RetryTransient
	case errors.Is(err, errGoexit):
		return metric.RetryOther
	default:
		return metric.RetryHandler
	}
}

// interrupted says whether the failure is only the echo of our own cancelling.
func interrupted(err error) bool {
	if e, ok := err.(*examined); ok {
		return e.interrupted
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrDraining) || errors.Is(err, queue.ErrLeaseLost)
}

const (
	maxReason = 1 << 10
	maxStack  = 4 << 10
)

// IsPermanent says whether an error asks for the poison queue at once, as those of Permanent, Unreadable
// and Unroutable do. It is for handlers that hand parts of a message on.
func IsPermanent(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && (f.kind == kindPermanent || f.kind == kindUnreadable)
}

// reason is an error's text as logs and poison records may hold it: one line, bounded.
func reason(err error) string {
	s := err.Error()
	if len(s) > 2*maxReason {
		s = s[:2*maxReason]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	return cut(s, maxReason)
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

package processor

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// Handler handles one message. Nil completes it; an error has it retried, unless the error
// (Permanent, RetryAfter, Discard) or the ErrorPolicy says otherwise. A panic is an error.
//
// The context is cancelled when the message's lease is lost or shutdown has waited long enough;
// context.Cause tells which: queue.ErrLeaseLost, ErrLeaseLapsed, ErrDraining. It is cancelled as
// well when Handle returns. A message is never given away while its handler runs, so a handler
// should return soon after its context ends. Handle is called concurrently if Config.Concurrency
// allows.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// Handle implements Handler.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// Message is a message in its handler's hands. Its methods are safe for concurrent use; it must not
// be copied.
//
// A handler may settle the message itself, by Complete, Abandon or DeadLetter; the processor then
// leaves it alone, whatever the handler returns. These calls go through even if their context is
// cancelled, and are bounded by the account's timeout.
type Message struct {
	*queue.Message

	d     *delivery // nil in a handler's own tests
	job   any       // what jobOf has read, such as Typed's *Job[T]
	jobOf preparer
	log   atomic.Pointer[slog.Logger]
}

// Attempt is which delivery this is, counted from 1. Deliveries that a crash or a shutdown cut short
// count as well.
func (m *Message) Attempt() int { return m.DequeueCount }

// LastAttempt says whether a failure now sends the message to the poison queue, unless it turns out to
// be part of an outage (see BreakerConfig).
func (m *Message) LastAttempt() bool {
	if m.d == nil {
		return false
	}
	most := m.d.p.cfg.MaxDequeueCount
	return most != Off && m.d.counted() >= most
}

// KeepsUnreadable says whether the processor wants messages handled that cannot be read
// (Config.KeepUnreadable).
func (m *Message) KeepsUnreadable() bool { return m.d != nil && m.d.p.cfg.KeepUnreadable }

// Log returns a logger that carries account, queue, message_id, dequeue_count and trace_id.
func (m *Message) Log() *slog.Logger {
	if l := m.log.Load(); l != nil {
		return l
	}
	base := slog.New(slog.DiscardHandler)
	if m.d != nil {
		base = m.d.p.log
	}
	args := []any{"message_id", m.ID, "dequeue_count", m.DequeueCount}
	if id := traceID(m.TraceParent); id != "" {
		args = append(args, "trace_id", id)
	}
	l := base.With(args...)
	m.log.Store(l)
	return l
}

// Complete deletes the message. Errors: queue.ErrSettled, queue.ErrLeaseLost, or the service's.
func (m *Message) Complete(ctx context.Context) error {
	err := m.Message.Complete(context.WithoutCancel(ctx))
	m.conflict(metric.ConflictDelete, err)
	return err
}

// Abandon makes the message visible again after the delay (0 to 7 days, whole seconds).
// Errors: as for Complete.
func (m *Message) Abandon(ctx context.Context, delay time.Duration) error {
	err := m.Message.Abandon(context.WithoutCancel(ctx), delay)
	m.conflict(metric.ConflictUpdate, err)
	if err == nil && m.d != nil {
		m.d.p.hidden(delay)
	}
	return err
}

// Renew extends the lease to the visibility timeout from now (1 s to 7 days, whole seconds). The
// processor renews by itself; this is for a handler that wants a longer lease. Errors: as for Complete.
func (m *Message) Renew(ctx context.Context, visibility time.Duration) error {
	err := m.Message.Renew(ctx, visibility)
	if m.d == nil {
		return err
	}
	switch {
	case err == nil:
		m.d.p.leaseMoved(m.d)
	case errors.Is(err, queue.ErrLeaseLost):
		m.d.p.leaseLost(m.d)
	}
	return err
}

// DeadLetter moves the message to the poison queue, category handler. Errors are *poison.MoveError.
func (m *Message) DeadLetter(ctx context.Context, reason string) error {
	c := poison.Case{Category: poison.CategoryHandler, Reason: reason}
	if m.d != nil {
		c = m.d.p.poisonCase(m.d, c.Category, c.Reason, nil)
	}
	err := c.Move(context.WithoutCancel(ctx), m.Message)
	if moved, ok := errors.AsType[*poison.MoveError](err); ok && m.d != nil && !errors.Is(err, queue.ErrSettled) {
		m.d.p.metrics.DeadLetterFailed(string(moved.Stage))
		m.conflict(metric.ConflictDelete, err)
	}
	return err
}

// conflict tells the processor that a settling call of the handler's found the lease lost.
func (m *Message) conflict(operation string, err error) {
	if m.d != nil && errors.Is(err, queue.ErrLeaseLost) {
		m.d.p.metrics.ReceiptConflict(operation)
		m.d.p.leaseLost(m.d)
	}
}

// traceID is the trace id of a W3C traceparent, or "".
func traceID(traceparent string) string {
	const version, id = 3, 32
	if len(traceparent) < version+id+1 || traceparent[version-1] != '-' || traceparent[version+id] != '-' {
		return ""
	}
	return traceparent[version : version+id]
}

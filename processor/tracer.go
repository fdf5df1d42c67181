package processor

import (
	"context"
	"errors"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

// Tracer follows the processing of messages, for spans. It must be fast and safe for concurrent use.
type Tracer interface {
	// Start is called when a worker takes a message up, before anything is decided about it; for a
	// batch, once for all that its handler is given. The handler's context is made from the context
	// it returns, unless that is nil. end is called once, when everything is settled, or given up. A
	// panic is logged, and otherwise ignored.
	Start(ctx context.Context, messages []*Message) (_ context.Context, end func(Ending))
}

// Ending is how the processing of a message, or of a batch, ended.
type Ending struct {
	// Outcome is as in queue_message_processing_duration_seconds: completed, abandoned, dead_lettered,
	// lease_lost, interrupted; "mixed" for a batch whose messages ended in several ways.
	Outcome string
	// ErrorType is the kind of failure, of a small set: permanent, the categories of
	// queue_message_retries_total and of dead-letters, lease_lost. Empty when nothing failed.
	ErrorType string
	// Reason is the failure's text: one line, bounded.
	Reason string
}

// outcomeMixed is the outcome of a batch whose messages ended in several ways.
const outcomeMixed = "mixed"

// trace has the tracer follow a delivery.
func (p *Processor) trace(d *delivery) {
	if p.cfg.Tracer == nil || d.tracing {
		return
	}
	d.tracing = true
	ctx, end := p.startTrace(d.ctx, []*Message{&d.msg})
	d.ctx, d.parent, d.span = ctx, queue.TraceFromContext(ctx).Parent, ctx
	p.mu.Lock()
	d.end = end
	p.mu.Unlock()
}

// settlingIn is the context for the storage calls that settle a delivery: they are part of its trace, and end as
// all of them do.
func (p *Processor) settlingIn(d *delivery) context.Context {
	if d.span == nil {
		return p.settling
	}
	return inSpan{p.settling, context.WithoutCancel(d.span)}
}

// inSpan is a context with another's values.
type inSpan struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c inSpan) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// startTrace calls the tracer. What it panics with, or the lack of a context, leaves the messages untraced.
func (p *Processor) startTrace(ctx context.Context, messages []*Message) (traced context.Context, end func(Ending)) {
	quietly := func(call func()) {
		if err := guard(func() error { call(); return nil }); err != nil {
			p.log.ErrorContext(ctx, "tracer panicked", "error", reason(err))
		}
	}
	var tell func(Ending)
	quietly(func() { traced, tell = p.cfg.Tracer.Start(ctx, messages) })
	if traced == nil {
		traced = ctx
	}
	return traced, func(e Ending) {
		if tell != nil {
			quietly(func() { tell(e) })
		}
	}
}

// traceParent is the trace that the message's measurements belong to: the tracer's, or its sender's.
func (d *delivery) traceParent() string {
	if d.parent != "" {
		return d.parent
	}
	return d.msg.TraceParent
}

// traced tells the tracer how a delivery ended, once.
func (p *Processor) traced(d *delivery, e Ending) {
	if p.cfg.Tracer == nil {
		return
	}
	p.mu.Lock()
	end := d.end
	d.end = nil
	p.mu.Unlock()
	if end != nil {
		end(e)
	}
}

// ending describes the end of a delivery that a handler had.
func ending(outcome string, err error) Ending {
	e := Ending{Outcome: outcome}
	switch {
	case failed(err) && interrupted(err) && (outcome == metric.OutcomeInterrupted || outcome == metric.OutcomeLeaseLost):
		e.ErrorType, e.Reason = outcome, reason(err) // the echo of our own cancelling
	case failed(err):
		e.ErrorType, e.Reason = errorType(err), reason(err)
	case err != nil && outcome == metric.OutcomeDeadLettered: // unreadable, or unroutable
		e.ErrorType, e.Reason = errorType(err), reason(err)
	case outcome == metric.OutcomeLeaseLost:
		e.ErrorType, e.Reason = outcome, "another receiver may have the message"
	}
	return e
}

// errorType is the kind of a failure.
func errorType(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		switch f.kind {
		case kindPermanent:
			return "permanent"
		case kindUnreadable:
			return string(f.category)
		}
	}
	return retryCategory(err)
}

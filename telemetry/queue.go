package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/qwatch/qwatch/queue"
)

var _ queue.Tracer = (*Telemetry)(nil)

func nothing(queue.Call, error) {}

// Begin implements queue.Tracer. A send takes along the span that is active in its context, or its own.
func (t *Telemetry) Begin(ctx context.Context, c queue.Call) (context.Context, func(queue.Call, error)) {
	op, ok := operationOf(c.Kind)
	if !ok {
		return ctx, nothing
	}
	var span trace.Span
	switch {
	case t.all && c.Kind == queue.CallSend:
		ctx, span = t.start(ctx, "Queue.Send", trace.SpanKindProducer, c.Queue, op)
	case t.all && c.Kind == queue.CallReceive:
		ctx, span = t.start(ctx, "Queue.Read", trace.SpanKindClient, c.Queue, op)
	}
	if c.Kind == queue.CallSend && t.spans {
		ctx = carry(ctx)
	}
	if span == nil && t.metrics == nil {
		return ctx, nothing
	}
	began := time.Now()
	return ctx, func(c queue.Call, err error) {
		kind := errorType(err)
		if t.metrics != nil {
			t.metrics.called(ctx, t.labelsOf(c.Queue), op, kind, time.Since(began), len(c.Received))
		}
		if span == nil {
			return
		}
		if c.Kind == queue.CallReceive {
			span.SetAttributes(keyBatchCount.Int(len(c.Received)))
			if len(c.Received) == 1 {
				span.SetAttributes(keyMessageID.String(c.Received[0].ID), keyQueueMessage.String(c.Received[0].ID))
			}
			for _, m := range c.Received {
				if sender := senderOf(m); sender.IsValid() {
					span.AddLink(trace.Link{SpanContext: sender})
				}
			}
		}
		if c.Sent.ID != "" {
			span.SetAttributes(keyMessageID.String(c.Sent.ID), keyQueueMessage.String(c.Sent.ID))
		}
		if err != nil {
			span.SetAttributes(keyErrorType.String(kind))
			span.SetStatus(codes.Error, kind) // the error's text may name what traces should not
		}
		span.End()
	}
}

// start begins a span about a queue.
func (t *Telemetry) start(ctx context.Context, name string, kind trace.SpanKind, q *queue.Queue, op operation) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(t.labelsOf(q).span...),
		trace.WithAttributes(keyOperationName.String(op.name), keyOperationType.String(op.kind)))
}

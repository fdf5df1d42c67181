package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/qwatch/qwatch/queue"
)

const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// senderOf is the span that sent a message, if it says so in a form that W3C allows.
func senderOf(m *queue.Message) trace.SpanContext {
	if m.TraceParent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{headerParent: m.TraceParent, headerState: m.TraceState})
	return trace.SpanContextFromContext(ctx)
}

// carry puts the active span where sends take their trace context from. Without one, what is there stays.
func carry(ctx context.Context) context.Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return queue.ContextWithTrace(ctx, queue.TraceContext{Parent: c[headerParent], State: c[headerState]})
}

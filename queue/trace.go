package queue

import "context"

// TraceContext is a W3C trace context as it travels in an envelope.
type TraceContext struct {
	Parent string // traceparent
	State  string // tracestate
}

type traceKey struct{}

// ContextWithTrace returns a context whose sends carry the trace context, on queues that propagate it.
// The processor puts a message's own into its handler's context.
func ContextWithTrace(ctx context.Context, t TraceContext) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceFromContext returns what ContextWithTrace put in, or the zero value.
func TraceFromContext(ctx context.Context) TraceContext {
	t, _ := ctx.Value(traceKey{}).(TraceContext)
	return t
}

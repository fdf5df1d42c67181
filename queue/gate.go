package queue

import "context"

type gateKey struct{}

// WithGate returns a context whose calls ask the gate before every try, retries included, so that who
// makes many calls can keep to a rate that includes what he does not see. The gate may wait, at the
// expense of the call's time; the call ends with the error it returns.
func WithGate(ctx context.Context, gate func(context.Context) error) context.Context {
	return context.WithValue(ctx, gateKey{}, gate)
}

// pass asks the context's gate, if there is one.
func pass(ctx context.Context) error {
	if gate, ok := ctx.Value(gateKey{}).(func(context.Context) error); ok && gate != nil {
		return gate(ctx)
	}
	return nil
}

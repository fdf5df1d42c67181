package processor

import (
	"context"
	"errors"
	"time"
)

// ErrorPolicy decides what becomes of a message whose handler failed with an error that does not
// say so itself (see Permanent, RetryAfter, Discard). Rules come first, then the function; with
// neither, the message is retried. A rule or function that panics means retry.
type ErrorPolicy struct {
	// DeadLetter are rules for errors that go to the poison queue at once: any that returns true
	// will do. See DeadLetterOn and DeadLetterIs.
	DeadLetter []func(error) bool
	// Func decides about everything else. Its context has the handler's values, but is not cancelled.
	Func func(ctx context.Context, m *Message, err error) Action
}

// Verdict is what to do with a message whose handler failed.
type Verdict int

// The verdicts.
const (
	Retry      Verdict = iota + 1 // deliver it again, unless this was the last attempt
	DeadLetter                    // to the poison queue, category handler
	Complete                      // it was done before: delete it; not counted as a failure
)

// Action is an ErrorPolicy's answer. The zero value retries after the configured delay.
type Action struct {
	Verdict Verdict
	// Delay before a retry: 0 for the configured one, −1 for none.
	Delay time.Duration
}

// DeadLetterOn is a rule for errors of a type, wrapped ones too (errors.As).
func DeadLetterOn[E error]() func(error) bool {
	return func(err error) bool {
		_, ok := errors.AsType[E](err)
		return ok
	}
}

// DeadLetterIs is a rule for an error value, wrapped ones too (errors.Is).
func DeadLetterIs(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// decide asks the policy. It does not panic.
func (p *Processor) decide(d *delivery) (a Action) {
	ctx, m, err := context.WithoutCancel(d.ctx), &d.msg, own(d.err)
	defer func() {
		if v := recover(); v != nil {
			m.Log().ErrorContext(ctx, "error policy panicked; retrying the message", "error", reason(recovered(v)))
			a = Action{Verdict: Retry}
		}
	}()
	for _, rule := range p.cfg.Policy.DeadLetter {
		if rule(err) {
			return Action{Verdict: DeadLetter}
		}
	}
	if p.cfg.Policy.Func != nil {
		a = p.cfg.Policy.Func(ctx, m, err)
	}
	return a
}

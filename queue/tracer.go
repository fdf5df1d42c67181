package queue

import "context"

// CallKind is what a Call does.
type CallKind int

// The kinds of calls.
const (
	CallSend CallKind = iota + 1
	CallReceive
	CallComplete
	CallAbandon
	CallDeadLetter // the removal from the queue, once the copy is on the poison queue, whose send is a call of its own
	CallRenew
)

// String returns the operation's name, as in metrics: "send", "dead_letter", ….
func (k CallKind) String() string {
	switch k {
	case CallSend:
		return "send"
	case CallReceive:
		return "receive"
	case CallComplete:
		return "complete"
	case CallAbandon:
		return "abandon"
	case CallDeadLetter:
		return "dead_letter"
	case CallRenew:
		return "renew"
	default:
		return "unknown"
	}
}

// Call is one call on a queue or on a message of it, its retries included.
type Call struct {
	Kind  CallKind
	Queue *Queue
	// Message is the one that is settled or renewed; nil for a send or a receive.
	Message *Message
	// Received is what a receive brought. Sent is what became of a send. Both are set at the end.
	Received []*Message
	Sent     SendResult
}

// Tracer follows the calls on a queue, for spans and timings. It must be fast and safe for concurrent use.
type Tracer interface {
	// Begin is called before a call. The call goes on with the context it returns: a send takes its
	// trace context from it (see ContextWithTrace). end must not be nil; it is called once, at the end.
	Begin(ctx context.Context, c Call) (_ context.Context, end func(Call, error))
}

// traced runs a call that the queue's tracer follows.
func (q *Queue) traced(ctx context.Context, c Call, do func(context.Context, *Call) error) error {
	c.Queue = q
	ctx, end := q.cfg.Tracer.Begin(ctx, c)
	err := do(ctx, &c)
	end(c, err)
	return err
}

// Watch has f called after each successful renewal, with Unsettled, and when the message is settled,
// with what it became. A second call replaces the function. f must be fast; it may be called from any goroutine.
func (m *Message) Watch(f func(Settlement)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = f
}

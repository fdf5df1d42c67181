package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// SendOptions are a message's circumstances. The zero value sends at once, for 7 days.
type SendOptions struct {
	// Headers travel with the body in an envelope.
	Headers map[string]string
	// Delay hides the message at first: 0 to 7 days, in whole seconds, and less than it lives. An
	// envelope that travels anyway carries it, so that a reader can tell waiting from hiding.
	Delay time.Duration
	// TimeToLive is when an unprocessed message is dropped by the service: at least 1 s, in whole
	// seconds, or Never. Default 7 days.
	TimeToLive time.Duration
	// MessageType is sent as the header Config.TypeHeader.
	MessageType string
	// AllowDuplicates retries a send whose outcome is unknown (a lost response, a server error), so
	// that the message may lie on the queue twice. Without it only refusals are retried.
	AllowDuplicates bool
}

// SendResult is what the service says of an accepted message. Times are of its clock.
type SendResult struct {
	ID            string
	PopReceipt    string // can delete or update the message until someone receives it
	InsertedAt    time.Time
	ExpiresAt     time.Time
	NextVisibleAt time.Time
}

// Send puts a message on the queue: a []byte or string as it is, anything else as the queue's
// serializer writes it (JSON). Faults of the message itself are found before any request is made:
// ErrTooLarge for a text over 64 KiB as it goes on the wire, a delay the message would not outlive,
// characters the wire cannot carry.
//
// With a BodyStore, a body that would make the text too large is put there first: if that fails,
// nothing is sent. If the send fails then, the body is removed again, unless the service may have
// accepted the message all the same.
func (q *Queue) Send(ctx context.Context, body any, opts SendOptions) (SendResult, error) {
	if q.cfg.Tracer == nil {
		return q.send(ctx, body, opts)
	}
	return q.tracedSend(ctx, func(ctx context.Context) (SendResult, error) { return q.send(ctx, body, opts) })
}

// tracedSend runs a send that the tracer follows.
func (q *Queue) tracedSend(ctx context.Context, send func(context.Context) (SendResult, error)) (out SendResult, err error) {
	err = q.traced(ctx, Call{Kind: CallSend}, func(ctx context.Context, c *Call) error {
		out, err = send(ctx)
		c.Sent = out
		return err
	})
	return out, err
}

func (q *Queue) send(ctx context.Context, body any, opts SendOptions) (SendResult, error) {
	b, err := q.marshal(body)
	if err != nil {
		return SendResult{}, fmt.Errorf("send to %s: write the body as text: %w", q, err)
	}
	o, err := opts.check()
	if err != nil {
		return SendResult{}, fmt.Errorf("send to %s: %w", q, err)
	}
	p := q.pack(b, q.envelope(ctx, b, opts), opts.Delay)
	text, err := p.text(ctx)
	if err == nil {
		err = CheckText(text)
	}
	if err != nil {
		p.discard(ctx)
		return SendResult{}, fmt.Errorf("send to %s: %w", q, err)
	}
	out, unknown, err := q.enqueue(ctx, text, o, opts.AllowDuplicates)
	if err != nil && !unknown {
		p.discard(ctx)
	}
	return out, err
}

func (q *Queue) marshal(body any) ([]byte, error) {
	switch v := body.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	case json.RawMessage:
		return v, nil
	default:
		return q.cfg.Serializer.Marshal(body)
	}
}

// envelope returns what must travel with a body, or nil.
func (q *Queue) envelope(ctx context.Context, body []byte, opts SendOptions) *Envelope {
	trace := TraceContext{}
	if q.cfg.PropagateTraceContext {
		trace = TraceFromContext(ctx)
	}
	if len(opts.Headers) == 0 && opts.MessageType == "" && trace.Parent == "" {
		return nil
	}
	env := newEnvelope(body)
	env.TraceParent, env.TraceState = trace.Parent, trace.State
	env.Headers, env.Delay = opts.Headers, opts.Delay
	if opts.MessageType != "" {
		env.Headers = make(map[string]string, len(opts.Headers)+1)
		maps.Copy(env.Headers, opts.Headers)
		env.Headers[q.cfg.TypeHeader] = opts.MessageType
	}
	return env
}

// SendText puts a text on the queue exactly as given: no serializer, envelope, compression, encryption
// or encoding. Headers and MessageType are ignored. It checks and fails like Send.
func (q *Queue) SendText(ctx context.Context, text string, opts SendOptions) (SendResult, error) {
	o, err := opts.check()
	if err == nil {
		err = CheckText(text)
	}
	if err != nil {
		return SendResult{}, fmt.Errorf("send to %s: %w", q, err)
	}
	send := func(ctx context.Context) (SendResult, error) {
		out, _, err := q.enqueue(ctx, text, o, opts.AllowDuplicates)
		return out, err
	}
	if q.cfg.Tracer == nil {
		return send(ctx)
	}
	return q.tracedSend(ctx, send)
}

// enqueue sends a text. Unknown says of a failure that the service may have accepted it all the same.
func (q *Queue) enqueue(ctx context.Context, text string, o *azqueue.EnqueueMessageOptions, twice bool) (out SendResult, unknown bool, err error) {
	err = q.created(ctx, func() error {
		start := q.acct.unambiguous
		if twice {
			start = q.acct.idempotent
		}
		ctx, trace, cancel := start(ctx)
		defer cancel()
		r, err := q.client.EnqueueMessage(ctx, text, o)
		unknown = unknown || trace.ambiguous
		if err != nil {
			return q.wrap(OpSend, err)
		}
		if len(r.Messages) == 1 && r.Messages[0] != nil {
			m := r.Messages[0]
			out = SendResult{ID: val(m.MessageID), PopReceipt: val(m.PopReceipt), InsertedAt: val(m.InsertionTime), ExpiresAt: val(m.ExpirationTime), NextVisibleAt: val(m.TimeNextVisible)}
		}
		return nil
	})
	if err == nil && q.cfg.OnSend != nil {
		q.cfg.OnSend()
	}
	return out, unknown, err
}

// CheckText tells whether the wire can carry a text: 64 KiB of UTF-8 without characters XML forbids.
func CheckText(text string) error {
	if len(text) > MaxTextBytes {
		return tooLarge(len(text))
	}
	return checkXML(text)
}

func (o SendOptions) check() (*azqueue.EnqueueMessageOptions, error) {
	var out azqueue.EnqueueMessageOptions
	lives := DefaultTTL
	switch {
	case o.TimeToLive == Never:
		out.TimeToLive, lives = new(int32(-1)), math.MaxInt64
	case o.TimeToLive == 0:
	case o.TimeToLive < time.Second || o.TimeToLive%time.Second != 0 || o.TimeToLive/time.Second > math.MaxInt32:
		return nil, fmt.Errorf("time to live %v is not whole seconds from 1s up, nor -1 for never", o.TimeToLive)
	default:
		out.TimeToLive, lives = seconds(o.TimeToLive), o.TimeToLive
	}
	if o.Delay != 0 {
		if err := checkVisibility("delay", o.Delay, 0); err != nil {
			return nil, err
		}
		if o.Delay >= lives {
			return nil, fmt.Errorf("delay %v is not shorter than the message lives, %v: nobody could receive it", o.Delay, lives)
		}
		out.VisibilityTimeout = seconds(o.Delay)
	}
	return &out, nil
}

func seconds(d time.Duration) *int32 { return new(int32(d / time.Second)) }

// val reads what the SDK may have left nil.
func val[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

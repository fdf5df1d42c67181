package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Receive takes up to max (1 to 32) messages and hides them for the visibility timeout (1 s to
// 7 days, whole seconds; 0: the queue's). An empty queue gives none, without an error. It is never
// retried: a lost response hides messages and counts a delivery, and a retry would take more.
// A message whose body cannot be read comes back with Err set, beside the healthy ones.
func (q *Queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]*Message, error) {
	if visibility == 0 {
		visibility = q.cfg.VisibilityTimeout
	}
	if err := checkBatch(max); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q, err)
	}
	if err := checkVisibility("visibility timeout", visibility, MinVisibility); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q, err)
	}
	var out []*Message
	err := q.created(ctx, func() error {
		start := time.Now()
		ctx, trace, cancel := q.acct.once(ctx)
		defer cancel()
		n, v := int32(max), int32(visibility/time.Second)
		_, err := q.client.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: &n, VisibilityTimeout: &v})
		if err != nil {
			return q.wrap(OpReceive, err)
		}
		if out, err = q.messages(trace); err != nil {
			return q.wrap(OpReceive, err)
		}
		for _, m := range out {
			m.leased, m.until = true, start.Add(visibility) // from the asking: never later than the service's
		}
		return nil
	})
	return out, err
}

// Peeked is what a peek saw.
type Peeked struct {
	Messages []*Message
	At       time.Time // service clock
}

// Peek looks at up to max (1 to 32) visible messages without changing anything.
func (q *Queue) Peek(ctx context.Context, max int) (Peeked, error) {
	if err := checkBatch(max); err != nil {
		return Peeked{}, fmt.Errorf("peek at %s: %w", q, err)
	}
	ctx, trace, cancel := q.acct.idempotent(ctx)
	defer cancel()
	n := int32(max)
	if _, err := q.client.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: &n}); err != nil {
		return Peeked{}, q.wrap(OpPeek, err)
	}
	ms, err := q.messages(trace)
	if err != nil {
		return Peeked{}, q.wrap(OpPeek, err)
	}
	return Peeked{Messages: ms, At: q.at(trace)}, nil
}

func checkBatch(n int) error {
	if n < 1 || n > MaxReceive {
		return fmt.Errorf("%d messages asked for at once: the service gives 1 to %d", n, MaxReceive)
	}
	return nil
}

// messages turns what the listing policy kept of the answer into messages of this queue.
func (q *Queue) messages(trace *callTrace) ([]*Message, error) {
	list, err := scanMessages(trace.listing)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, nil
	}
	at := q.at(trace)
	ms, out := make([]Message, len(list)), make([]*Message, len(list))
	for i, l := range list {
		m := &ms[i]
		m.q, m.ReceivedAt, out[i] = q, at, m
		m.ID, m.DequeueCount, m.Text, m.receipt = l.id, l.dequeueCount, l.text, l.receipt
		m.InsertedAt, m.ExpiresAt, m.NextVisibleAt = l.inserted, l.expires, l.nextVisible
		m.read()
	}
	return out, nil
}

// read decodes the wire text. What cannot be decoded does not fail the receive.
func (m *Message) read() {
	b, err := m.q.cfg.Encoding.decode(m.Text)
	if err != nil {
		m.Err = err
		return
	}
	if !isEnvelope(b) {
		m.Body = b
		return
	}
	env, err := parseEnvelope(b)
	if err != nil {
		m.Err = err
		return
	}
	m.env, m.Headers, m.Record = env, env.Headers, env.Record
	m.TraceParent, m.TraceState = env.TraceParent, env.TraceState
	m.Body, m.Err = env.body(m.q.cfg.MaxBodyBytes)
}

// Type returns the message's type, from the header Config.TypeHeader.
func (m *Message) Type() string { return m.Headers[m.q.cfg.TypeHeader] }

// TextWithRecord returns the message's text with a poison record in its envelope, as it would go
// on the wire, with the body compressed on request. A message that could not be read is returned
// exactly as it arrived, without a record: a later reader may understand it.
func (m *Message) TextWithRecord(rec Record, compress bool) string {
	if m.Err != nil && m.env == nil {
		return m.Text
	}
	var env Envelope
	if m.env != nil {
		env = *m.env
	} else {
		env = *newEnvelope(m.Body)
	}
	env.Record = &rec
	if compress {
		env = *env.compressed()
	}
	return m.q.cfg.Encoding.encode(env.encode())
}

func lower(s string) string { return strings.ToLower(s) }

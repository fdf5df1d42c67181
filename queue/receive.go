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
//
// Bodies in the body store are fetched, and messages decrypted, before Receive returns, within half of
// the lease. One whose body cannot be had at the moment (the store or the key vault does not answer) is
// released for some minutes instead of being returned, and handed out with Err set at its fifth
// delivery. When no message could be read for such a reason, that is Receive's error, and until the
// store or the vault answers again it takes no more messages.
func (q *Queue) Receive(ctx context.Context, max int, visibility time.Duration) (ms []*Message, err error) {
	ms, err = q.ReceivePacked(ctx, max, visibility)
	for _, m := range ms {
		m.Unpack()
	}
	return ms, err
}

// ReceivePacked is Receive for callers that mind their memory: it leaves compressed bodies as they are,
// however many a receive brings, until Message.Unpack.
func (q *Queue) ReceivePacked(ctx context.Context, max int, visibility time.Duration) (ms []*Message, err error) {
	if q.cfg.Tracer == nil {
		return q.receive(ctx, max, visibility)
	}
	err = q.traced(ctx, Call{Kind: CallReceive}, func(ctx context.Context, c *Call) error {
		ms, err = q.receive(ctx, max, visibility)
		c.Received = ms
		return err
	})
	return ms, err
}

func (q *Queue) receive(ctx context.Context, max int, visibility time.Duration) ([]*Message, error) {
	if visibility == 0 {
		visibility = q.cfg.VisibilityTimeout
	}
	if err := checkBatch(max); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q, err)
	}
	if err := checkVisibility("visibility timeout", visibility, MinVisibility); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q, err)
	}
	if err := q.outage.over(ctx, q); err != nil {
		return nil, err
	}
	var out []*Message
	var start time.Time
	err := q.created(ctx, func() error {
		start = time.Now()
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
	if err != nil {
		return nil, err
	}
	return q.loadReceived(ctx, out, start.Add(visibility/2))
}

// Peeked is what a peek saw.
type Peeked struct {
	Messages []*Message
	At       time.Time // service clock
}

// Peek looks at up to max (1 to 32) visible messages without changing anything. A body in the body
// store is fetched; what cannot be had at the moment leaves its message with Err set.
func (q *Queue) Peek(ctx context.Context, max int) (Peeked, error) {
	peeked, err := q.PeekPacked(ctx, max)
	for _, m := range peeked.Messages {
		m.Unpack()
	}
	return peeked, err
}

// PeekPacked is Peek for callers that mind their memory: it leaves compressed bodies as they are, however many a
// peek sees, until Message.Unpack. Those in a body store are fetched all the same.
func (q *Queue) PeekPacked(ctx context.Context, max int) (Peeked, error) {
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
	q.loadPeeked(ctx, ms)
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

// Type returns the message's type, from the header Config.TypeHeader.
func (m *Message) Type() string { return m.Headers[m.q.cfg.TypeHeader] }

func lower(s string) string { return strings.ToLower(s) }

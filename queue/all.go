package queue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
)

// receiveGrace is how long a receive under way outlives its loop's context. Cutting it off would
// hide what it was about to bring for a whole lease, and burn a delivery.
const receiveGrace = 2 * time.Second

// AllOptions are how All receives. The zero value is usable.
type AllOptions struct {
	// Batch is how many messages one receive may take, 1 to 32. Default 1. With more, messages wait
	// here while the loop's body works on those before them; see All.
	Batch int
	// VisibilityTimeout is each message's lease: 1 s to 7 days, in whole seconds. Default: the queue's.
	VisibilityTimeout time.Duration
	// BackoffMin and BackoffMax are the first and the longest wait after a receive that brought
	// nothing, or that failed; each wait is twice the one before. Default 1 s and 30 s.
	BackoffMin, BackoffMax time.Duration
	// OnReceiveError is told of every receive that failed. Default: the account's logger is told of
	// the first of a row.
	OnReceiveError func(error)
}

func (o AllOptions) withDefaults(q *Queue) AllOptions {
	o.Batch = cmp.Or(o.Batch, 1)
	o.VisibilityTimeout = cmp.Or(o.VisibilityTimeout, q.cfg.VisibilityTimeout)
	o.BackoffMin = cmp.Or(o.BackoffMin, time.Second)
	o.BackoffMax = max(cmp.Or(o.BackoffMax, 30*time.Second), o.BackoffMin)
	return o
}

func (o AllOptions) check() error {
	if err := checkBatch(o.Batch); err != nil {
		return err
	}
	if o.BackoffMin < 0 || o.BackoffMax < 0 {
		return fmt.Errorf("the backoff %v to %v is negative", o.BackoffMin, o.BackoffMax)
	}
	return checkVisibility("visibility timeout", o.VisibilityTimeout, MinVisibility)
}

// All returns every message of the queue as it comes, one at a time, until the context ends: a loop
// over it is a consumer of one's own. It waits while the queue is empty and after a receive that
// failed, whatever the reason. Settling each message, renewing its lease, retries and
// dead-lettering are the loop's; a message it does not settle comes back when its lease lapses.
//
// A message is handed out with at least half of its lease ahead of it, which the iterator renews if it
// must; one whose lease was lost while it waited is passed over. When the loop ends, by break,
// return or panic or because the context ended, messages that were received and not handed out are
// released at once. Options that the service would refuse are told to OnReceiveError and end the
// sequence; without that function they are a panic. Each loop over the sequence is a consumer by itself.
func (q *Queue) All(ctx context.Context, o AllOptions) iter.Seq[*Message] {
	o = o.withDefaults(q)
	return func(yield func(*Message) bool) {
		l := &loop{q: q, o: o, empty: o.BackoffMin, failed: o.BackoffMin}
		if err := o.check(); err != nil {
			err = fmt.Errorf("receive from %s: %w", q, err)
			if o.OnReceiveError == nil {
				panic("queue: " + err.Error())
			}
			o.OnReceiveError(err)
			return
		}
		// A receive under way outlives the context by a grace.
		asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(receiveGrace, cancel) })()
		defer l.release(ctx)
		for ctx.Err() == nil {
			if wait := l.receive(ctx, asking); wait > 0 && !l.pause(ctx, wait) {
				return
			}
			for len(l.waiting) > 0 && ctx.Err() == nil {
				m := l.waiting[0]
				l.waiting = l.waiting[1:]
				if l.fresh(ctx, m) && !yield(m) {
					return
				}
			}
		}
	}
}

// loop is one loop over All.
type loop struct {
	q             *Queue
	o             AllOptions
	waiting       []*Message
	empty, failed time.Duration // the next wait after such a receive
	failures      int           // in a row
}

// receive fills waiting, or returns how long to wait before the next receive.
func (l *loop) receive(ctx, asking context.Context) (wait time.Duration) {
	var err error
	l.waiting, err = l.q.Receive(asking, l.o.Batch, l.o.VisibilityTimeout)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0
	case err != nil:
		l.report(ctx, err)
		l.failures++
		wait, l.failed = l.failed, min(2*l.failed, l.o.BackoffMax)
		return wait
	case l.failures > 0:
		if l.o.OnReceiveError == nil {
			l.q.acct.log.InfoContext(ctx, "receiving again", "queue", l.q.name, "failures", l.failures)
		}
		l.failures, l.failed = 0, l.o.BackoffMin
	}
	if len(l.waiting) > 0 {
		l.empty = l.o.BackoffMin
		return 0
	}
	wait, l.empty = l.empty, min(2*l.empty, l.o.BackoffMax)
	return wait
}

func (l *loop) report(ctx context.Context, err error) {
	switch {
	case l.o.OnReceiveError != nil:
		l.o.OnReceiveError(err)
	case l.failures == 0:
		l.q.acct.log.WarnContext(ctx, "receive failed; trying again until it works", "queue", l.q.name, "error", err)
	}
}

// fresh sees to it that a message has half of its lease ahead of it, and says whether it may be handed out.
func (l *loop) fresh(ctx context.Context, m *Message) bool {
	if time.Until(m.LeaseExpires()) >= l.o.VisibilityTimeout/2 {
		return true
	}
	err := m.Renew(ctx, l.o.VisibilityTimeout)
	return err == nil || m.Settlement() == Unsettled && time.Until(m.LeaseExpires()) > 0
}

// release gives back what was received and not handed out.
func (l *loop) release(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	var all sync.WaitGroup
	for _, m := range l.waiting {
		all.Go(func() { _ = m.Abandon(ctx, 0) }) // if storage refuses, the lease lapses
	}
	all.Wait()
}

// pause waits; it is false when the context ended first.
func (*loop) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

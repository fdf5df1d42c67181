package poison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/queue"
)

// settleTimeout bounds what is done with a message once it was begun: it is not given up half-way when
// the context ends.
const settleTimeout = 20 * time.Second

// ReplayOptions say what to replay, and how.
type ReplayOptions struct {
	Selection
	// DryRun only finds out what would be replayed.
	DryRun bool
	// Rate is how many messages to send a second at most. 0: as fast as it goes.
	Rate float64
	// Canary replays that many first, waits, and goes on only if none of them fails again.
	Canary int
	// CanaryWait is how long to watch the canaries at most; less if the source queue is empty before.
	// Default 1 min.
	CanaryWait time.Duration
	// Sent is told of every message that was sent and removed. It must be quick.
	Sent func(context.Context, Replayed)
}

// Replayed is a message that is on its queue again.
type Replayed struct {
	Entry     *Entry // as it was on the poison queue; not to be kept
	MessageID string // the new one, on the source queue
	// Doubtful says that an earlier replay may have sent it before.
	Doubtful bool
}

func (o ReplayOptions) check() error {
	var errs []error
	if o.Rate < 0 {
		errs = append(errs, fmt.Errorf("a rate of %v messages a second is negative", o.Rate))
	}
	if o.Canary < 0 {
		errs = append(errs, fmt.Errorf("%d canaries are negative", o.Canary))
	}
	if o.CanaryWait < 0 {
		errs = append(errs, fmt.Errorf("a wait of %v for the canaries is negative", o.CanaryWait))
	}
	return errors.Join(errs...)
}

// Replay puts dead-lettered messages back on their queue exactly as they were first sent, trace context,
// headers and all, without the record; they live for 7 days from then on, and have a new id.
//
// Each is marked, sent and then deleted, one at a time, so that nothing is lost whenever the process ends,
// and at most one message is sent twice: the next replay finds its mark, sends it again, and names it in
// MayHaveBeenSent. A text that fills the wire and does not compress has no room for a mark: it is named in Unmarked
// before it is sent. What is begun with a message is finished when the context ends. All copies of a
// message are removed, and only then is it sent; messages of other contents that say they are the same one are sent as
// well, each for itself, and are left alone, in Skipped, when an id is all that names them. Messages that are dead-lettered while it works are
// left for the next time.
//
// The result says how far it came, in the case of an error too. Errors: ErrCanary, those of Walk, and a
// storage error, at which it stops.
func Replay(ctx context.Context, q *queue.Queue, o ReplayOptions) (Result, error) {
	if err := o.check(); err != nil {
		return Result{}, fmt.Errorf("replay to %s: %w", q, err)
	}
	if o.CanaryWait == 0 {
		o.CanaryWait = time.Minute
	}
	t, err := newTask(q, o.Selection)
	if err != nil {
		return Result{}, err
	}
	t.sends = true
	if err := t.plan(ctx); err != nil || o.DryRun {
		t.result.DryRun = o.DryRun
		return t.result, err
	}
	r := &replay{task: t, o: o}
	t.act, t.counted, t.batch = r.act, r.counted, r.batch
	if o.Rate > 0 {
		r.pace = rate.NewLimiter(rate.Limit(o.Rate), 1)
	}
	if o.Canary > 0 && o.Canary < t.result.Chosen {
		r.canary = newCanary(t.q, o.CanaryWait, t.w.seen)
		t.result.Canary = &r.canary.Canary
	}
	err = t.run(ctx)
	return t.result, err
}

// replay is one replay at work.
type replay struct {
	*task
	o      ReplayOptions
	pace   *rate.Limiter
	canary *canary // nil: there are none, or they have passed
}

// act sends a message again and removes it.
func (r *replay) act(ctx context.Context, l *logical, m *queue.Message, e *Entry) (fate, error) {
	if err := r.wait(ctx, m); err != nil {
		return released, err
	}
	// From here on the message is dealt with to the end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	m.Unpack()
	o, err := m.Original(ctx)
	m.Repack()
	if err != nil {
		r.skip(l, err.Error())
		return released, nil
	}
	doubtful := e.MayHaveBeenSent != nil
	if doubtful {
		r.doubt(l)
	}
	marked := true
	switch err := m.Mark(ctx, e.mark(), r.q.Account().Now(), r.w.o.Lease); {
	case errors.Is(err, queue.ErrTooLarge):
		marked = false // the text fills the wire, and does not get smaller
		r.unmarked(l)
	case err != nil:
		return released, fmt.Errorf("replay message %s: %w", l.id, err)
	}
	sent, unknown, err := r.q.Resend(ctx, o)
	switch {
	case unknown:
		if !doubtful {
			r.doubt(l)
		}
		return released, fmt.Errorf("replay message %s: %w: it is not known whether it was sent", l.id, err)
	case err != nil:
		if marked && !doubtful {
			if m.Unmark(ctx) == nil {
				return kept, fmt.Errorf("replay message %s: %w", l.id, err)
			}
		}
		return released, fmt.Errorf("replay message %s: %w", l.id, err)
	}
	if err := m.CompleteReplayed(ctx, o); err != nil {
		if !doubtful {
			r.doubt(l)
		}
		return released, fmt.Errorf("message %s was sent, but is still on the poison queue: %w", l.id, err)
	}
	if r.o.Sent != nil {
		r.o.Sent(ctx, Replayed{Entry: e, MessageID: sent.ID, Doubtful: doubtful})
	}
	if r.canary != nil {
		r.canary.sent(l.id, sent, o)
	}
	return settled, nil
}

// counted waits for the canaries once they are all sent.
func (r *replay) counted(ctx context.Context) error {
	if r.canary == nil || r.result.Done < r.o.Canary || r.open == 0 {
		return nil
	}
	// What failed again came since the walk counted; what this replay removed is gone since.
	err := r.canary.watch(ctx, r.w.total-int64(r.result.Copies), r.tend)
	r.canary.before = nil // the result keeps the rest
	r.canary = nil
	r.w.batch = r.batch()
	return err
}

// batch is how many messages may be in hand at once: no more than are sent within a part of the lease.
func (r *replay) batch() int {
	switch {
	case r.canary != nil:
		return 1 // nothing waits in hand while the canaries are watched
	case r.pace != nil:
		return int(min(max(1, r.o.Rate*r.w.o.Lease.Seconds()/3), queue.MaxReceive))
	}
	return queue.MaxReceive
}

// doubt notes a message that may be on its queue twice.
func (r *replay) doubt(l *logical) {
	if len(r.result.MayHaveBeenSent) < maxSkips {
		r.result.MayHaveBeenSent = append(r.result.MayHaveBeenSent, l.id)
	}
	r.s.Doubtful(l.id)
}

// unmarked notes a message that is about to be sent without a mark.
func (r *replay) unmarked(l *logical) {
	if len(r.result.Unmarked) < maxSkips {
		r.result.Unmarked = append(r.result.Unmarked, l.id)
	}
	r.s.Unmarked(l.id)
}

// wait keeps the pace, and the message's lease meanwhile.
func (r *replay) wait(ctx context.Context, m *queue.Message) error {
	var until time.Time
	if r.pace != nil {
		until = time.Now().Add(r.pace.Reserve().Delay())
	}
	for {
		if time.Until(m.LeaseExpires()) < r.w.o.Lease/2 {
			if err := m.Renew(ctx, r.w.o.Lease); err != nil {
				return err
			}
		}
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		if err := pause(ctx, min(left, r.w.o.Lease/4)); err != nil {
			return err
		}
		if err := r.tend(ctx); err != nil {
			return err
		}
	}
}

// pause lets time pass, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// mark is the record that a message without one is marked with.
func (e *Entry) mark() queue.Record {
	return queue.Record{Category: string(e.Category), Reason: e.Reason, MessageID: e.MessageID, Queue: e.Queue, At: e.InsertedAt}
}

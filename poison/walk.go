package poison

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Limits of a walk.
const (
	// MaxLease is the longest that a walk, killed at any point, hides what it held.
	MaxLease = 30 * time.Second
	// DefaultMaxWalk is how many messages a walk goes through unless told otherwise: it remembers each, in
	// about 50 bytes (250 when it is to replay or delete).
	DefaultMaxWalk = 1_000_000
)

// ErrNotReleased is that a walk could not give messages back: they stay hidden until their lease ends.
var ErrNotReleased = errors.New("messages could not be given back")

// ErrTooDeep is that a poison queue has more messages than a walk may go through.
var ErrTooDeep = errors.New("the poison queue is deeper than the walk may go")

// WalkOptions tune a walk. The zero value is usable.
type WalkOptions struct {
	// Lease is how long messages are hidden at a time: 1 s to 30 s, in whole seconds. Default 30 s.
	Lease time.Duration
	// Max is how many messages to go through at most. Default DefaultMaxWalk.
	Max int
	// Progress is told how far the walk is, after every receive: messages seen, of about so many.
	Progress func(seen int, about int64)
}

func (o WalkOptions) withDefaults() WalkOptions {
	o.Lease = cmp.Or(o.Lease, MaxLease)
	o.Max = cmp.Or(o.Max, DefaultMaxWalk)
	if o.Progress == nil {
		o.Progress = func(int, int64) {}
	}
	return o
}

func (o WalkOptions) check() error {
	if o.Lease < queue.MinVisibility || o.Lease > MaxLease || o.Lease%time.Second != 0 {
		return fmt.Errorf("a lease of %v is not of whole seconds from %v to %v", o.Lease, queue.MinVisibility, MaxLease)
	}
	if o.Max < 0 {
		return fmt.Errorf("a walk of at most %d messages goes nowhere", o.Max)
	}
	return nil
}

// Walk visits every message of q's on its poison queue, of any depth, by receiving and releasing: each
// one's dequeue count rises by one, and the released go to the back of the queue, in the order in which
// they were received. Copies of one message are visited one by one; a Collector joins them. The listing
// it returns is without entries. What was put there after the walk began is not visited, or a walk that feeds
// the queue it goes through would not end.
//
// When it ends, for whatever reason, it holds nothing: the context's end is looked for at every step, and
// what is held then is released. A process that is killed leaves up to 32 messages hidden, for the lease
// at most. The visitor has half of a lease for each 32 messages; its error ends the walk. It must not
// settle the entry's message. A poison queue that does not exist is an empty one.
// Errors: the visitor's, ErrTooDeep, the context's, and what storage answered. A release that fails ends the walk with
// ErrNotReleased, or it would hide the whole queue bit by bit.
func Walk(ctx context.Context, q *queue.Queue, o WalkOptions, visit func(*Entry) error) (Listing, error) {
	w, err := newWalk(q, o)
	if err != nil {
		return Listing{}, err
	}
	var l Listing
	if _, err := w.count(ctx); err != nil { // the first answer tells the service's clock
		return Listing{Partial: true}, err
	}
	until := q.Account().Now().Add(clockError)
	err = w.run(ctx, func(_ context.Context, m *queue.Message) (fate, error) {
		if m.InsertedAt.After(until) {
			return released, nil
		}
		e := entry(q.Name(), m)
		if e.Queue != q.Name() {
			l.Others++
			return released, nil
		}
		return released, visit(&e)
	})
	l.Total, l.Peeked, l.Unseen = w.total, len(w.seen), w.unseen
	l.Partial = err != nil || l.Unseen > 0
	return l, err
}

// clockError is by how much what is known of the service's clock may be wrong, whole seconds included.
const clockError = 2 * time.Second

// fate is what a visitor of messages leaves to the walk.
type fate int

const (
	released fate = iota + 1 // the walk gives it back
	settled                  // it is gone
	kept                     // the visitor keeps it, and gives it back
)

// walk goes through a poison queue once.
type walk struct {
	q, p  *queue.Queue
	light *queue.Queue // the same queue, for looks at which messages are there
	o     WalkOptions
	batch int
	// patience is how long to wait for messages that somebody else hides. 0: not at all.
	patience time.Duration
	waiting  func(hidden int64)          // is told when that begins
	tend     func(context.Context) error // is called now and then
	enough   func() bool                 // ends the walk early

	total   int64 // the count at the beginning
	seen    map[identity]struct{}
	settled int
	unseen  int64
}

func newWalk(q *queue.Queue, o WalkOptions) (*walk, error) {
	o = o.withDefaults()
	if q.Poison() == nil {
		return nil, fmt.Errorf("walk through the poison of %s: it has no poison queue", q)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("walk through %s: %w", q.Poison(), err)
	}
	w := &walk{q: q, p: q.Poison(), o: o, batch: queue.MaxReceive, seen: map[identity]struct{}{}}
	w.tend = func(context.Context) error { return nil }
	w.waiting, w.enough = func(int64) {}, func() bool { return false }
	var err error
	// Looking which messages are there must not fetch bodies from their store, nor unpack them.
	if w.light, err = q.Account().Queue(w.p.Name(), queue.Config{NoPoison: true, MaxBodyBytes: 1}); err != nil {
		w.light = w.p // the account's URL names another queue
	}
	return w, nil
}

// run visits every message once.
func (w *walk) run(ctx context.Context, visit func(context.Context, *queue.Message) (fate, error)) error {
	var err error
	if w.total, err = w.count(ctx); err != nil || w.total == 0 {
		return err
	}
	w.o.Progress(0, w.total)
	var waited time.Duration
	for !w.enough() {
		ahead, err := w.ahead(ctx)
		if err != nil {
			return err
		}
		if ahead > 0 {
			waited = 0
			if _, err := w.step(ctx, min(ahead, w.batch), visit); err != nil {
				return err
			}
			continue
		}
		if err := w.missing(ctx); err != nil || w.unseen == 0 {
			return err
		}
		if waited >= w.patience {
			if w.patience == 0 {
				return nil
			}
			return w.round(ctx, visit)
		}
		if waited == 0 {
			w.waiting(w.unseen)
		}
		if err := w.rest(ctx); err != nil {
			return err
		}
		waited += restFor
	}
	return nil
}

// missing finds out how many messages there are that were not seen, hidden ones included.
func (w *walk) missing(ctx context.Context) error {
	now, err := w.count(ctx)
	if err == nil {
		w.unseen = max(0, now-int64(len(w.seen)-w.settled))
	}
	return err
}

// round goes once more through everything that is visible: what was hidden comes back behind all that was
// given back meanwhile, where no look reaches it.
func (w *walk) round(ctx context.Context, visit func(context.Context, *queue.Message) (fate, error)) error {
	left, err := w.count(ctx)
	if err != nil {
		return err
	}
	for left > 0 && w.unseen > 0 && !w.enough() {
		n, err := w.step(ctx, int(min(left, int64(w.batch))), visit)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		left -= int64(n)
		if err := w.missing(ctx); err != nil {
			return err
		}
	}
	return nil
}

const restFor = time.Second

// rest lets a little time pass.
func (w *walk) rest(ctx context.Context) error {
	if err := pause(ctx, restFor); err != nil {
		return err
	}
	return w.tend(ctx)
}

func (w *walk) count(ctx context.Context) (int64, error) {
	props, err := w.p.Properties(ctx)
	if errors.Is(err, queue.ErrQueueNotFound) {
		return 0, nil
	}
	return props.ApproximateMessages, err
}

// ahead is how many messages to receive for all that were not seen among those that come next: no more,
// or those that were given back would be counted again and change places.
func (w *walk) ahead(ctx context.Context) (n int, err error) {
	peeked, err := w.light.PeekPacked(ctx, queue.MaxReceive)
	if errors.Is(err, queue.ErrQueueNotFound) {
		return 0, nil
	}
	for i, m := range peeked.Messages {
		if _, ok := w.seen[identify(m.ID)]; !ok {
			n = i + 1
		}
	}
	return n, err
}

// step receives some messages, has those visited that were not seen before, and gives back what the visitor
// left. It returns how many were received.
func (w *walk) step(ctx context.Context, n int, visit func(context.Context, *queue.Message) (fate, error)) (received int, err error) {
	ms, err := w.receive(ctx, n)
	if errors.Is(err, queue.ErrQueueNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = both(err, w.release(ctx, ms)) }()
	for i, m := range ms {
		if err := errors.Join(ctx.Err(), w.tend(ctx)); err != nil {
			return len(ms), err
		}
		id := identify(m.ID)
		if _, again := w.seen[id]; again {
			continue
		}
		if len(w.seen) >= w.o.Max {
			return len(ms), fmt.Errorf("walk through %s: %w: %d messages", w.p, ErrTooDeep, w.o.Max)
		}
		w.seen[id] = struct{}{}
		fate, err := visit(ctx, m)
		m.Repack() // one body at a time, whatever the visitor made of it
		switch fate {
		case settled:
			w.settled++
			ms[i] = nil
		case kept:
			ms[i] = nil
		}
		if err != nil {
			return len(ms), err
		}
	}
	w.o.Progress(len(w.seen), w.total)
	return len(ms), nil
}

// receiveGrace is how long a receive outlives the walk's context: cut off, it would hide what it was about
// to bring.
const receiveGrace = 2 * time.Second

func (w *walk) receive(ctx context.Context, n int) ([]*queue.Message, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(receiveGrace, cancel) })()
	return w.p.ReceivePacked(asking, n, w.o.Lease)
}

// Bounds of a release: how long one message may take, and how long the others are tried once one has failed.
const (
	releaseTimeout = 5 * time.Second
	releaseRest    = 2 * time.Second
)

// release gives messages back in the order in which they were received. The error says how many stay hidden; those
// whose lease is lost are somebody else's.
func (w *walk) release(ctx context.Context, ms []*queue.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.o.Lease)
	defer cancel()
	var first error
	hidden := 0
	for _, m := range ms {
		if m == nil || m.Settlement() != queue.Unsettled {
			continue
		}
		err := giveBack(ctx, m)
		if err == nil {
			continue
		}
		hidden++
		if first == nil {
			first = err
			ctx, cancel = context.WithTimeout(ctx, releaseRest)
			defer cancel()
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("walk through %s: %w: %d of them stay hidden until their lease of %v ends: %w", w.p, ErrNotReleased, hidden, w.o.Lease, first)
}

func giveBack(ctx context.Context, m *queue.Message) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := m.Abandon(ctx, 0)
	if errors.Is(err, queue.ErrLeaseLost) || errors.Is(err, queue.ErrSettled) || errors.Is(err, queue.ErrQueueNotFound) {
		return nil
	}
	return err
}

// both is what went wrong, and then the release of what was in hand.
func both(err, released error) error {
	switch {
	case err == nil:
		return released
	case released == nil:
		return err
	}
	return fmt.Errorf("%w; %w", err, released)
}

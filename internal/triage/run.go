package triage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// Queue is a queue whose poison is looked after.
type Queue struct {
	*queue.Queue
	// NoPoison is why it has none; nil when it has.
	NoPoison error
	// History reads the failure records of a message for what it was before it was replayed, the latest first.
	// Nil: none are kept.
	History func(ctx context.Context, messageID string) ([]Earlier, error)
}

// Hooks hear of messages that are gone from the poison queue. Nil ones are not called.
type Hooks struct {
	Replayed func(context.Context, poison.Replayed)
	Deleted  func(context.Context, *poison.Entry)
	Room     Room // for bodies that are told
}

// tellEvery is how often progress is told at most.
const tellEvery = 200 * time.Millisecond

// slowly is how many messages a second are told one by one.
const slowly = 5

// Run carries a command out and tells its events to sink, one after the other, until it ends: the last
// is a summary or a result, also when an error is returned, if anything was begun. An error of sink ends
// it. It holds no message when it returns.
func Run(ctx context.Context, q Queue, c Command, hooks Hooks, sink func(Event) error) error {
	if err := errors.Join(q.NoPoison, c.Check()); err != nil {
		return err
	}
	r := &runner{q: q, c: c, sink: sink, room: hooks.Room}
	switch c.Operation {
	case List:
		return r.list(ctx, func(e *poison.Entry, first bool) error {
			return r.tell(ctx, e, first)
		})
	case Export:
		return r.list(ctx, func(e *poison.Entry, first bool) error {
			if !first {
				return nil
			}
			line, err := e.Line()
			if err != nil {
				return err
			}
			return sink(Event{Line: line})
		})
	case Replay:
		res, err := poison.Replay(ctx, q.Queue, poison.ReplayOptions{
			Selection: r.selection(ctx), DryRun: c.DryRun, Rate: c.Rate,
			Canary: c.Canary, CanaryWait: time.Duration(c.CanaryWait), Sent: hooks.Replayed,
		})
		return r.end(res, err)
	case Delete:
		res, err := poison.Delete(ctx, q.Queue, poison.DeleteOptions{Selection: r.selection(ctx), DryRun: c.DryRun, Deleted: hooks.Deleted})
		return r.end(res, err)
	case Purge:
		return r.purge(ctx, hooks)
	}
	return fmt.Errorf("operation %.40q is none", string(c.Operation))
}

type runner struct {
	q    Queue
	c    Command
	sink func(Event) error
	told time.Time
	room Room
}

// tell tells an entry, its body when there is room for that.
func (r *runner) tell(ctx context.Context, e *poison.Entry, history bool) error {
	if r.c.Body {
		done, err := r.room.unpack(ctx, e.BodyBytes())
		if err != nil {
			return err
		}
		defer done()
	}
	told := r.entry(e)
	if history {
		r.addHistory(ctx, told)
	}
	return r.sink(Event{Entry: told})
}

// entry is one as it is told.
func (r *runner) entry(e *poison.Entry) *Entry {
	out := &Entry{Entry: *e}
	if r.c.Body {
		out.Payload = PayloadOf(e.Message())
		e.Release()
	}
	out.Forget()
	return out
}

// list tells what is chosen: of a walk every copy, and whether it is the first of its message.
func (r *runner) list(ctx context.Context, tell func(e *poison.Entry, first bool) error) error {
	if !r.c.All {
		return r.peek(ctx, tell)
	}
	now, f, n := r.q.Account().Now(), r.c.filter(), 0
	var seen copies
	l, err := poison.Walk(ctx, r.q.Queue, r.walk(), func(e *poison.Entry) error {
		if !f.Chooses(e, now) {
			return nil
		}
		first := seen.first(e)
		if first && r.c.Limit > 0 && n == r.c.Limit {
			return errLimit
		}
		if first {
			n++
		}
		return tell(e, first)
	})
	if errors.Is(err, errLimit) && !errors.Is(err, poison.ErrNotReleased) {
		l.Partial, err = true, nil
	}
	return r.summary(l, err)
}

var errLimit = errors.New("the limit is reached")

func (r *runner) peek(ctx context.Context, tell func(*poison.Entry, bool) error) error {
	l, err := poison.List(ctx, r.q.Queue)
	if err != nil {
		return err
	}
	now, f, n := r.q.Account().Now(), r.c.filter(), 0
	for i := range l.Entries {
		e := &l.Entries[i]
		if !f.Chooses(e, now) {
			continue
		}
		if r.c.Limit > 0 && n == r.c.Limit {
			l.Partial = true
			break
		}
		n++
		if err = tell(e, true); err != nil {
			break
		}
	}
	return r.summary(l, err)
}

func (r *runner) summary(l poison.Listing, err error) error {
	return errors.Join(err, r.sink(Event{Summary: &Summary{Total: l.Total, Peeked: l.Peeked, Others: l.Others, Partial: l.Partial, Unseen: l.Unseen}}))
}

func (r *runner) end(res poison.Result, err error) error {
	e := Event{Result: &res}
	if err != nil {
		e.Error = err.Error()
	}
	if told := r.sink(e); err == nil {
		err = told
	}
	return err
}

func (r *runner) walk() poison.WalkOptions {
	return poison.WalkOptions{Lease: time.Duration(r.c.Lease), Progress: func(seen int, about int64) {
		if r.due(false) {
			_ = r.sink(Event{Looking: &Progress{int64(seen), about}}) // it fails again at what matters
		}
	}}
}

func (r *runner) due(last bool) bool {
	if !last && time.Since(r.told) < tellEvery {
		return false
	}
	r.told = time.Now()
	return true
}

func (r *runner) selection(ctx context.Context) poison.Selection {
	s := poison.Selection{
		All: r.c.All, Filter: r.c.filter(), Limit: r.c.Limit, Walk: r.walk(),
		Progress: func(done, chosen int) {
			// What comes slowly is told each time, and so is that the canaries are out: the next may take a while.
			if r.due(done == chosen || done == r.c.Canary || r.c.Rate > 0 && r.c.Rate < slowly) {
				_ = r.sink(Event{Progress: &Progress{int64(done), int64(chosen)}})
			}
		},
		Waiting:  func(hidden int64) { _ = r.sink(Event{Waiting: &hidden}) },
		Doubtful: func(id string) { _ = r.sink(Event{Doubtful: id}) },
		Unmarked: func(id string) { _ = r.sink(Event{Unmarked: id}) },
	}
	if r.c.DryRun {
		s.Chosen = func(e *poison.Entry) error { return r.tell(ctx, e, false) }
	}
	return s
}

// purge deletes everything of the queue's. It never clears the poison queue at one stroke: that would take
// other queues' messages with it, which this configuration need not know of, and what arrives meanwhile.
func (r *runner) purge(ctx context.Context, hooks Hooks) error {
	l, err := poison.List(ctx, r.q.Queue)
	if err != nil {
		return err
	}
	r.c.All = l.Partial // what one look saw whole needs no walk
	res, err := poison.Delete(ctx, r.q.Queue, poison.DeleteOptions{Selection: r.selection(ctx), DryRun: r.c.DryRun, Deleted: hooks.Deleted})
	return r.end(res, err)
}

// copies remembers which messages were told. The zero value is ready.
type copies map[string]struct{}

func (c *copies) first(e *poison.Entry) bool {
	if *c == nil {
		*c = copies{}
	}
	id := e.Key()
	if _, seen := (*c)[id]; seen {
		return false
	}
	(*c)[id] = struct{}{}
	return true
}

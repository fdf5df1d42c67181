package poison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Selection is what a replay or a deletion is about.
type Selection struct {
	// All goes through the whole poison queue, twice: first to see what there is, with every copy of it,
	// then to act; see Walk. Without it, the messages that one peek sees are all there is.
	All    bool
	Filter Filter
	// Limit is how many messages to choose at most. 0: all.
	Limit int
	// Walk tunes the walks.
	Walk WalkOptions
	// Patience is how long to wait for messages that somebody hides, such as an earlier run that was
	// killed. Default: a lease and 5 s. −1: not at all.
	Patience time.Duration

	// Chosen is told of every message that is chosen, before anything is done. The entry, with its
	// message, must not be kept. Its error ends everything.
	Chosen func(*Entry) error
	// Progress is told how far the work is: messages dealt with, of so many chosen.
	Progress func(done, chosen int)
	// Waiting is told when hidden messages are waited for.
	Waiting func(hidden int64)
	// Doubtful is told of each message that goes into Result.MayHaveBeenSent, before it is sent again.
	Doubtful func(messageID string)
	// Unmarked is told of each message that goes into Result.Unmarked, before it is sent: should the process be
	// killed just then, this is all that tells.
	Unmarked func(messageID string)
}

// Result is what became of the messages that were chosen.
type Result struct {
	Chosen int `json:"chosen"` // messages, however many copies there are of each
	Done   int `json:"done"`   // replayed or deleted
	Copies int `json:"copies"` // removed from the poison queue
	Left   int `json:"left"`   // chosen, but not met again: gone meanwhile, or hidden by somebody else
	// Unseen is how many messages, about, a walk through the whole poison queue could not look at, because
	// somebody else hid them for longer than the patience: nothing is known of them, nor done with them.
	Unseen int64 `json:"unseen,omitempty"`
	DryRun bool  `json:"dryRun,omitempty"`
	// MayHaveBeenSent are original ids of messages that may be on their queue twice now, or may have been
	// sent without being counted: a replay before this one was interrupted at them, or this one did not
	// learn whether they were accepted.
	MayHaveBeenSent []string `json:"mayHaveBeenSent,omitempty"`
	// Unmarked are original ids of messages that could not be marked before they were sent, for their texts fill
	// the wire and do not compress: a replay that was killed at one of them has left nothing for the next to find.
	Unmarked []string `json:"unmarked,omitempty"`
	Skipped  []Skip   `json:"skipped,omitempty"` // left where they are, and why
	Canary   *Canary  `json:"canary,omitempty"`
}

// Skip is a message that was left alone.
type Skip struct {
	MessageID string `json:"messageId"`
	Reason    string `json:"reason"`
}

// logical is a message with all its copies.
type logical struct {
	id     string // the original's
	key    identity
	other  *logical // says that it is the same message, and has other contents
	unsure bool     // whether it has
	named  bool     // by the id of a copy
	copies int
	chosen bool
	done   bool
	held   []*queue.Message // copies in hand, while others are still to come
}

// task acts on what was chosen, one message at a time.
type task struct {
	q       *queue.Queue
	s       Selection
	w       *walk
	planned map[identity]*logical // by copy
	open    int                   // chosen and not dealt with
	result  Result
	holding map[*logical]struct{}
	sends   bool // what is chosen is sent, rather than deleted
	// act deals with a message, of which m is the only copy left, and says whether it is gone.
	act     func(ctx context.Context, l *logical, m *queue.Message, e *Entry) (fate, error)
	counted func(context.Context) error // after one was dealt with
	batch   func() int                  // how many messages to receive at once
}

func newTask(q *queue.Queue, s Selection) (*task, error) {
	if s.Progress == nil {
		s.Progress = func(int, int) {}
	}
	if s.Waiting == nil {
		s.Waiting = func(int64) {}
	}
	if s.Doubtful == nil {
		s.Doubtful = func(string) {}
	}
	if s.Unmarked == nil {
		s.Unmarked = func(string) {}
	}
	if s.Chosen == nil {
		s.Chosen = func(*Entry) error { return nil }
	}
	if s.Limit < 0 {
		return nil, fmt.Errorf("a limit of %d messages chooses nothing", s.Limit)
	}
	t := &task{q: q, s: s, planned: map[identity]*logical{}, holding: map[*logical]struct{}{}}
	t.counted, t.batch = func(context.Context) error { return nil }, func() int { return queue.MaxReceive }
	_, err := t.walk()
	return t, err
}

// walk starts a walk.
func (t *task) walk() (*walk, error) {
	o := t.s.Walk
	w, err := newWalk(t.q, o)
	if err != nil {
		return nil, err
	}
	switch w.patience, w.waiting = t.s.Patience, t.s.Waiting; {
	case w.patience == 0:
		w.patience = w.o.Lease + 5*time.Second
	case w.patience < 0:
		w.patience = 0
	}
	t.w = w
	return w, nil
}

// plan finds out what is chosen, and every copy of it.
func (t *task) plan(ctx context.Context) error {
	now := t.q.Account().Now()
	all, ids := map[identity]*logical{}, t.ids()
	take := func(m *queue.Message) error {
		e := entry(t.q.Name(), m)
		if e.Queue != t.q.Name() {
			return nil
		}
		id, key := identify(e.Queue, e.MessageID), identify(e.Key())
		l := all[id].same(key)
		if l == nil {
			l = &logical{id: e.MessageID, key: key, other: all[id]}
			all[id] = l
		}
		l.copies++
		l.unsure = l.unsure || e.unsure
		l.named = l.named || ids[e.PoisonMessageID]
		t.planned[identify(m.ID)] = l
		if l.chosen || t.s.Limit > 0 && t.result.Chosen == t.s.Limit || !t.s.Filter.Chooses(&e, now) {
			return nil
		}
		l.chosen = true
		t.result.Chosen++
		return t.s.Chosen(&e)
	}
	if err := t.look(ctx, take); err != nil {
		return err
	}
	t.result.Unseen = t.w.unseen
	for id, l := range t.planned {
		if !l.chosen {
			delete(t.planned, id)
		}
	}
	t.open = t.result.Chosen
	for _, l := range all {
		t.doubles(l)
	}
	return nil
}

func (t *task) look(ctx context.Context, take func(*queue.Message) error) error {
	if t.s.All {
		return t.w.run(ctx, func(_ context.Context, m *queue.Message) (fate, error) { return released, take(m) })
	}
	peeked, err := t.w.p.PeekPacked(ctx, queue.MaxReceive)
	if errors.Is(err, queue.ErrQueueNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range peeked.Messages {
		t.w.seen[identify(m.ID)] = struct{}{}
		err := take(m)
		m.Repack()
		if err != nil {
			return err
		}
	}
	return nil
}

// maxAhead is how far behind other messages those of a peek are looked for.
const maxAhead = 16 * queue.MaxReceive

// run acts on everything that was planned.
func (t *task) run(ctx context.Context) (err error) {
	if t.open == 0 {
		return nil
	}
	w, err := t.walk()
	if err != nil {
		return err
	}
	if !t.s.All {
		w.o.Max = min(w.o.Max, maxAhead)
	}
	w.o.Progress = func(int, int64) {}
	w.batch = t.batch()
	w.tend, w.enough = t.tend, func() bool { return t.open == 0 }
	// What is held when it ends waits for copies that did not come.
	defer func() {
		for l := range t.holding {
			if err = both(err, w.release(ctx, l.held)); err == nil {
				t.skip(l, "a copy of it is hidden by somebody else; try again in half a minute")
			}
		}
		t.result.Left = t.open
	}()
	t.s.Progress(0, t.result.Chosen)
	err = w.run(ctx, t.visit)
	if !t.s.All && errors.Is(err, ErrTooDeep) {
		return nil
	}
	return err
}

func (t *task) visit(ctx context.Context, m *queue.Message) (fate, error) {
	l := t.planned[identify(m.ID)]
	switch {
	case l == nil || l.done:
		return released, nil
	case l.copies > 1:
		return t.gather(ctx, l, m)
	}
	return t.deal(ctx, l, m)
}

// gather holds the copies of a message until they are all in hand: only then may all but one of them go.
func (t *task) gather(ctx context.Context, l *logical, m *queue.Message) (fate, error) {
	if len(t.holding) >= maxHeld && len(l.held) == 0 {
		return released, nil
	}
	l.held = append(l.held, m)
	t.holding[l] = struct{}{}
	if len(l.held) < l.copies {
		return kept, nil
	}
	delete(t.holding, l)
	var last *queue.Message
	for _, h := range l.held { // a mark must not get lost with a copy
		if last == nil || h.Record != nil && !h.Record.Replayed.IsZero() {
			last = h
		}
	}
	settle := func() (fate, error) {
		for _, h := range l.held {
			if h == last {
				continue
			}
			if err := h.CompleteReplayed(context.WithoutCancel(ctx), nil); err != nil {
				return released, fmt.Errorf("remove a copy of message %s: %w", l.id, err)
			}
			t.result.Copies++
			t.w.settled++
		}
		return t.deal(ctx, l, last)
	}
	f, err := settle()
	if f == settled {
		t.w.settled++
	} else {
		err = both(err, t.w.release(ctx, l.held))
	}
	return kept, err
}

// maxHeld is how many messages may wait for their copies at once.
const maxHeld = 256

// tend keeps the leases of what waits for its copies.
func (t *task) tend(ctx context.Context) error {
	for l := range t.holding {
		for i := 0; i < len(l.held); i++ {
			m := l.held[i]
			if time.Until(m.LeaseExpires()) > t.w.o.Lease/2 {
				continue
			}
			if err := m.Renew(ctx, t.w.o.Lease); err != nil {
				if !errors.Is(err, queue.ErrLeaseLost) {
					return err
				}
				err = t.w.release(ctx, l.held) // not all copies can be had: leave the message
				delete(t.holding, l)
				l.held = nil
				t.skip(l, "a copy of it was taken by somebody else; try again")
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// deal acts on a message of which m is the only copy.
func (t *task) deal(ctx context.Context, l *logical, m *queue.Message) (fate, error) {
	e := entry(t.q.Name(), m)
	f, err := t.act(ctx, l, m, &e)
	if errors.Is(err, queue.ErrLeaseLost) { // it will be there again, for whoever has it now
		t.skip(l, "it was taken by somebody else; try again")
		return f, nil
	}
	if f == settled {
		l.done = true
		t.open--
		t.result.Done++
		t.result.Copies++
		t.s.Progress(t.result.Chosen-t.open, t.result.Chosen)
		return f, t.counted(ctx)
	}
	return f, err
}

// maxSkips bounds what is told one by one.
const maxSkips = 1000

// skip leaves a message where it is.
func (t *task) skip(l *logical, why string) {
	l.done = true
	t.open--
	if len(t.result.Skipped) < maxSkips {
		t.result.Skipped = append(t.result.Skipped, Skip{l.id, why})
	}
}

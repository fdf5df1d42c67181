package queue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// loaders is how many messages of one receive are read at a time, where reading asks somebody.
	loaders = 8
	// loadGrace is how long a reader is waited for after its context is done.
	loadGrace = time.Second
	// absences is how many times in a row a message could not be read for now when it is handed out all
	// the same, with Err set.
	absences = 5
	// A message that cannot be read for now stays away for absenceMin, then twice as long each time.
	absenceMin = time.Minute
	absenceMax = 5 * time.Minute
)

// loaded is what a loader made of a message.
type loaded struct {
	i       int
	read    *Message // a copy of the message's contents
	absence *absence
}

// load reads what is unfinished of the messages, before the deadline, and returns each one's absence or nil.
// A store that ends its goroutine, or outlives the deadline, is absent. The loaders work on copies: one
// that is late finds nobody.
func (q *Queue) load(ctx context.Context, ms []*Message, deadline time.Time) []*absence {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var (
		out   = make([]*absence, len(ms))
		slot  = make(chan struct{}, loaders)
		done  = make(chan loaded, len(ms))
		open  int
		over  = ctx.Done()
		grace <-chan time.Time
	)
	for i, m := range ms {
		if !m.unfinished() {
			continue
		}
		out[i] = &absence{part: "read the message", err: errEnded, sealed: m.sealed}
		open++
		go loadAside(ctx, loaded{i, m.contents(), out[i]}, slot, done)
	}
	for open > 0 {
		select {
		case l := <-done:
			open--
			out[l.i] = l.absence
			ms[l.i].take(l.read)
		case <-over:
			over, grace = nil, time.After(loadGrace)
		case <-grace:
			return out
		}
	}
	return out
}

// loadAside reads a message when there is a slot, and is done however that ends.
func loadAside(ctx context.Context, l loaded, slot chan struct{}, done chan<- loaded) {
	defer func() { done <- l }()
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		l.absence = &absence{part: l.absence.part, err: ctx.Err(), sealed: l.absence.sealed}
		return
	}
	defer func() { <-slot }()
	l.absence = l.read.load(ctx) // never, if that ends the goroutine
}

// contents is a copy of what reading a message changes.
func (m *Message) contents() *Message {
	return &Message{
		Body: m.Body, Headers: m.Headers, TraceParent: m.TraceParent, TraceState: m.TraceState, Delay: m.Delay, Record: m.Record, Err: m.Err,
		q: m.q, env: m.env, sealed: m.sealed, packed: m.packed,
	}
}

// take takes over what was read.
func (m *Message) take(c *Message) {
	m.Body, m.Headers, m.TraceParent, m.TraceState, m.Delay, m.Record, m.Err = c.Body, c.Headers, c.TraceParent, c.TraceState, c.Delay, c.Record, c.Err
	m.env, m.sealed, m.packed = c.env, c.sealed, c.packed
}

func unfinished(ms []*Message) bool {
	for _, m := range ms {
		if m.unfinished() {
			return true
		}
	}
	return false
}

// loadPeeked finishes reading what a peek saw. What may pass is an error here as well.
func (q *Queue) loadPeeked(ctx context.Context, ms []*Message) {
	if !unfinished(ms) {
		return
	}
	for i, a := range q.load(ctx, ms, time.Now().Add(q.acct.cfg.Timeout)) {
		if a != nil {
			ms[i].Err = a
		}
	}
}

// loadReceived finishes reading what a receive brought. It returns the messages that can be handed out.
func (q *Queue) loadReceived(ctx context.Context, ms []*Message, deadline time.Time) ([]*Message, error) {
	if !unfinished(ms) {
		return ms, nil
	}
	if latest := time.Now().Add(q.acct.cfg.Timeout); latest.Before(deadline) {
		deadline = latest
	}
	var (
		kept  = make([]*Message, 0, len(ms))
		away  []*Message
		first *absence
	)
	for i, a := range q.load(ctx, ms, deadline) {
		m := ms[i]
		if a != nil && first == nil {
			first = a
		}
		switch {
		case a == nil:
			m.absences = q.absent.ended(m.ID)
			kept = append(kept, m)
		case ctx.Err() == nil && q.absent.again(m.ID) >= absences:
			m.absences = q.absent.ended(m.ID)
			m.Err = fmt.Errorf("%w: at delivery %d: %w", ErrUnreadable, m.DequeueCount, a)
			kept = append(kept, m)
		default:
			away = append(away, m)
		}
	}
	ended := ctx.Err() != nil // the caller's doing, then, and nobody's absence
	q.release(ctx, away, ended)
	switch {
	case first == nil:
		q.outage.mended(ctx, q)
		return kept, nil
	case ended && len(kept) == 0:
		return nil, fmt.Errorf("receive from %s: %w", q, ctx.Err())
	case ended:
		return kept, nil
	}
	q.outage.began(ctx, q, first)
	if len(kept) == 0 {
		return nil, fmt.Errorf("receive from %s: %w", q, first)
	}
	return kept, nil
}

// absentees counts how often each message could not be read for now. Deliveries that the handler
// spent do not count: a message that was readable before is not given up at the store's first absence.
// It is this process's memory, and safe for concurrent use.
type absentees struct {
	mu sync.Mutex
	of map[string]absent
}

type absent struct {
	row int // in a row
	all int
}

// maxAbsentees bounds the memory. Beyond it, counting begins anew.
const maxAbsentees = 10_000

// again counts another time, and returns how many there were in a row.
func (a *absentees) again(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= maxAbsentees {
		a.of = map[string]absent{}
	}
	n := a.of[id]
	n.row++
	n.all++
	a.of[id] = n
	return n.row
}

// ended ends a row, and returns how many times there were in all.
func (a *absentees) ended(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, known := a.of[id]
	if known {
		n.row = 0
		a.of[id] = n
	}
	return n.all
}

// forget drops a message that is gone.
func (a *absentees) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, id)
}

// release gives messages back that could not be read: at once if nobody tried for long enough, else
// for later. Where that fails, the lease lapses.
func (q *Queue) release(ctx context.Context, ms []*Message, atOnce bool) {
	ctx = context.WithoutCancel(ctx)
	var all sync.WaitGroup
	for _, m := range ms {
		var delay time.Duration
		if !atOnce {
			delay = min(absenceMin<<min(max(0, m.DequeueCount-1), absences), absenceMax)
			// Hidden for longer than it lives, the message would be dropped unseen.
			if left := m.ExpiresAt.Sub(m.ReceivedAt); delay >= left {
				delay = max(0, (left / 2).Truncate(time.Second))
			}
		}
		all.Go(func() { _ = m.Abandon(ctx, delay) })
	}
	all.Wait()
}

package collector

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/qwatch/qwatch/queue"
)

const (
	peekSize = 32
	// neverYear is the year in which messages expire that never do.
	neverYear = 9999
)

// maxReasons is the room for what pollReasons returns.
const maxReasons = 7

// pollReasons returns why a poll can fail, in the order of reading.failures. What is none
// of them counts as the last one.
func pollReasons() []queue.Result {
	return []queue.Result{
		queue.ResultNotFound, queue.ResultAuth, queue.ResultThrottled, queue.ResultTimeout,
		queue.ResultNetwork, queue.ResultServer, queue.ResultOther,
	}
}

// reasonIndex returns the reason's place in pollReasons.
func reasonIndex(r queue.Result) int {
	reasons := pollReasons()
	if i := slices.Index(reasons, r); i >= 0 {
		return i
	}
	return len(reasons) - 1
}

// answer is what one poll brought.
type answer struct {
	start, end time.Time // local clock
	err        error     // the first thing that went wrong
	missing    bool      // the service said that the queue is not there
	counted    bool      // count and metadata are there
	count      Count
	metadata   map[string]string
	peeked     bool // peek and head are there
	peek       Peek
	head       head
	clamped    bool // its age would have been negative
	spared     bool // nobody peeked, because there was nothing to see
}

// ask polls once. It makes no more than two requests, neither of which changes anything. The peek at a
// queue that is empty may be spared.
func ask(ctx context.Context, s *spec, spare bool) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	a.start = time.Now()
	defer func() { a.end = time.Now() }()

	props, err := s.queue.Properties(ctx)
	if err != nil {
		a.err, a.missing = err, errors.Is(err, queue.ErrQueueNotFound)
		return a
	}
	a.counted, a.metadata = true, props.Metadata
	a.count = Count{Known: true, Messages: props.ApproximateMessages, At: time.Now()}
	if s.target.CountsOnly {
		return a
	}
	if spare && props.ApproximateMessages == 0 {
		a.look(queue.Peeked{At: props.At}, a.count.At)
		a.spared = true
		return a
	}
	seen, err := s.queue.PeekPacked(ctx, peekSize)
	if err != nil {
		a.err, a.missing = err, errors.Is(err, queue.ErrQueueNotFound)
		return a
	}
	a.look(seen, time.Now())
	return a
}

// look draws from a peek what is kept of it. The age is told by the service's clock alone.
func (a *answer) look(peeked queue.Peeked, now time.Time) {
	n := len(peeked.Messages)
	p := Peek{Known: true, At: now, Visible: n, Full: n >= peekSize}
	h := head{at: peeked.At.Unix(), seen: make([]seen, n)}
	for i, m := range peeked.Messages {
		age := peeked.At.Sub(m.InsertedAt)
		if age < 0 {
			age, a.clamped = 0, true
		}
		if i == 0 || age > p.OldestAge {
			p.OldestAge = age
		}
		expires := !m.ExpiresAt.IsZero() && m.ExpiresAt.Year() < neverYear
		if expires && (p.NextExpiration.IsZero() || m.ExpiresAt.Before(p.NextExpiration)) {
			p.NextExpiration = m.ExpiresAt
		}
		p.MaxDequeueCount = max(p.MaxDequeueCount, m.DequeueCount)
		h.seen[i] = seen{id: hashOf(m.ID), inserted: m.InsertedAt.Unix(), delivered: int32(min(m.DequeueCount, math.MaxInt32))}
		if expires {
			h.seen[i].expires = m.ExpiresAt.Unix()
		}
	}
	a.peeked, a.peek, a.head = true, p, h
}

// with returns the reading after one more poll.
func (r *reading) with(a answer, s *spec) *reading {
	n := *r
	n.polls++
	n.longer = 0
	n.lastPoll, n.lastDuration = a.end, a.end.Sub(a.start)
	if a.missing {
		n.exists, n.existsAt = No, a.end
		n.count, n.peek, n.hidden, n.hiddenAt, n.metadata = Count{}, Peek{}, 0, time.Time{}, nil
		if s.kind == KindPoison { // nothing was ever moved there: it is empty, and that is an answer
			n.count = Count{Known: true, At: a.end}
			if !s.target.CountsOnly {
				n.peek, n.hiddenAt = Peek{Known: true, At: a.end}, a.end
			}
			return n.succeeded(a)
		}
		return n.failed(a)
	}
	if a.counted {
		n.exists, n.existsAt = Yes, a.count.At
		n.count, n.metadata = a.count, sameMetadata(n.metadata, a.metadata)
		n.peek = a.peek // unknown when the peek failed
	}
	if a.clamped {
		n.clamped++
	}
	if a.peeked && !a.peek.Full {
		n.hidden, n.hiddenAt = max(a.count.Messages-int64(a.peek.Visible), 0), a.peek.At
	}
	if a.err != nil {
		return n.failed(a)
	}
	return n.succeeded(a)
}

func (r *reading) succeeded(a answer) *reading {
	r.up, r.reason, r.err, r.lastSuccess = true, "", "", a.end
	return r
}

func (r *reading) failed(a answer) *reading {
	i := reasonIndex(queue.Classify(a.err))
	r.up, r.reason, r.err = false, pollReasons()[i], a.err.Error()
	r.failures[i]++
	return r
}

// polled says whether there was a poll.
func (r *reading) polled() bool { return !r.lastPoll.IsZero() }

// failing says whether the last poll failed.
func (r *reading) failing() bool { return r != nil && r.polled() && !r.up }

// forgotten returns a reading that knows nothing but what was counted.
func (r *reading) forgotten(kind Kind) *reading {
	return &reading{
		polls: r.polls, failures: r.failures, clamped: r.clamped,
		history: newHistory(r.history.epoch, kind), interval: r.interval,
	}
}

// poll polls a watch, keeps what it brought, and sets when it is polled again.
func (c *Collector) poll(ctx context.Context, a *account, w *watch) {
	s := w.spec.Load()
	var got answer
	if asking, stop, ok := a.begin(ctx, w); ok {
		got = ask(queue.WithGate(asking, a.paid()), s, w.spare)
		stop()
	}
	if ctx.Err() != nil {
		return // the end of Run, or of the account: neither the queue's fault nor its state
	}
	for _, line := range a.finish(w, s, got) {
		c.log.LogAttrs(ctx, line.level, line.message, line.attrs...)
	}
	if _, answered := a.ref.Load().Skew(); answered {
		c.contact(a.name)
	}
	a.poke()
}

// begin returns the context of a poll, which ends when the watch is removed; false when it is removed already.
func (a *account) begin(ctx context.Context, w *watch) (context.Context, context.CancelFunc, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.removed {
		return nil, nil, false
	}
	ctx, w.stop = context.WithCancel(ctx)
	return ctx, w.stop, true
}

// finish keeps what a poll brought and puts the watch back on the agenda. It returns what is to be logged.
func (a *account) finish(w *watch, s *spec, got answer) []line {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	w.polling, w.stop = false, nil // which would keep all that the context knows
	if w.removed {
		return nil
	}
	var lines []line
	if w.spec.Load().samePlace(s) {
		old := w.last.Load()
		r := old.with(got, s)
		r.history = old.history.next(w.observe(got, r, s), a.facts(s))
		if w.peeks++; !got.spared {
			w.peeks = 0
		}
		before := w.pace.every
		a.setPace(w, a.paceOf(w, s, r, got.end))
		r.interval = a.stretched(w.pace.every)
		w.last.Store(r)
		if s.kind == KindMain && w.pair != nil {
			a.rouse(w.pair, got.end)
		}
		lines = a.incidents.changed(w, old, r)
		if got.counted {
			lines = append(lines, a.own(w, old, r, got.end)...)
		}
		a.reschedule(w, before, got.end)
	}
	a.agenda.add(w)
	return lines
}

// observe returns what a poll tells the judge. The account's lock is held.
func (w *watch) observe(a answer, r *reading, s *spec) observation {
	o := observation{at: a.end.Sub(r.history.epoch), interval: r.interval}
	if !r.up {
		o.failed, o.missing = uint8(1+reasonIndex(r.reason)), a.missing
		return o
	}
	o.count, o.peeked, o.head = r.count.Messages, r.peek.Known, a.head
	if s.kind != KindMain {
		return o
	}
	if t := s.target; t.Busy != nil {
		o.busy = t.Busy()
	}
	if t := s.target; t.Held != nil {
		o.held = t.Held()
	}
	if w.pair != nil {
		o.poisoned = w.pair.last.Load().history.gains
	}
	return o
}

// facts returns what the judge wants to know of the queue itself.
func (a *account) facts(s *spec) facts {
	return facts{
		kind: s.kind, monitorOnly: s.target.MonitorOnly, objective: s.target.Objective,
		handlerLimit: s.target.HandlerTimeLimit, patience: a.patience,
	}
}

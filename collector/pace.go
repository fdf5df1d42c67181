package collector

import (
	"math"
	"time"
)

const (
	// peekEvery is the share of polls of an empty queue that peek all the same: the service's count is
	// never too low, so that there is nothing to see, but the permission to look may have gone.
	peekEvery = 10
	// quietPolls is how many polls in a row must have found a poison queue empty before it counts as quiet.
	quietPolls = 5
	// largeAccount is how many targets make an account so large that quiet poison queues are polled less,
	// and quietIntervals by how much.
	largeAccount   = 1000
	quietIntervals = 3
	// scaledFor is how long a queue keeps its interval after a scaler asked about it.
	scaledFor = 10 * time.Minute
)

// pace is how often a watch is polled, and what that takes, before everything is stretched to fit the limit.
type pace struct {
	every time.Duration
	cost  float64 // requests a poll
}

// load returns the requests a second that a watch takes. Jitter makes intervals a little shorter on average.
func (p pace) load() float64 {
	if p.every <= 0 {
		return 0
	}
	return p.cost / (p.every.Seconds() * (1 - jitter/2))
}

// busiest is the pace of a queue of which nothing is known yet.
func (s *spec) busiest() pace { return pace{s.interval, float64(s.requests())} }

// paceOf says how often a watch is to be polled after what was seen. Main queues that have been idle for some
// time are polled rarely, and so are, in large accounts, poison queues that have long been empty meanwhile.
// The account's lock is held.
func (a *account) paceOf(w *watch, s *spec, r *reading, now time.Time) pace {
	p := s.busiest()
	if !r.up || r.count.Messages > 0 {
		return p
	}
	if !s.target.CountsOnly {
		p.cost = 1 + 1./peekEvery
	}
	switch {
	case s.kind == KindMain && a.isIdle(r.history, now) && !w.isScaled(s, now):
		p.every = s.idle
	case s.kind == KindPoison && r.history.empties >= quietPolls && w.pair != nil && a.rests(w.pair.last.Load(), now):
		p.every = s.quiet
	}
	return p
}

// rests says whether nothing can come from a main queue into its poison queue, as far as one can tell: it has long been
// idle, and holds nothing now.
func (a *account) rests(r *reading, now time.Time) bool {
	return r.count.Messages == 0 && a.isIdle(r.history, now)
}

// rouse has the poison queue of a main queue polled at its interval again at once, when there are messages in the
// main queue, not only when its own turn comes. The account's lock is held.
func (a *account) rouse(w *watch, now time.Time) {
	s, r := w.spec.Load(), w.last.Load()
	p := a.paceOf(w, s, r, now)
	if p.every >= w.pace.every {
		return
	}
	a.setPace(w, p)
	every := a.stretched(p.every)
	w.last.Store(r.every(every))
	a.soon(w, now.Add(time.Duration(w.phase*float64(every))))
}

// isIdle says whether a main queue has been idle for half a patience.
func (a *account) isIdle(h *history, now time.Time) bool {
	return h.status == StatusIdle && now.Sub(h.epoch)-h.since >= a.patience.quick()
}

// isScaled says whether a scaler needs to know about the queue.
func (w *watch) isScaled(s *spec, now time.Time) bool {
	return s.target.Scaled || now.UnixNano() < w.scaled.Load()
}

// Scaled says that a scaler asks about a queue: for ten minutes it is polled at its interval, however idle it
// is. The name is the main queue's; one that is not watched is passed over. It is cheap enough to be called
// with every question.
func (c *Collector) Scaled(account, name string) {
	f := c.fleet.Load()
	a := f.account(account)
	w := kept(f.byID[id{account, name}], KindMain)
	if a == nil || w == nil {
		return
	}
	now := time.Now()
	was := w.scaled.Swap(now.Add(scaledFor).UnixNano())
	if now.UnixNano() < was {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := w.spec.Load(); !w.removed {
		a.soon(w, now.Add(a.stretched(s.interval)))
	}
}

// soon moves a watch forward, when it is due later than that.
func (a *account) soon(w *watch, latest time.Time) {
	if !w.due.After(latest) {
		return
	}
	w.due = latest
	if !w.polling {
		a.agenda.moved(w)
		a.poke()
	}
}

// setPace changes what a watch takes of the account's limit. The account's lock is held.
func (a *account) setPace(w *watch, p pace) {
	a.load = max(0, a.load-w.pace.load()+p.load())
	w.pace = p
}

// stretched returns the effective interval: d as stretched by what all watches of the account take, in
// whole milliseconds.
func (a *account) stretched(d time.Duration) time.Duration {
	if a.load <= a.limit {
		return d
	}
	return stretch(d, a.load/a.limit)
}

func stretch(d time.Duration, by float64) time.Duration {
	if by <= 1 {
		return d
	}
	return time.Duration(math.Ceil(d.Seconds()*by*1000)) * time.Millisecond
}

package collector

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// fleet is everything that is watched. It never changes: SetTargets makes a new one, in
// which the watches of queues that stay are the same.
type fleet struct {
	watches     []*watch   // by account, queue, main before poison
	accounts    []*account // by name
	byID        map[id][]*watch
	warnings    []string
	discoveries []discovered // by account
}

// watch is one physical queue that is polled, and what the polls have shown.
type watch struct {
	id    // the account and the main queue
	kind  Kind
	phase float64 // share of an interval, (0, 1], between its first poll and its second

	spec atomic.Pointer[spec]
	last atomic.Pointer[reading] // written under the account's mu

	scaled atomic.Int64 // Unix nanoseconds until which a scaler needs to know about it

	// Under the account's mu.
	due     time.Time
	started bool // its first poll is done
	polling bool
	stop    context.CancelFunc // of the last poll
	removed bool
	pos     int    // in the account's agenda
	pair    *watch // the one of its poison queue or of its main queue, if that is polled
	pace    pace
	peeks   int       // polls since the last one that peeked
	spare   bool      // the poll that runs may do without
	owner   Ownership // by metadata
	ownerAt time.Time // since when; zero: never said
}

func (w *watch) view(now time.Time) view { return viewOf(w.spec.Load(), w.last.Load(), now) }

// spec is how a queue is polled and exported, as of the newest SetTargets. It never changes.
type spec struct {
	account    string
	kind       Kind
	given      *Target      // as it was given
	target     *Target      // with the ownership that holds
	queue      *queue.Queue // the one that is polled
	poisonName string
	first      bool          // the target's thresholds are exported with this one
	interval   time.Duration // asked for
	idle       time.Duration // asked for while it is idle; a main queue's
	quiet      time.Duration // asked for while it is quiet; a poison queue's
	labels     labelSets
}

// requests returns how many requests a poll makes.
func (s *spec) requests() int {
	if s.target.CountsOnly {
		return 1
	}
	return 2
}

// timeout bounds a poll.
func (s *spec) timeout() time.Duration { return min(s.interval, MaxPollTime) }

// samePlace says whether both poll the same physical queue.
func (s *spec) samePlace(o *spec) bool {
	return s.queue.Name() == o.queue.Name() && s.queue.Account().URL() == o.queue.Account().URL()
}

// inherit takes from the spec before what is still right, because a large fleet is set often.
func (s *spec) inherit(before *spec, l *labeller) {
	if before.queue.Account() == s.queue.Account() && before.queue.Name() == s.queue.Name() {
		s.queue = before.queue
	} else {
		s.queue = forPolling(s.queue)
	}
	if before.identity() == s.identity() {
		s.labels = before.labels
	} else {
		s.labels = l.sets(s)
	}
}

// light is the MaxBodyBytes of a queue that is only polled.
const light = 1

// forPolling returns the queue as a poll needs it. A poll looks at counts and times, so that
// what a body inflates to, of 32 messages at once, must not be the watcher's burden.
func forPolling(q *queue.Queue) *queue.Queue {
	if cfg := q.Config(); cfg.MaxBodyBytes == light && cfg.BodyStore == nil {
		return q
	}
	polled, err := q.Account().Queue(q.Name(), queue.Config{NoPoison: true, MaxBodyBytes: light})
	if err != nil { // the account's URL names another queue
		return q
	}
	return polled
}

// account returns the named account, or nil.
func (f *fleet) account(name string) *account {
	i, ok := slices.BinarySearchFunc(f.accounts, name, func(a *account, name string) int { return cmp.Compare(a.name, name) })
	if !ok {
		return nil
	}
	return f.accounts[i]
}

// specsOf returns what there is to poll for the targets.
func specsOf(targets []Target) []*spec {
	given := make(map[id]bool, len(targets))
	isPoison := map[id]bool{} // a target that is another's poison queue
	for _, t := range targets {
		given[t.id()] = true
	}
	for _, t := range targets {
		if p := t.Queue.Poison(); p != nil {
			isPoison[id{t.id().account, p.Name()}] = true
		}
	}
	specs := make([]*spec, 0, 2*len(targets))
	for _, t := range targets {
		k := t.id()
		s := spec{account: k.account, kind: KindMain, given: &t, target: &t, queue: t.Queue, interval: t.Interval, first: true}
		poison := t.Queue.Poison()
		switch {
		case isPoison[k]:
			s.kind, s.poisonName = KindPoison, t.Queue.Name()
		case poison != nil:
			s.poisonName = poison.Name()
		}
		if !t.PoisonOnly {
			specs = append(specs, &s)
		}
		if poison == nil || s.kind == KindPoison || given[id{k.account, poison.Name()}] {
			continue
		}
		p := s
		p.kind, p.queue, p.first = KindPoison, poison, t.PoisonOnly
		specs = append(specs, &p)
	}
	return specs
}

// set gives the account what it polls from now on, and returns the watches in the order of specs.
func (a *account) set(specs []*spec, p plan, old *fleet, l *labeller) []*watch {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan = p
	stay := make(map[*watch]bool, len(specs))
	watches := make([]*watch, len(specs))
	phase := 1 - a.random.Float64()
	var owner Ownership // of a main queue, and of its poison queue, which follows
	for i, s := range specs {
		k := s.target.id()
		w := kept(old.byID[k], s.kind)
		if s.first {
			if w != nil {
				owner = w.owner
			} else {
				owner, _ = ownershipOf(s.given.metadata)
			}
		}
		s.target = s.given.owned(owner)
		if w == nil {
			s.queue, s.labels = forPolling(s.queue), l.sets(s)
			if s.first { // and its poison queue, which follows, with it
				phase = 1 - a.random.Float64()
			}
			w = &watch{id: k, kind: s.kind, phase: phase, due: now, owner: owner}
			a.setPace(w, s.busiest())
			w.last.Store(&reading{history: newHistory(a.epoch, s.kind)})
			w.spec.Store(s)
			a.agenda.add(w)
		} else {
			s.inherit(w.spec.Load(), l)
			a.respec(w, s, now)
		}
		stay[w], watches[i] = true, w
		w.pair = nil
		if i > 0 && s.kind == KindPoison && watches[i-1].id == w.id {
			watches[i-1].pair, w.pair = w, watches[i-1]
		}
	}
	for _, w := range a.watches {
		if !stay[w] {
			a.remove(w)
		}
	}
	a.watches = watches
	a.load = 0
	for _, w := range watches {
		a.load += w.pace.load()
	}
	for _, w := range watches {
		if r := w.last.Load(); !r.polled() { // it waits as long as all the others do
			w.last.Store(r.every(a.stretched(w.pace.every)))
		}
	}
	a.poke()
	return watches
}

// kept returns the watch of that kind among those of a target, or nil.
func kept(of []*watch, k Kind) *watch {
	for _, w := range of {
		if w.kind == k {
			return w
		}
	}
	return nil
}

// respec gives a watch its new spec. What was seen of another physical queue is forgotten; what was counted is not.
func (a *account) respec(w *watch, s *spec, now time.Time) {
	same := w.spec.Load().samePlace(s)
	w.spec.Store(s)
	r := w.last.Load()
	if !same {
		a.incidents.note(r, nil)
		r = r.forgotten(s.kind)
		w.due, w.started = now, false
		if !w.polling {
			a.agenda.moved(w)
		}
	}
	a.setPace(w, a.paceOf(w, s, r, now))
	w.last.Store(r.every(a.stretched(w.pace.every)))
	// Not all at once, when all intervals became shorter.
	a.soon(w, now.Add(time.Duration(w.phase*float64(w.last.Load().interval))))
}

func (a *account) remove(w *watch) {
	w.removed = true
	a.setPace(w, pace{})
	a.incidents.note(w.last.Load(), nil)
	switch {
	case !w.polling:
		a.agenda.drop(w)
	case w.stop != nil:
		w.stop()
	}
}

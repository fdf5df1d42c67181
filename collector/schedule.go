package collector

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/queue"
)

// account polls the queues of one storage account, in a loop of its own: what one account
// does never changes the rhythm of another.
type account struct {
	name    string
	ref     atomic.Pointer[queue.Account]
	labels  []*dto.LabelPair // of the account's own series
	limiter *rate.Limiter
	turned  atomic.Int64  // Unix nanoseconds of the loop's last turn; 0: it does not run
	wake    chan struct{} // there may be something to do
	listed  chan struct{} // the account is to be listed at once

	random *rand.Rand // under mu
	epoch  time.Time  // what histories count from

	mu        sync.Mutex
	limit     float64 // requests/s; +Inf: none
	patience  patience
	plan      plan
	load      float64 // requests/s that all watches take
	watches   []*watch
	agenda    agenda // those that are not being polled
	running   int    // polls
	incidents incidents
}

func newAccount(name string, seed uint64, epoch time.Time, l *labeller) *account {
	return &account{
		name: name, labels: l.make(l.account, func(string) string { return name }),
		wake: make(chan struct{}, 1), listed: make(chan struct{}, 1), incidents: incidents{},
		random: rand.New(rand.NewPCG(seed, hashOf(name))), epoch: epoch,
	}
}

// configure takes what of the configuration is for the account alone.
func (a *account) configure(cfg Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.patience = patience(cfg.Patience)
	limit := cfg.limit()
	if a.limiter != nil && limit == a.limit {
		return
	}
	a.limit = limit
	r, burst := rate.Inf, 0
	if !math.IsInf(limit, 1) {
		// A small burst: a few queues are polled at once, and no second sees much more than the limit.
		r, burst = rate.Limit(limit), max(2, int(limit/10))
	}
	if a.limiter == nil {
		a.limiter = rate.NewLimiter(r, burst)
		return
	}
	a.limiter.SetLimit(r)
	a.limiter.SetBurst(burst)
}

func (a *account) turn(now time.Time) { a.turned.Store(now.UnixNano()) }

func (a *account) lastTurn() time.Time {
	ns := a.turned.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func (a *account) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run polls what is due until the context ends, then waits for the polls that are running.
func (a *account) run(ctx context.Context, c *Collector) {
	var polls sync.WaitGroup
	defer a.turned.Store(0)
	defer polls.Wait()
	work := make(chan *watch)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		a.turn(now)
		w, wait := a.next(now)
		if w != nil {
			select {
			case work <- w: // to one that has nothing to do
			default:
				polls.Go(func() { a.work(ctx, c, w, work) })
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-timer.C:
		}
	}
}

// work polls what it is given, and then what there is, until there is nothing for a while: a goroutine that
// has polled before has a stack that is large enough.
func (a *account) work(ctx context.Context, c *Collector, w *watch, work <-chan *watch) {
	const patient = 10 * time.Second
	timer := time.NewTimer(patient)
	defer timer.Stop()
	for {
		c.poll(ctx, a, w)
		timer.Reset(patient)
		select {
		case w = <-work:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// next takes the watch to poll now, or returns how long to wait before asking again.
func (a *account) next(now time.Time) (*watch, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.agenda) == 0 || a.running >= a.plan.slots {
		return nil, heartbeat
	}
	w := a.agenda[0]
	if wait := w.due.Sub(now); wait > 0 {
		return nil, min(wait, heartbeat)
	}
	if !a.limiter.AllowN(now, 1) { // for its first request; the others ask as they come
		missing := (1 - a.limiter.TokensAt(now)) / float64(a.limiter.Limit())
		return nil, min(max(time.Duration(missing*float64(time.Second)), time.Millisecond), heartbeat)
	}
	a.agenda.drop(w)
	w.polling = true
	w.spare = w.last.Load().up && w.peeks+1 < peekEvery
	a.running++
	return w, 0
}

// pass waits until the account's limit has room for one more request.
func (a *account) pass(ctx context.Context) error {
	if err := a.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the request limit: %w", cmp.Or(ctx.Err(), context.DeadlineExceeded))
	}
	return nil
}

// paid is pass, but the first request has been paid for.
func (a *account) paid() func(context.Context) error {
	first := true
	return func(ctx context.Context) error {
		if first {
			first = false
			return nil
		}
		return a.pass(ctx)
	}
}

// uniform returns a random number in [0, 1).
func (a *account) uniform() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.random.Float64()
}

// jitter is by how much of an interval two polls may be closer than it. Neither queues nor replicas
// march in step then, nor the polls with what goes on in a queue: one that is always looked at in
// the same moment of its rhythm would seem to stand still.
const jitter = 0.1

// reschedule sets when the watch is polled again. The rhythm is kept: a poll that comes late
// does not move those after it, and those that were missed are not made up for, but one. before is how often
// the watch was to be polled until now.
func (a *account) reschedule(w *watch, before time.Duration, now time.Time) {
	every := w.last.Load().interval
	step := time.Duration((1 - jitter*a.random.Float64()) * float64(every))
	switch {
	case !w.started: // the first round comes at once; from then on an account's polls are spread
		w.started = true
		step = time.Duration(w.phase * float64(every))
	case before < min(every, w.pace.every) && w.last.Load().history.empties >= quietPolls:
		// Many fall asleep together, and must not march in step from then on. One that only woke for a moment keeps its rhythm.
		step = before + time.Duration(a.random.Float64()*float64(every-before))
	}
	w.due = w.due.Add(step)
	if missed := now.Sub(w.due); missed >= every {
		w.due = w.due.Add(missed.Truncate(every))
	}
}

// agenda is a heap of watches, the one due first on top.
type agenda []*watch

func (g *agenda) add(w *watch)   { heap.Push(g, w) }
func (g *agenda) drop(w *watch)  { heap.Remove(g, w.pos) }
func (g *agenda) moved(w *watch) { heap.Fix(g, w.pos) }

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (g agenda) Len() int { return len(g) }

func (g agenda) Less(i, j int) bool { return g[i].due.Before(g[j].due) }

func (g agenda) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].pos, g[j].pos = i, j
}

// Push appends a watch.
func (g *agenda) Push(x any) {
	w := x.(*watch)
	w.pos = len(*g)
	*g = append(*g, w)
}

// Pop removes the last watch.
func (g *agenda) Pop() any {
	old := *g
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*g = old[:len(old)-1]
	return w
}

package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// contactTime is how long Contacted waits for accounts that do not answer.
	contactTime = 10 * time.Second
	// heartbeat is how often at least every loop turns.
	heartbeat = 5 * time.Second
	// wedged is how long a loop may go without a turn until Config.Beat is no longer called.
	wedged = 30 * time.Second
)

// Config says what to watch, and how eagerly.
type Config struct {
	// Targets are the queues to watch; SetTargets and SetFleet replace them. Default: none.
	Targets []Target
	// Discovery finds further queues by listing accounts, one for each at most; SetFleet replaces it.
	// Default: none.
	Discovery []Discovery
	// Interval between two polls of a queue. Default 1m, at least MinInterval.
	Interval time.Duration
	// IdleInterval between two polls of a main queue that has been idle for half of Patience, and that
	// no scaler asks about.
	// Default 5m, or Interval when that is longer; at least Interval; -1: Interval.
	IdleInterval time.Duration
	// PoisonIdleInterval between two polls of a poison queue that was empty five times in a row, while its
	// main queue is idle and empty. Default: Interval, and in accounts with more than 1,000 targets three times
	// that; -1: Interval.
	PoisonIdleInterval time.Duration
	// RequestsPerSecond bounds what the collector asks of each account: a poll is one request for
	// the properties, and one peek unless CountsOnly, or there is nothing to see; retries and the
	// listings of discovery count too. When not all polls fit, all intervals of the account are
	// stretched alike; Warnings tells of accounts where that happens when no queue is idle.
	// Default 100; -1: no limit.
	RequestsPerSecond float64
	// Patience is how long a visible message may go untouched until nobody is said to take
	// messages: half of it where every message is visible, and longer where somebody may be
	// working on one, or has been slow before. Everything else that statuses wait for is a part
	// or a multiple of it. Default 10m, at least a second.
	Patience time.Duration
	// Compact exports the compact set of series, for large fleets: without what few will ask of
	// thousands of queues (how long a poll took, how many there were), and without samples that are
	// nearly always 0, such as the statuses that a queue does not have. Absent then means 0.
	Compact bool
	// Owns says whether this process polls a queue and its poison queue; the name is the main queue's. What
	// it does not own has no state and no series here. It is asked whenever the fleet is made, must be fast and
	// safe for concurrent use, and must not call the collector; Reselect has it asked anew. Accounts
	// are listed whether their queues are owned or not. Default: it polls all.
	Owns func(account, queue string) bool
	// Beat is called every few seconds for as long as every account's loop turns. It must
	// be fast. Default: nobody is told.
	Beat func()
	// Logger gets one line an incident. Default: nothing is logged.
	Logger *slog.Logger
}

// WithDefaults returns the configuration with its defaults filled in.
func (c Config) WithDefaults() Config {
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.RequestsPerSecond == 0 {
		c.RequestsPerSecond = 100
	}
	if c.IdleInterval == 0 {
		c.IdleInterval = max(5*time.Minute, c.Interval)
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Minute
	}
	if c.Owns == nil {
		c.Owns = func(string, string) bool { return true }
	}
	if c.Beat == nil {
		c.Beat = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Interval < MinInterval {
		errs = append(errs, fmt.Errorf("interval %v is shorter than %v", c.Interval, MinInterval))
	}
	if r := c.RequestsPerSecond; r != -1 && !(r > 0 && !math.IsInf(r, 1)) {
		errs = append(errs, fmt.Errorf("%v requests per second is neither positive nor -1 for no limit", r))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"idle interval", c.IdleInterval}, {"poison idle interval", c.PoisonIdleInterval}} {
		if d.d != -1 && d.d != 0 && d.d < c.Interval {
			errs = append(errs, fmt.Errorf("%s %v is shorter than the interval of %v", d.name, d.d, c.Interval))
		}
	}
	if c.Patience < time.Second {
		errs = append(errs, fmt.Errorf("patience %v is shorter than a second", c.Patience))
	}
	return errors.Join(errs...)
}

// rarely sets how often a queue is polled while it is idle or quiet, in an account with so many queues.
func (c Config) rarely(s *spec, queues int) {
	s.idle, s.quiet = max(s.interval, c.IdleInterval), max(s.interval, c.PoisonIdleInterval)
	if c.PoisonIdleInterval == 0 && queues > 2*largeAccount {
		s.quiet = quietIntervals * s.interval
	}
}

// limit returns RequestsPerSecond as the planner takes it.
func (c Config) limit() float64 {
	if c.RequestsPerSecond == -1 {
		return math.Inf(1)
	}
	return c.RequestsPerSecond
}

// Collector polls queues and keeps what it saw. Its methods are safe for concurrent use.
type Collector struct {
	log   *slog.Logger
	beat  func()
	seed  uint64 // of what is random
	epoch time.Time

	families    atomic.Pointer[[]family] // by name
	fleet       atomic.Pointer[fleet]
	setting     sync.Mutex // guards what follows, and is held while a new fleet is made
	cfg         Config     // without targets and discovery: the fleet has them
	given       []Target
	discoveries map[string]*finder // by account
	changed     chan struct{}      // a new fleet is there
	ran         atomic.Bool

	contacted chan struct{}
	contactMu sync.Mutex
	awaited   map[string]bool // accounts without an answer; nil before Run and once contacted is closed
}

// New returns a collector, which does nothing until Run. Errors tell every fault of the
// configuration and the targets. It makes no request.
func New(cfg Config) (*Collector, error) { return newCollector(cfg, rand.Uint64()) }

func newCollector(cfg Config, seed uint64) (*Collector, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	c := &Collector{
		log: cfg.Logger.With("component", "collector"), beat: cfg.Beat, seed: seed, epoch: time.Now(),
		changed: make(chan struct{}, 1), contacted: make(chan struct{}),
	}
	c.fleet.Store(&fleet{})
	if err := c.SetConfig(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// Warnings returns what the operator should know about the present targets: accounts whose
// polls do not fit into the request limit, with the interval they really get.
func (c *Collector) Warnings() []string { return slices.Clone(c.fleet.Load().warnings) }

// Polled returns how many queues are polled here, poison queues counted.
func (c *Collector) Polled() int { return len(c.fleet.Load().watches) }

// Contacted is closed once every account that was there when Run started has answered, if
// only with an error, or 10 s after that.
func (c *Collector) Contacted() <-chan struct{} { return c.contacted }

// LastTurn returns the account whose loop has gone longest without a turn, and when that
// turn was. A healthy loop turns at least every 5 s, whatever storage does. The time is zero
// when no loop runs.
func (c *Collector) LastTurn() (account string, at time.Time) {
	for _, a := range c.fleet.Load().accounts {
		if t := a.lastTurn(); !t.IsZero() && (at.IsZero() || t.Before(at)) {
			account, at = a.name, t
		}
	}
	return account, at
}

// Run polls until the context ends, and then returns nil once the polls that were running
// have stopped. It can be called once.
func (c *Collector) Run(ctx context.Context) error {
	if !c.ran.CompareAndSwap(false, true) {
		return errors.New("collector: run: it ran before")
	}
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer cancel()

	running := map[*account]context.CancelFunc{}
	warned := ""
	c.await(c.fleet.Load())
	giveUp := time.NewTimer(contactTime)
	defer giveUp.Stop()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		f := c.fleet.Load()
		for _, a := range f.accounts {
			if running[a] == nil {
				loopCtx, stop := context.WithCancel(ctx)
				running[a] = stop
				a.turn(time.Now())
				loops.Go(func() { a.run(loopCtx, c) })
				loops.Go(func() { a.discover(loopCtx, c) })
			}
		}
		for a, stop := range running {
			if !slices.Contains(f.accounts, a) {
				stop()
				delete(running, a)
			}
		}
		warned = c.warn(f, warned)
		if _, at := c.LastTurn(); at.IsZero() || time.Since(at) < wedged {
			c.beat()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-tick.C:
		case <-giveUp.C:
			c.contact("")
		}
	}
}

// warn logs the warnings unless it has just logged the same.
func (c *Collector) warn(f *fleet, before string) string {
	now := fmt.Sprint(f.warnings)
	if now != before {
		for _, w := range f.warnings {
			c.log.Warn("polls do not fit the request limit", "reason", w)
		}
	}
	return now
}

// await notes the accounts that Contacted waits for.
func (c *Collector) await(f *fleet) {
	c.contactMu.Lock()
	defer c.contactMu.Unlock()
	c.awaited = make(map[string]bool, len(f.accounts))
	for _, a := range f.accounts {
		c.awaited[a.name] = true
	}
	c.closeContacted()
}

// contact notes that an account answered; "" stands for all of them.
func (c *Collector) contact(account string) {
	c.contactMu.Lock()
	defer c.contactMu.Unlock()
	if c.awaited == nil {
		return
	}
	if account == "" {
		clear(c.awaited)
	}
	delete(c.awaited, account)
	c.closeContacted()
}

func (c *Collector) closeContacted() {
	if len(c.awaited) == 0 {
		c.awaited = nil
		close(c.contacted)
	}
}

package processor

import (
	"time"

	"github.com/qwatch/qwatch/internal/metric"
)

// State is what a processor is at.
type State int

// The states.
const (
	StateWaiting  State = iota + 1 // for Config.Ready, or for Run to be called
	StateRunning                   // receiving
	StatePaused                    // not receiving; what it holds goes on
	StateDraining                  // shutting down
	StateStopped                   // Run has returned
)

// String returns "waiting", "running", "paused", "draining" or "stopped".
func (s State) String() string {
	switch s {
	case StateWaiting:
		return "waiting"
	case StateRunning:
		return "running"
	case StatePaused:
		return "paused"
	case StateDraining:
		return "draining"
	case StateStopped:
		return "stopped"
	default:
		return "unknown"
	}
}

// Status is what a processor is doing.
type Status struct {
	Account, Queue  string
	State           State
	Handlers        int           // running now
	MaxHandlers     int           // Config.Concurrency
	BreakerOpen     bool          // not receiving, but for probes, because handlers fail as a whole
	BreakerAge      time.Duration // how long it has been open; 0 when it is closed
	OldestHandler   time.Duration // how long the longest-running one has been running; 0 when none runs
	ReceiveFailures int           // since the last receive that worked
	LastReceive     time.Time     // the last receive that worked, empty or not; zero before the first
	LastTurn        time.Time     // when the loop last showed that it is alive; zero before Run
	// Held is how many messages are invisible on the processor's account: leased, in a retry delay, or
	// left to their lease.
	Held int
	// Handled is how many handler calls have ended since New, whatever came of them, and HandlerTime how
	// long they took together.
	Handled     uint64
	HandlerTime time.Duration
	LastError   string // the class of the present receive failures, such as "auth"; "" when there are none
}

// Status returns what the processor is doing. It waits for nothing.
func (p *Processor) Status() Status {
	s := Status{Account: p.q.Account().Name(), Queue: p.q.Name(), MaxHandlers: p.cfg.Concurrency}
	now := p.now()
	p.mu.Lock()
	s.State, s.Handlers, s.Held = p.state, p.handlers, p.handlers+p.finishing
	if p.paused && p.state == StateRunning {
		s.State = StatePaused
	}
	if p.first != nil {
		s.OldestHandler = now - p.first.since
	}
	p.mu.Unlock()
	s.Held += p.held.count(now)
	if since, open := p.breaker.opened(); open {
		s.BreakerOpen, s.BreakerAge = true, now-since
	}
	s.ReceiveFailures = int(p.receives.failures.Load())
	s.LastReceive, s.LastTurn = unix(p.lastReceive.Load()), unix(p.lastTurn.Load())
	s.Handled, s.HandlerTime = p.handled.Load(), time.Duration(p.handlerTime.Load())
	if class := p.lastError.Load(); class != nil {
		s.LastError = string(*class)
	}
	return s
}

func unix(nano int64) time.Time {
	if nano == 0 {
		return time.Time{}
	}
	return time.Unix(0, nano)
}

// Pause stops receiving until Resume. What is held already is handled and settled as usual. A receive
// under way still brings what it brings. It does not wait.
func (p *Processor) Pause() { p.setPaused(true) }

// Resume ends Pause, and receives at once.
func (p *Processor) Resume() { p.setPaused(false) }

// Paused says whether Pause was called, and Resume not since. Status tells it only of a processor that would
// otherwise receive.
func (p *Processor) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

func (p *Processor) setPaused(paused bool) {
	p.mu.Lock()
	changed := p.paused != paused
	p.paused = paused
	p.mu.Unlock()
	if !changed {
		return
	}
	select {
	case p.kicked <- struct{}{}:
	default:
	}
	if paused {
		p.log.Info("processor paused")
	} else {
		p.log.Info("processor resumed")
	}
}

// receiving marks the start of it.
func (p *Processor) receiving() {
	p.mu.Lock()
	p.state = StateRunning
	p.caution.young = p.now() + p.cfg.VisibilityTimeout + cautionYouth
	p.mu.Unlock()
}

func (p *Processor) setState(s State) {
	p.mu.Lock()
	p.state = s
	p.mu.Unlock()
}

// gauges is what a scrape reads.
func (p *Processor) gauges() metric.GaugeSet {
	s := p.Status()
	return metric.GaugeSet{
		ActiveHandlers: s.Handlers, MaxHandlers: s.MaxHandlers, OldestHandler: s.OldestHandler,
		Paused: s.State == StatePaused, BreakerOpen: s.BreakerOpen, ReceiveFailures: s.ReceiveFailures, LastReceive: s.LastReceive,
		Held: s.Held, Ended: s.State == StateStopped,
	}
}

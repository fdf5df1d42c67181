// Package health answers a supervisor's questions about this process: is it alive
// (/livez), shall it be sent work (/readyz), has it started (/startupz).
//
// It owns the checks, their three results, the state of the process (starting, started,
// draining) and the HTTP handlers. What is checked belongs to those who add checks. Nothing
// here calls anything: checks read what is already known.
package health

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Status is the result of a check, or of a whole probe.
type Status int

// The results, from best to worst. A degraded probe still passes: the process is worth
// keeping, and a person should look.
const (
	OK Status = iota + 1
	Degraded
	Failed
)

// String returns "ok", "degraded" or "failed".
func (s Status) String() string {
	switch s {
	case 0, OK:
		return "ok"
	case Degraded:
		return "degraded"
	default:
		return "failed"
	}
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reason says in one stable word why a check is not ok. Scripts depend on it; add your own
// in the same form.
type Reason string

// The reasons qwatch itself gives.
const (
	ReasonStarting       Reason = "starting"        // not started yet
	ReasonDraining       Reason = "draining"        // ending; send nothing more
	ReasonPaused         Reason = "paused"          // somebody paused it
	ReasonStalled        Reason = "stalled"         // a loop stopped turning
	ReasonHandlersFail   Reason = "handlers_fail"   // what handlers call is down; the breaker is open
	ReasonReceiveFailing Reason = "receive_failing" // the queue cannot be received from
	ReasonOldHandler     Reason = "old_handler"     // a handler runs longer than it should
	ReasonPoison         Reason = "poison"          // messages lie in a poison queue
	ReasonConfig         Reason = "config"          // the newest configuration was refused
	ReasonStorage        Reason = "storage"         // the storage account does not answer
	ReasonCluster        Reason = "cluster"         // another replica, or what they agree by, cannot be reached
	ReasonTimeout        Reason = "timeout"         // the check itself did not return in time
	ReasonPanic          Reason = "panic"           // the check itself panicked
)

// Result is what a check found. The zero value is ok.
type Result struct {
	Status Status // zero: OK
	Reason Reason // why not, in one word
	Detail string // why not, or what to know though it is ok; for people, one line, no secrets: anyone may read it
}

// Probe is a set of probes.
type Probe int

// The probes, to be combined with |.
const (
	Live    Probe = 1 << iota // failing it gets the process restarted
	Ready                     // failing it keeps traffic away
	Startup                   // until it passes, the others are not asked
)

// String returns "live", "ready" or "startup"; "" for none of them or several.
func (p Probe) String() string {
	switch p {
	case Live:
		return "live"
	case Ready:
		return "ready"
	case Startup:
		return "startup"
	default:
		return ""
	}
}

func probes() []Probe { return []Probe{Live, Ready, Startup} }

// Check is one question and the probes it belongs to.
type Check struct {
	// Name is shown, is a label of a metric, and is what ?exclude= takes. Required.
	Name string
	// Probe is the probe the check belongs to, or several, combined with |. Default Ready.
	Probe Probe
	// Run answers from what is known, at once: it makes no request and waits for nothing.
	// It is called for every probe, by several goroutines but never by two at a time.
	// Required.
	Run func() Result
}

// Config tunes New. The zero value is ready for use.
type Config struct {
	// Strict makes a degraded /readyz fail. Default: it passes, and the body tells.
	Strict bool
	// Timeout bounds a whole probe; a check that takes longer counts as failed, reason
	// timeout, and is not started again until it returns. Default 1s.
	Timeout time.Duration
}

// The states of a process.
const (
	starting int32 = iota
	started
	draining
)

// Health holds the checks of a process. Everything is safe for concurrent use.
type Health struct {
	cfg   Config
	base  time.Time // of beats; its monotonic reading makes them immune to clock steps
	state atomic.Int32

	mu     sync.RWMutex
	checks []*entry // in the order they were added
}

// entry is a check in use.
type entry struct {
	name   string
	probes Probe // guarded by Health.mu
	inline func(Probe) Result
	runner *runner // nil: inline is asked instead
}

// New returns a Health that is starting. It has one check, "lifecycle", which fails /readyz
// and /startupz until Started, and /readyz from Draining on.
func New(cfg Config) *Health {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	h := &Health{cfg: cfg, base: time.Now()}
	h.add(&entry{name: "lifecycle", probes: Ready | Startup, inline: h.lifecycle})
	return h
}

// Started says that start-up is over. It does nothing when draining has begun.
func (h *Health) Started() { h.state.CompareAndSwap(starting, started) }

// Draining says that the process is ending: from its return on /readyz fails.
func (h *Health) Draining() { h.state.Store(draining) }

func (h *Health) lifecycle(p Probe) Result {
	switch state := h.state.Load(); {
	case state == starting:
		return Result{Failed, ReasonStarting, "not started yet"}
	case state == draining && p == Ready:
		return Result{Failed, ReasonDraining, "shutting down"}
	default:
		return Result{}
	}
}

// Add adds a check and returns what removes it. A check of the same name on the same probe is
// replaced; removing it later does nothing. Add panics without name or Run.
func (h *Health) Add(c Check) (remove func()) {
	if c.Name == "" || c.Run == nil {
		panic(fmt.Sprintf("health: check %q needs a name and something to run", c.Name))
	}
	if c.Probe == 0 {
		c.Probe = Ready
	}
	return h.add(&entry{name: c.Name, probes: c.Probe, runner: &runner{check: c.Run}})
}

func (h *Health) add(e *entry) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, old := range h.checks {
		if old.name == e.name {
			old.probes &^= e.probes
		}
	}
	// Built anew: reports under way walk the old slice.
	h.checks = append(slices.DeleteFunc(slices.Clone(h.checks), func(e *entry) bool { return e.probes == 0 }), e)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.checks = slices.DeleteFunc(slices.Clone(h.checks), func(other *entry) bool { return other == e })
	}
}

package health

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Report is the answer to a probe.
type Report struct {
	Probe   Probe
	Status  Status    // the worst of the checks not excluded; never Degraded when strict
	Checks  []Outcome // in the order they were added
	Unknown []string  // exclusions that no check has the name of
}

// Outcome is what one check of a probe found.
type Outcome struct {
	Name string
	Result
	Excluded bool // asked not to count
}

// Reasons returns the distinct reasons of the checks that count and are not ok, those that
// failed first.
func (r Report) Reasons() []Reason {
	var out []Reason
	for _, status := range []Status{Failed, Degraded} {
		for _, c := range r.Checks {
			if c.Status == status && !c.Excluded && c.Reason != "" && !slices.Contains(out, c.Reason) {
				out = append(out, c.Reason)
			}
		}
	}
	return out
}

// Report runs the checks of one probe, leaving out those excluded by name. It returns within
// Config.Timeout.
func (h *Health) Report(p Probe, exclude ...string) Report {
	return h.report(p, h.cfg.Strict, exclude)
}

func (h *Health) report(p Probe, strict bool, exclude []string) Report {
	r := Report{Probe: p, Status: OK}
	entries := h.entries(p)
	counted := make([]*entry, 0, len(entries))
	for _, e := range entries {
		if !slices.Contains(exclude, e.name) {
			counted = append(counted, e)
		}
	}
	results := h.run(counted)
	for _, e := range entries {
		o := Outcome{Name: e.name, Excluded: slices.Contains(exclude, e.name), Result: Result{Status: OK}}
		if !o.Excluded {
			o.Result = results.of(e, p)
			r.Status = max(r.Status, o.Status)
		}
		r.Checks = append(r.Checks, o)
	}
	for _, name := range exclude {
		known := slices.ContainsFunc(entries, func(e *entry) bool { return e.name == name })
		if !known && !slices.Contains(r.Unknown, name) {
			r.Unknown = append(r.Unknown, name)
		}
	}
	if strict && p == Ready && r.Status == Degraded {
		r.Status = Failed
	}
	return r
}

// Each calls f with the result of every check on every probe it belongs to ("live",
// "ready", "startup"), once each, running a check once however many probes it has. Config's
// Strict has no say: a degraded check is reported as such.
func (h *Health) Each(f func(probe, check string, r Result)) {
	results := h.run(h.entries(Live | Ready | Startup))
	for _, p := range probes() {
		for _, e := range h.entries(p) {
			if e.runner != nil && results.missing(e) {
				continue // added meanwhile
			}
			f(p.String(), e.name, results.of(e, p))
		}
	}
}

// entries returns the checks that belong to any of the probes.
func (h *Health) entries(p Probe) []*entry {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var out []*entry
	for _, e := range h.checks {
		if e.probes&p != 0 {
			out = append(out, e)
		}
	}
	return out
}

// results are those of the checks that were run; the inline ones are asked when read.
type results map[*entry]Result

func (rs results) missing(e *entry) bool { _, ok := rs[e]; return !ok }

func (rs results) of(e *entry, p Probe) Result {
	r := rs[e]
	if e.runner == nil {
		r = e.inline(p)
	}
	switch {
	case r.Status == 0:
		r.Status = OK
	case r.Status < OK || r.Status > Failed:
		r.Status = Failed
	}
	return r
}

// run starts every check that needs it, all at once, and waits no longer than the timeout.
func (h *Health) run(entries []*entry) results {
	runs := make(map[*entry]*run, len(entries))
	for _, e := range entries {
		if e.runner != nil {
			runs[e] = e.runner.start()
		}
	}
	rs := make(results, len(runs))
	if len(runs) == 0 {
		return rs
	}
	expired := make(chan struct{})
	timeout := time.AfterFunc(h.cfg.Timeout, func() { close(expired) })
	defer timeout.Stop()
	for e, run := range runs {
		rs[e] = run.wait(expired)
	}
	return rs
}

// runner runs a check, one run at a time: who asks while it runs shares its answer, so a
// check that blocks costs one goroutine and no more.
type runner struct {
	check func() Result
	mu    sync.Mutex
	now   *run // nil: none is running
}

type run struct {
	done   chan struct{}
	result Result // valid when done is closed
	since  time.Time
}

func (r *runner) start() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		return r.now
	}
	current := &run{done: make(chan struct{}), since: time.Now()}
	r.now = current
	go func() {
		current.result = Result{Failed, ReasonPanic, "the check panicked"} // unless it returns
		defer func() {
			_ = recover()
			r.mu.Lock()
			r.now = nil
			r.mu.Unlock()
			close(current.done)
		}()
		current.result = r.check()
	}()
	return current
}

// wait returns the result, or that there was none in time.
func (r *run) wait(expired <-chan struct{}) Result {
	select {
	case <-r.done:
		return r.result
	case <-expired:
	}
	select {
	case <-r.done: // it was in time, others were not
		return r.result
	default:
		return Result{Failed, ReasonTimeout, fmt.Sprintf("the check has been running for %v",
			time.Since(r.since).Round(time.Millisecond))}
	}
}

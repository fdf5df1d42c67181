package collector

import (
	"fmt"
	"math"
	"time"
)

const (
	// MinInterval is the shortest interval between two polls of a queue.
	MinInterval = 100 * time.Millisecond
	// MaxPollTime bounds one poll, retries included; a shorter interval bounds it further.
	MaxPollTime = 10 * time.Second
	// StaleIntervals is how many effective intervals a number is kept without a new one.
	StaleIntervals = 3
)

const (
	minSlots = 8
	maxSlots = 128
)

// plan is how the polls of one account fit into its request limit when no queue is idle.
type plan struct {
	stretch float64 // of every interval; 1 when all polls fit
	load    float64 // requests/s asked for
	slots   int     // polls that may run at the same time
}

// fit plans the polls of an account. A limit of +Inf takes everything.
func fit(specs []*spec, limit float64) plan {
	p := plan{stretch: 1}
	for _, s := range specs {
		p.load += s.busiest().load()
	}
	if p.load > limit {
		p.stretch = p.load / limit
	}
	// As many as run at once when none is answered until its time is up: a frozen account
	// then still learns of every queue in about one interval, at a bounded number of connections.
	var hanging float64
	for _, s := range specs {
		hanging += s.timeout().Seconds() / (s.interval.Seconds() * p.stretch)
	}
	p.slots = min(max(int(math.Ceil(hanging)), minSlots), maxSlots)
	return p
}

// warning says that the polls do not fit, and what comes of it. Empty when they fit.
func (p plan) warning(account string, specs []*spec, limit float64) string {
	if p.stretch <= 1 {
		return ""
	}
	shortest := specs[0].interval
	for _, s := range specs {
		shortest = min(shortest, s.interval)
	}
	return fmt.Sprintf("account %s: polling %d queues takes %.1f requests/s and the limit is %g: an interval of %v becomes %v",
		account, len(specs), p.load, limit, shortest, stretch(shortest, p.stretch))
}

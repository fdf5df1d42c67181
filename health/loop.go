package health

import (
	"fmt"
	"sync/atomic"
	"time"
)

// DefaultBound is the bound of a Loop that names none.
const DefaultBound = 2 * time.Minute

// Loop is the heartbeat of a loop that must go on turning. /livez fails, reason stalled and
// naming the loop, while the last beat is older than the bound.
type Loop struct {
	base   time.Time
	bound  time.Duration
	last   atomic.Int64 // since base
	remove func()
}

// Loop adds the heartbeat of a loop to /livez. The first beat is now.
//
// The loop calls Beat once a turn, and at least that often while it waits. The bound is the
// longest a healthy turn can take, with room to spare: the longest pause between two turns,
// plus every deadline of the calls in between. What a turn starts and does not wait for,
// such as a handler, is no part of it. A wedged loop is therefore found at the first probe
// after the bound, and a supervisor that wants n failures in a row adds n−1 of its periods.
// A bound of 0 is DefaultBound.
//
// The name is the check's; a loop of the same name takes its place.
func (h *Health) Loop(name string, bound time.Duration) *Loop {
	if bound <= 0 {
		bound = DefaultBound
	}
	l := &Loop{base: h.base, bound: bound}
	l.Beat()
	l.remove = h.add(&entry{name: name, probes: Live, inline: l.check})
	return l
}

// Beat says that the loop turns. It is one clock reading and one atomic store.
func (l *Loop) Beat() { l.last.Store(int64(time.Since(l.base))) }

// Stop ends the heartbeat: the loop has ended as it should.
func (l *Loop) Stop() { l.remove() }

func (l *Loop) check(Probe) Result {
	if silent := time.Since(l.base) - time.Duration(l.last.Load()); silent > l.bound {
		return Result{Failed, ReasonStalled, fmt.Sprintf("no turn for %v, longer than its bound of %v",
			silent.Round(time.Second), l.bound)}
	}
	return Result{}
}

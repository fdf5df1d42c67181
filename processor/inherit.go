package processor

import (
	"maps"
	"slices"
)

// Inherit takes over what another processor of the same queue remembers: what outages have cost each message,
// so that it is not held against it, the failures in a row that may turn out to be one, and the attempts for poison
// records. It is for a processor that takes another's place in one process, with a mended handler or other settings.
// Call it after the other's Run has returned, and before this one receives, while Config.Ready is still open or Run
// not yet called. An open breaker is taken over open, and its next probe is at once: the new handler's first success
// closes it.
func (p *Processor) Inherit(old *Processor) {
	p.breaker.inherit(&old.breaker, p, old)
	old.history.mu.Lock()
	of, total := maps.Clone(old.history.of), old.history.total
	old.history.mu.Unlock()
	p.history.mu.Lock()
	p.history.of, p.history.total = of, total
	p.history.mu.Unlock()
}

func (b *breaker) inherit(old *breaker, p, from *Processor) {
	if b.cfg.Off || old.cfg.Off {
		return
	}
	later := p.now() - from.now() // by the clocks of the two
	old.mu.Lock()
	defer old.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory, b.outages = maps.Clone(old.memory), slices.Clone(old.outages)
	for id, m := range b.memory {
		m = old.settle(m)
		m.at += later
		b.memory[id] = m
	}
	b.row, b.failures, b.alike, b.refused, b.messages = old.row, old.failures, old.alike, old.refused, slices.Clone(old.messages)
	b.openings, b.openedAt, b.closedAt = old.openings, old.openedAt, old.closedAt
	b.began, b.over = old.began+later, old.over+later
	b.lastFailed, b.lastDown = old.lastFailed+later, old.lastDown+later
	if at := old.workedAt.Load(); at != neverWorked {
		b.workedAt.Store(at + int64(later))
	}
	if old.state == breakerOpen {
		b.state, b.changed, b.probes, b.probeAt = breakerOpen, old.changed+later, old.probes, p.now()
		b.heard, b.pause.next = old.heard, min(old.pause.next, b.cfg.MaxPause)
	}
	b.calm.Store(b.state == breakerClosed && b.failures == 0)
}

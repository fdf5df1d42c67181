package processor

import (
	"maps"
	"slices"
)

// Inherit takes over what another processor of the same queue remembers: what outages have cost each message,
// so that it is not held against it, and the attempts for poison records. It is for a processor that takes
// another's place in one process, with a mended handler or other settings. Call it after the other's Run has
// returned, and before this one receives, while Config.Ready is still open or Run not yet called. An open
// breaker is not taken over: the new handler is tried at once.
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
	memory, outages := maps.Clone(old.memory), slices.Clone(old.outages)
	row, openings, closedAt, open := old.row, old.openings, old.closedAt, old.state == breakerOpen
	for id, m := range memory {
		m = old.settle(m)
		m.at += later
		memory[id] = m
	}
	old.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.memory, b.outages, b.row, b.openings, b.closedAt = memory, outages, row+1, openings, closedAt
	if open {
		b.closedAt = b.clock()
	}
}

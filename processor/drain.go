package processor

import (
	"context"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

const (
	// drainMin is how long cancelled handlers get to return if Config.DrainTimeout is off.
	drainMin = time.Second
	// settleGrace bounds how long shutdown waits for storage to settle what is owed.
	settleGrace = 30 * time.Second
)

// receivedLate gives back what a receive brought after shutdown had begun.
func (p *Processor) receivedLate(messages []*queue.Message, err error) {
	switch {
	case err != nil:
		p.metrics.ReceiveRequest(metric.ReceiveError)
	case len(messages) == 0:
		p.metrics.ReceiveRequest(metric.ReceiveEmpty)
	default:
		p.metrics.ReceiveRequest(metric.ReceiveMessage)
	}
	p.metrics.Received(len(messages))
	now := p.now()
	p.mu.Lock()
	p.finishing += len(messages)
	p.mu.Unlock()
	for _, m := range messages {
		d := p.newDelivery(m, now)
		d.release = true
		p.assign(d)
	}
}

// drain waits for what is in hand, and gives up by stages.
func (p *Processor) drain(cancelSettling context.CancelFunc) error {
	p.setState(StateDraining)
	if _, open := p.breaker.opened(); open {
		p.postOutage()
	}
	patience := p.cfg.DrainTimeout
	if patience != Off && !p.await(patience, p.empty) || patience == Off && !p.empty() {
		patience = max(patience, drainMin)
		if n := p.interrupt(); n > 0 {
			p.log.Warn("shutdown has waited long enough; handlers cancelled", "handlers", n, "delay", p.cfg.DrainTimeout)
		}
		p.await(patience, p.empty)
	}
	left := p.detach()
	close(p.giveUp)
	if !p.await(settleGrace, p.empty) {
		cancelSettling()
		p.await(drainMin, p.empty)
	}
	if left > 0 {
		return fmt.Errorf("processor of %s: shut down with %d handlers still running %v after they were cancelled; their messages come back when the leases lapse", p.q, left, patience)
	}
	return nil
}

// await waits until done, or for as long as it may. It says whether it is done.
func (p *Processor) await(most time.Duration, done func() bool) bool {
	if done() {
		return true
	}
	timer, tick := time.NewTimer(most), time.NewTicker(beatEvery)
	defer timer.Stop()
	defer tick.Stop()
	for {
		select {
		case <-timer.C:
			return done()
		case <-tick.C:
			p.beat()
		case <-p.changed:
			if done() {
				return true
			}
		}
	}
}

func (p *Processor) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handlers+p.finishing == 0
}

// interrupt cancels every handler that still runs, and says how many there are.
func (p *Processor) interrupt() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := p.first; d != nil; d = d.next {
		d.interrupted = true
		d.cancel(ErrDraining)
	}
	return p.handlers
}

// detach lets go of handlers that do not return: their leases are renewed no more. A message is
// never released while its handler runs. It says how many there are.
func (p *Processor) detach() int {
	p.mu.Lock()
	now := p.now()
	var left []*delivery
	for p.first != nil {
		d := p.first
		p.unlink(d)
		p.lease.drop(d)
		left = append(left, d)
	}
	p.mu.Unlock()
	for _, d := range left {
		d.msg.Log().Error("handler still runs after shutdown cancelled it; its message comes back when the lease lapses")
		p.metrics.Finished(metric.OutcomeInterrupted, now-d.since, d.msg.TraceParent)
		p.traced(d, Ending{metric.OutcomeInterrupted, metric.OutcomeInterrupted, "the handler outlived shutdown"})
	}
	return len(left)
}

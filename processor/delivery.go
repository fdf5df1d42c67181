package processor

import (
	"context"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// stage is how far a delivery has come. Only its worker writes it.
type stage uint8

const (
	stageReceived stage = iota
	stageHandling       // inside the handler
	stageHandled        // the handler has returned or panicked
	stageReturned       // and its slot is free
	stageJudging        // inside the error policy
	stageJudged
)

// lease is what is known of a delivery's lease.
type lease uint8

const (
	leaseHeld   lease = iota
	leaseLapsed       // nobody has renewed it in time; another receiver may have the message
	leaseLost         // another receiver has it, the service says
)

// delivery is one message on its way through the processor.
type delivery struct {
	msg Message
	p   *Processor

	ctx    context.Context // the handler's
	cancel context.CancelCauseFunc

	// Its worker's.
	stage    stage
	release  bool // received too late: give it back
	putBack  bool // given back without an attempt: see errUnknownPast
	called   bool // the handler was entered
	tracing  bool // the tracer was told of it
	runs     int  // times that it was taken up
	excused  int  // deliveries that an outage has cost the message
	err      error
	parent   string          // the tracer's trace context
	span     context.Context // and its context; nil: none
	unpacked int64           // bytes of Processor.unpacked that its body took
	started  time.Duration
	took     time.Duration

	// Guarded by Processor.mu.
	prev, next  *delivery     // in the list of those with a handler slot
	since       time.Duration // when it was received
	running     bool          // has a handler slot
	unaccounted bool          // was delivered before, and not given back by this process
	suspect     bool          // and may have ended the one that had it; see caution
	interrupted bool          // cancelled by shutdown, or with its batch
	spared      bool          // that was because of another message of its batch
	end         func(Ending)
	lease       lease
	renewing    bool // a renewal is under way
	failures    int  // of renewals in a row
	index       int  // in the keeper's heap; −1 when not there
	due         time.Duration
	until       time.Duration // the lease lapses
	renewAt     time.Duration
	warnAt      time.Duration
}

func (p *Processor) newDelivery(m *queue.Message, now time.Duration) *delivery {
	d := &delivery{p: p, since: now, index: -1}
	d.msg.Message, d.msg.d = m, d
	// The parent is never done, so cancelling costs nothing until it happens: the keeper and the
	// drain cancel each delivery by itself.
	ctx := p.values
	if m.TraceParent != "" {
		ctx = queue.ContextWithTrace(ctx, queue.TraceContext{Parent: m.TraceParent, State: m.TraceState})
	}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	return d
}

// hold takes handler slots for the deliveries and starts keeping their leases. It is true when there
// are some among them that may have ended a process, the first in a while.
func (p *Processor) hold(batch []*delivery) (suspect bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	suspect = p.caution.received(batch, p.now())
	if p.batches.handler != nil {
		p.batches.running++
	}
	for _, d := range batch {
		d.running = true
		p.handlers++
		d.prev = p.last
		if p.last != nil {
			p.last.next = d
		} else {
			p.first = d
		}
		p.last = d
		p.lease.keep(d)
	}
	return suspect
}

// returned gives the handler's slot back. The lease is kept until finished. It is false if shutdown
// no longer waited for the handler.
func (p *Processor) returned(d *delivery) bool {
	p.mu.Lock()
	ours := d.running
	if ours {
		p.unlink(d)
		p.finishing++
	}
	p.mu.Unlock()
	d.cancel(context.Canceled)
	p.signal()
	return ours
}

// finished forgets a delivery.
func (p *Processor) finished(d *delivery) {
	p.breaker.done(d, p.now())
	p.unpacked.Release(d.unpacked)
	p.mu.Lock()
	p.lease.drop(d)
	p.finishing--
	p.mu.Unlock()
	p.signal()
}

// unlink takes a delivery off the list of those with a handler slot. The caller holds mu.
func (p *Processor) unlink(d *delivery) {
	if d.prev != nil {
		d.prev.next = d.next
	} else {
		p.first = d.next
	}
	if d.next != nil {
		d.next.prev = d.prev
	} else {
		p.last = d.prev
	}
	d.prev, d.next, d.running = nil, nil, false
	p.handlers--
	p.caution.returned(d)
}

// leaseOf returns what is known of the lease, when it lapses, and whether shutdown cancelled the
// handler.
func (p *Processor) leaseOf(d *delivery) (l lease, until time.Duration, interrupted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return d.lease, d.until, d.interrupted
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// release is the verdict on a message whose handler was cut short by shutdown.
const release Verdict = -1

// decision is what to do with a message whose handler has returned.
type decision struct {
	verdict  Verdict
	delay    time.Duration // before a retry, also one because a dead-letter failed
	category poison.Category
	panicked bool
}

// work is a worker: it delivers what it is given until Run is over.
func (p *Processor) work(d *delivery) {
	defer func() {
		// Only a handler or policy that ends its goroutine (runtime.Goexit, as t.FailNow does) gets
		// here with a delivery in hand. Another worker goes on with it.
		if d != nil {
			go p.work(d)
		}
	}()
	for {
		p.deliver(d)
		select {
		case d = <-p.handoff:
		case <-p.quit:
			d = nil
			return
		}
	}
}

// deliver takes a delivery through all of its stages, or through what a Goexit left of them.
func (p *Processor) deliver(d *delivery) {
	if d.runs++; d.runs > maxRuns {
		p.desert(d)
		return
	}
	switch d.stage {
	case stageReceived:
		if d.release {
			p.giveBack(d)
			p.finished(d)
			return
		}
		p.trace(d)
		if category, why := p.triage(d); category != "" {
			p.refuse(d, category, why)
			return
		}
		if d.err != nil { // cancelled before the handler was entered, or to be given back
			d.stage = stageHandled
			break
		}
		d.stage = stageHandling
		p.invoke(d)
	case stageHandling:
		d.err = errGoexit
		d.stage = stageHandled
	}
	if d.stage == stageHandled {
		if d.called {
			d.took = p.now() - d.started
		}
		if !p.returned(d) {
			return // it outlived Run: its message is no longer ours
		}
	}
	outcome := p.settle(d)
	if d.called {
		p.handled.Add(1)
		p.handlerTime.Add(int64(d.took))
		p.metrics.Finished(outcome, d.took, d.traceParent())
	}
	p.traced(d, ending(outcome, d.err))
	p.finished(d)
}

// maxRuns is how often a delivery is taken up: the handler and the error policy may each end their goroutine.
const maxRuns = 4

// desert leaves a message to its lease: something else that is called, a logger's handler perhaps, ends its
// goroutine each time.
func (p *Processor) desert(d *delivery) {
	if d.runs > maxRuns+1 {
		return
	}
	p.returned(d)
	defer p.finished(d)
	p.leaveHidden(d)
	d.msg.Log().Error("message left to its lease: its goroutine was ended over and over")
}

// refuse dead-letters a message without calling the handler.
func (p *Processor) refuse(d *delivery, category poison.Category, why string) {
	p.returned(d)
	outcome := p.deadLetter(d, category, why, p.retryDelay(d, p.cfg.Retry.delay(d.counted())))
	p.traced(d, Ending{outcome, string(category), why})
	p.finished(d)
}

// triage says whether to dead-letter a message without calling the handler, and why.
func (p *Processor) triage(d *delivery) (poison.Category, string) {
	m := d.msg.Message
	switch {
	case m.Err != nil && !p.cfg.KeepUnreadable:
		return poison.CategoryDeserialization, reason(m.Err)
	case p.overdrawn(d):
		return poison.CategoryMaxDequeue, fmt.Sprintf("delivered %d times, %d allowed, and never completed", m.DequeueCount, p.cfg.MaxDequeueCount)
	case d.err != nil:
		return "", ""
	case p.cfg.MaxAge > 0 && m.ReceivedAt.Sub(receivable(m)) > p.cfg.MaxAge:
		age := m.ReceivedAt.Sub(receivable(m)).Truncate(time.Second)
		return poison.CategoryMaxAge, fmt.Sprintf("waited %v, %v allowed", age, p.cfg.MaxAge)
	default:
		return p.unpack(d)
	}
}

// overdrawn says whether a message has been delivered too often. If that cannot be told for now, it has an error.
func (p *Processor) overdrawn(d *delivery) bool {
	if p.cfg.MaxDequeueCount == Off || d.counted() <= p.cfg.MaxDequeueCount || p.breaker.grant(d, p.now()) {
		return false
	}
	switch p.mercyOn(d, false) {
	case mercyAnother:
		return false
	case mercyUnknown:
		d.err, d.putBack = Postpone(p.cfg.Retry.delay(d.counted()), errUnknownPast), true
		return false
	default:
		return true
	}
}

// A body that decompresses to more than largeBody waits until the large ones at work leave room for it
// in maxUnpacked, which is at least queue.Config.MaxBodyBytes. Batches, whose messages cannot wait for
// each other, do not.
const (
	largeBody   = 64 << 10
	maxUnpacked = 64 << 20
)

// unpack decompresses the body: only now, so that what the process cannot stomach is dead-lettered by
// its dequeue count in the end.
func (p *Processor) unpack(d *delivery) (poison.Category, string) {
	m := d.msg.Message
	if n := int64(m.PackedSize()); n > largeBody && p.batches.handler == nil {
		if p.unpacked.Acquire(d.ctx, n) != nil {
			d.err = context.Cause(d.ctx)
			return "", ""
		}
		d.unpacked = n
	}
	m.Unpack()
	if m.Err != nil && !p.cfg.KeepUnreadable {
		return poison.CategoryDeserialization, reason(m.Err)
	}
	return "", ""
}

// receivable is when a message could first be received, by the service's clock, as far as that is known:
// a sender's delay travels only in an envelope.
func receivable(m *queue.Message) time.Time { return m.InsertedAt.Add(m.Delay) }

// invoke calls the handler. A panic is a failure; a Goexit leaves the stage as it is.
func (p *Processor) invoke(d *delivery) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			d.err = recovered(v)
			d.stage = stageHandled
		}
	}()
	d.err = examine(p.call(d))
	d.stage = stageHandled
	returned = true
}

func (p *Processor) call(d *delivery) error {
	m := &d.msg
	if p.prepare != nil {
		if err := p.prepare(m); err != nil {
			return err
		}
	}
	p.entering(d)
	return p.handler.Handle(d.ctx, m)
}

// entering takes note that the handler is about to be entered.
func (p *Processor) entering(d *delivery) {
	m := &d.msg
	d.called = true
	d.started = p.now()
	wait := p.q.Account().Now().Sub(receivable(m.Message))
	late := p.cfg.Objective > 0 && wait > p.cfg.Objective
	p.metrics.Started(wait, m.DequeueCount == 1, late, d.traceParent())
}

// judge decides what becomes of the message.
func (p *Processor) judge(d *delivery) decision {
	if d.err == nil {
		p.handlerSucceeded()
		return decision{verdict: Complete}
	}
	_, panicked := errors.AsType[*PanicError](d.err)
	v := decision{verdict: Retry, category: poison.CategoryHandler, delay: p.cfg.Retry.delay(d.counted()), panicked: panicked}
	asked := false // for a delay
	if f, ok := errors.AsType[*failure](d.err); ok {
		switch f.kind {
		case kindPermanent, kindUnreadable:
			v.verdict, v.category = DeadLetter, f.category
		case kindDiscard:
			v.verdict = Complete
		case kindRetryAfter, kindThrottled, kindPostponed:
			if f.kind != kindThrottled || f.delay >= 0 {
				v.delay, asked = wholeSeconds(f.delay), true
			}
		}
	} else if d.stage != stageJudging { // a policy that ended its goroutine is not asked again
		d.stage = stageJudging
		a := p.decide(d)
		if a.Verdict == DeadLetter || a.Verdict == Complete {
			v.verdict = a.Verdict
		}
		switch {
		case a.Delay > 0:
			v.delay, asked = wholeSeconds(a.Delay), true
		case a.Delay < 0:
			v.delay, asked = 0, true
		}
	}
	d.stage = stageJudged
	switch v.verdict {
	case Complete:
		p.handlerSucceeded()
	case Retry:
		lease, _, cut := p.leaseOf(d)
		if cut && !panicked {
			v.verdict = release
			break
		}
		var outage verdictOn
		if (lease == leaseHeld || !interrupted(d.err)) && !postponed(d.err) {
			outage = p.handlerFailed(d)
		}
		if d.msg.LastAttempt() && !outage.excused && !d.putBack {
			switch p.lastMercy(d, outage) {
			case mercyAnother:
				outage.outage = true
			case mercyNone:
				v.verdict, v.category = DeadLetter, poison.CategoryMaxDequeue
			}
		}
		if outage.outage && !asked {
			if n := d.msg.DequeueCount; p.cfg.MaxDequeueCount != Off && n > p.cfg.MaxDequeueCount { // several processes probe with it
				v.delay = max(v.delay, p.cfg.Retry.delay(n))
			}
			v.delay = min(v.delay, wholeSeconds(p.cfg.Breaker.MaxPause)) // it need not wait longer than the next probe may
		}
	}
	v.delay = p.retryDelay(d, v.delay)
	return v
}

// lastMercy is what becomes of a message whose last attempt has failed, as the breaker was told.
func (p *Processor) lastMercy(d *delivery, told verdictOn) mercy {
	if !told.counted {
		return mercyNone
	}
	return p.mercyOn(d, true)
}

// retryDelay keeps a delay within the message's life: one that is longer would have the service drop
// the message unseen.
func (p *Processor) retryDelay(d *delivery, delay time.Duration) time.Duration {
	if left := d.msg.ExpiresAt.Sub(p.q.Account().Now()); delay >= left {
		return max(0, (left / 2).Truncate(time.Second))
	}
	return delay
}

// failed says whether an error is a failure of the handler's.
func failed(err error) bool {
	if err == nil {
		return false
	}
	f, ok := errors.AsType[*failure](err)
	return !ok || f.kind != kindDiscard && f.kind != kindUnreadable && f.kind != kindPostponed
}

// postponed says whether the handler only wants to see the message later.
func postponed(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.kind == kindPostponed
}

// logFailure tells what a handler's failure was; never a body.
func (p *Processor) logFailure(d *delivery, level slog.Level, message string, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("error", reason(d.err)))
	if panicked, ok := errors.AsType[*PanicError](d.err); ok {
		attrs = append(attrs, slog.String("stack", panicked.Stack))
	}
	d.msg.Log().LogAttrs(context.WithoutCancel(d.ctx), level, message, attrs...)
}

package processor

import (
	"errors"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
)

// blame is whose fault a failure is.
type blame uint8

const (
	blameOpen   blame = iota // the message's or what the handler calls: nobody knows
	blameOutage              // it looks like an outage
	blameNone                // it is one, the handler says
)

// blameFor reads it from the error, and how much patience the handler asked for.
func blameFor(err error) (by blame, patience time.Duration) {
	f, ok := errors.AsType[*failure](err)
	if ok {
		patience = f.delay
	}
	switch {
	case ok && f.kind == kindUnavailable:
		return blameNone, 0
	case ok && f.kind == kindRetryAfter: // it decided about the message
		return blameOpen, patience
	}
	switch retryCategory(err) {
	case metric.RetryTransient, metric.RetryTimeout, metric.RetryThrottled:
		return blameOutage, patience
	default:
		return blameOpen, patience
	}
}

// counted is how many of the message's deliveries count against it, this one included.
func (d *delivery) counted() int { return d.msg.DequeueCount - d.msg.Absences() - d.excused }

// handlerSucceeded tells the breaker that a handler did its work.
func (p *Processor) handlerSucceeded() {
	r := p.breaker.succeeded(p.now())
	if r == nil {
		return
	}
	p.log.Info("handlers work again; receiving", "lasted", r.lasted, "probes", r.probes)
	p.postOutage()
	p.signal()
}

// nothingToProbeWith tells the breaker that a probe found the queue empty.
func (p *Processor) nothingToProbeWith() {
	now := p.now()
	if p.held.count(now) > 0 {
		return // its messages are in their retry delays
	}
	if r := p.breaker.lapse(now); r != nil {
		p.log.Info("the queue is empty; receiving, though no handler has succeeded", "lasted", r.lasted, "probes", r.probes)
		p.postOutage()
	}
}

// handlerFailed tells the breaker that a handler failed in a way that may pass.
func (p *Processor) handlerFailed(d *delivery) verdictOn {
	by, patience := blameFor(d.err)
	v := p.breaker.failed(d, by, patience, p.now())
	if !v.outage && (v.excused || !d.msg.LastAttempt()) {
		p.postFailing(d)
	}
	if v.opened {
		p.log.Error("handlers fail as a whole; receiving stopped until one works",
			"category", retryCategory(d.err), "error", reason(d.err), "delay", v.pause)
		p.postOutage()
	}
	return v
}

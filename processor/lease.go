package processor

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

const (
	never time.Duration = math.MaxInt64

	renewBackoffMin = 100 * time.Millisecond
	renewBackoffMax = 10 * time.Second
	// renewTryMin is the least time a renewal gets, if the lease lasts as long: cutting one off that
	// the service has carried out loses the receipt, and the lease with it.
	renewTryMin = 2 * time.Second
)

// keeper keeps the leases of everything in the processor's hands: one goroutine and a heap of when
// something is due. A message that is handled at once costs a push and a pop, and wakes nobody.
// All of it is guarded by Processor.mu.
type keeper struct {
	p     *Processor
	due   dueHeap
	next  time.Duration // when the goroutine will look by itself
	woken chan struct{} // look now; holds one
}

func (k *keeper) init(p *Processor) {
	k.p, k.next, k.woken = p, never, make(chan struct{}, 1)
}

// keep starts keeping a delivery's lease.
func (k *keeper) keep(d *delivery) {
	if k.p.cfg.LongRunningWarning > 0 {
		d.warnAt = d.since + k.p.cfg.LongRunningWarning
	} else {
		d.warnAt = never
	}
	k.read(d)
	d.due = d.soonest()
	heap.Push(&k.due, d)
	k.wake()
}

// drop stops keeping it.
func (k *keeper) drop(d *delivery) {
	if d.index >= 0 {
		heap.Remove(&k.due, d.index)
	}
}

// read takes the lease's end from the message, and plans the next renewal: at half the timeout.
func (k *keeper) read(d *delivery) {
	d.until = d.msg.LeaseExpires().Sub(k.p.epoch)
	d.renewAt = never
	if !k.p.cfg.NoRenew {
		d.renewAt = d.until - k.p.cfg.VisibilityTimeout/2
	}
}

// plan puts the delivery where it belongs in the heap.
func (k *keeper) plan(d *delivery) {
	if d.index < 0 {
		return
	}
	if d.due = d.soonest(); d.due == never {
		heap.Remove(&k.due, d.index)
		return
	}
	heap.Fix(&k.due, d.index)
	k.wake()
}

func (k *keeper) wake() {
	if len(k.due) == 0 || k.due[0].due >= k.next {
		return
	}
	k.next = k.due[0].due
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// soonest is when something must be done about the delivery.
func (d *delivery) soonest() time.Duration {
	at := never
	if d.lease == leaseHeld {
		at = d.until
		if !d.renewing {
			at = min(at, d.renewAt)
		}
	}
	if d.running {
		at = min(at, d.warnAt)
	}
	return at
}

// keepLeases is the keeper's goroutine.
func (p *Processor) keepLeases() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-timer.C:
		case <-p.lease.woken:
		}
		timer.Reset(p.lookAtLeases() - p.now())
	}
}

// lookAtLeases does what is due and returns when to look again.
func (p *Processor) lookAtLeases() time.Duration {
	var lapsed, long []*delivery // told once the lock is released
	p.mu.Lock()
	now, k := p.now(), &p.lease
	for len(k.due) > 0 && k.due[0].due <= now {
		d := k.due[0]
		if d.lease == leaseHeld {
			switch {
			case d.until <= now && d.msg.Settlement() != queue.Unsettled:
				d.until, d.renewAt = never, never // the handler has settled it, and goes on
			case d.until <= now:
				d.lease = leaseLapsed
				if d.running {
					lapsed = append(lapsed, d)
				}
			case d.renewAt <= now && p.cfg.MaxRenewal > 0 && now >= d.since+p.cfg.MaxRenewal:
				d.renewAt = never
			case d.renewAt <= now && !d.renewing:
				d.renewing = true
				go p.renew(d, d.until-now) // at once for all of them: a slow one delays nobody
			}
		}
		if d.running && d.warnAt <= now {
			d.warnAt = never
			long = append(long, d)
		}
		k.plan(d)
	}
	k.next = never
	if len(k.due) > 0 {
		k.next = k.due[0].due
	}
	next := k.next
	p.mu.Unlock()

	for _, d := range lapsed {
		d.cancel(ErrLeaseLapsed)
		d.msg.Log().Warn("lease lapsed unrenewed; handler cancelled")
	}
	for _, d := range long {
		d.msg.Log().Warn("handler runs long", "lasted", now-d.since)
	}
	return next
}

// renew renews one lease, and plans the next renewal, or the next try.
func (p *Processor) renew(d *delivery, left time.Duration) {
	ctx, cancel := context.WithTimeout(p.settling, max(left/2, min(left, renewTryMin)))
	err := d.msg.Message.Renew(ctx, p.cfg.VisibilityTimeout)
	cancel()

	p.mu.Lock()
	d.renewing = false
	switch {
	case err == nil:
		d.failures = 0
		p.lease.read(d)
	case errors.Is(err, queue.ErrSettled):
		d.renewAt, d.until = never, never
	case errors.Is(err, queue.ErrLeaseLost):
		d.renewAt = never // told below
	default:
		now := p.now()
		wait := min(time.Second<<min(d.failures, 10), renewBackoffMax, (d.until-now)/4)
		d.renewAt = now + max(wait, renewBackoffMin)
		d.failures++
	}
	first := d.failures == 1
	p.lease.plan(d)
	p.mu.Unlock()

	switch {
	case err == nil:
		p.metrics.Renewed()
	case errors.Is(err, queue.ErrSettled):
	case errors.Is(err, queue.ErrLeaseLost):
		p.metrics.RenewalFailed(metric.RenewalLost)
		p.leaseLost(d)
	default:
		p.metrics.RenewalFailed(renewalReason(err))
		level := slog.LevelDebug
		if first {
			level = slog.LevelWarn
		}
		d.msg.Log().Log(ctx, level, "lease renewal failed; trying again", "error", reason(err))
	}
}

// leaseLost takes note that another receiver has the message, and cancels its handler.
func (p *Processor) leaseLost(d *delivery) {
	p.mu.Lock()
	known, running := d.lease == leaseLost, d.running
	d.lease = leaseLost
	p.lease.plan(d)
	p.mu.Unlock()
	if known || !running {
		return
	}
	d.cancel(queue.ErrLeaseLost)
	d.msg.Log().Warn("lease lost; handler cancelled")
}

// leaseMoved takes note that the handler has renewed the lease itself.
func (p *Processor) leaseMoved(d *delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease.read(d)
	p.lease.plan(d)
}

// renewalReason is the metric label of a failed renewal that did not lose the lease.
func renewalReason(err error) string {
	switch queue.Classify(err) {
	case queue.ResultThrottled:
		return metric.RenewalThrottled
	case queue.ResultNetwork, queue.ResultTimeout:
		return metric.RenewalNetwork
	default:
		return metric.RenewalOther
	}
}

// dueHeap is a container/heap by due.
type dueHeap []*delivery

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	d := x.(*delivery)
	d.index = len(*h)
	*h = append(*h, d)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	d.index = -1
	return d
}

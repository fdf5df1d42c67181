package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

const (
	// insistFor bounds how long a delete that storage refuses is tried again.
	insistFor       = 5 * time.Minute
	insistBackoff   = 250 * time.Millisecond
	insistBackoffMx = 5 * time.Second
)

// settle settles the message by what the handler did, and returns the outcome's label.
func (p *Processor) settle(d *delivery) string {
	if s := d.msg.Settlement(); s != queue.Unsettled {
		return p.settled(d, s)
	}
	if p.cfg.ManualSettle && d.called {
		return p.unsettled(d)
	}
	lease, _, _ := p.leaseOf(d)
	v := p.judge(d)
	switch {
	case v.verdict == Complete:
		// Also on a lapsed lease: the service refuses if anyone has received the message since, and
		// if nobody has, the work need not be done again.
		return p.complete(d)
	case lease == leaseLapsed:
		return p.lost(d)
	case v.verdict == release:
		if !interrupted(d.err) {
			p.metrics.Failed()
		}
		return p.giveBack(d)
	}
	if v.panicked || d.called && !postponed(d.err) {
		p.metrics.Failed()
	}
	if v.verdict == Retry {
		return p.retry(d, v)
	}
	return p.deadLetter(d, v.category, reason(d.err), v.delay)
}

// settled accounts for a message that the handler settled itself.
func (p *Processor) settled(d *delivery, s queue.Settlement) string {
	if s == queue.LeaseLost {
		return p.lost(d)
	}
	if failed(d.err) {
		p.metrics.Failed()
		p.logFailure(d, slog.LevelWarn, "handler failed after it had settled the message")
	}
	switch s {
	case queue.Completed:
		p.handlerSucceeded()
		return p.completed(d)
	case queue.DeadLettered:
		p.noteEnd(d, false)
		p.metrics.DeadLettered(string(poison.CategoryHandler))
		return metric.OutcomeDeadLettered
	default:
		if failed(d.err) && !interrupted(d.err) {
			p.handlerFailed(d)
		}
		p.metrics.Retried(metric.RetryHandler)
		return metric.OutcomeAbandoned
	}
}

func (p *Processor) completed(d *delivery) string {
	p.noteEnd(d, true)
	p.metrics.Processed(d.msg.DequeueCount)
	if d.msg.AmbiguousDelete() {
		p.metrics.AmbiguousDelete()
	}
	if p.log.Enabled(d.ctx, slog.LevelDebug) {
		d.msg.Log().Debug("message completed", "lasted", d.took)
	}
	return metric.OutcomeCompleted
}

// lost ends a delivery whose message is another receiver's by now, or may be.
func (p *Processor) lost(d *delivery) string {
	if failed(d.err) && !interrupted(d.err) {
		p.metrics.Failed()
		p.logFailure(d, slog.LevelWarn, "handler failed, and its lease was lost")
	}
	return metric.OutcomeLeaseLost
}

// conflict ends a delivery that the service refuses to settle.
func (p *Processor) conflict(d *delivery, operation string) string {
	p.metrics.ReceiptConflict(operation)
	d.msg.Log().Warn("lease lost before the message was settled; it may be handled twice", "operation", operation)
	return metric.OutcomeLeaseLost
}

// unsettled leaves a message that the handler should have settled to its lease.
func (p *Processor) unsettled(d *delivery) string {
	p.leaveHidden(d)
	if failed(d.err) {
		if !interrupted(d.err) {
			p.handlerFailed(d)
		}
		p.metrics.Failed()
		p.metrics.Retried(retryCategory(d.err))
		p.noteFailure(d, retryCategory(d.err))
		p.logFailure(d, slog.LevelWarn, "handler failed without settling the message; it comes back when its lease lapses")
	} else {
		d.msg.Log().Warn("handler returned without settling the message; it comes back when its lease lapses")
	}
	return metric.OutcomeAbandoned
}

// leaveHidden notes that the message stays hidden until its lease lapses.
func (p *Processor) leaveHidden(d *delivery) {
	_, until, _ := p.leaseOf(d)
	now := p.now()
	p.held.add(now, until)
}

// complete deletes the message. Its work is done, so a delete that storage refuses is tried again
// while the lease can be kept.
func (p *Processor) complete(d *delivery) string {
	err := p.insist(d, d.msg.Message.Complete(p.settling), d.msg.Message.Complete)
	switch {
	case err == nil:
		return p.completed(d)
	case errors.Is(err, queue.ErrSettled): // by a goroutine the handler left behind
		return p.settled(d, d.msg.Settlement())
	case errors.Is(err, queue.ErrLeaseLost):
		return p.conflict(d, metric.ConflictDelete)
	}
	p.leaveHidden(d)
	d.msg.Log().Error("message handled but not deleted; it will be delivered again", "error", reason(err))
	if p.givenUp() {
		return metric.OutcomeInterrupted
	}
	return metric.OutcomeLeaseLost
}

// insist tries a delete again after err, until it works, or cannot any more, or the lease lapses.
func (p *Processor) insist(d *delivery, err error, remove func(context.Context) error) error {
	began, wait := p.now(), insistBackoff
	for err != nil && !errors.Is(err, queue.ErrLeaseLost) && !errors.Is(err, queue.ErrSettled) {
		if p.deletes.failed("") {
			d.msg.Log().Warn("delete failed; trying again while the lease lasts", "error", reason(err))
		}
		select {
		case <-p.giveUp:
			return err
		case <-time.After(wait):
		}
		wait = min(2*wait, insistBackoffMx)
		if lease, _, _ := p.leaseOf(d); lease == leaseLost || p.now()-began > insistFor {
			return err
		} else if lease == leaseLapsed {
			return remove(p.settling) // a last time: nobody may have received it since
		}
		err = remove(p.settling)
	}
	if err == nil {
		p.mended(&p.deletes, "deletes work again")
	}
	return err
}

// retry gives the message back for another attempt.
func (p *Processor) retry(d *delivery, v decision) string {
	category := retryCategory(d.err)
	p.metrics.Retried(category)
	if postponed(d.err) {
		message := "handler postponed the message"
		if d.putBack {
			message = "message given back without an attempt"
		}
		p.logFailure(d, slog.LevelDebug, message, slog.Duration("delay", v.delay))
		return p.abandon(d, v.delay, metric.OutcomeAbandoned)
	}
	p.logFailure(d, slog.LevelWarn, "handler failed; the message is retried",
		slog.String("category", category), slog.Duration("delay", v.delay))
	p.noteFailure(d, category)
	return p.abandon(d, v.delay, metric.OutcomeAbandoned)
}

// giveBack releases a message of ours at shutdown, for another worker to take at once.
func (p *Processor) giveBack(d *delivery) string {
	outcome := p.abandon(d, 0, metric.OutcomeInterrupted)
	if d.msg.Settlement() == queue.Abandoned && !d.spared {
		p.metrics.ShutdownReleased(1)
	}
	return outcome
}

// abandon makes the message visible again after the delay. If storage refuses, its lease does so.
func (p *Processor) abandon(d *delivery, delay time.Duration, outcome string) string {
	err := d.msg.Message.Abandon(p.settling, delay)
	switch {
	case err == nil:
		p.hidden(delay)
		p.mended(&p.updates, "releases work again")
	case errors.Is(err, queue.ErrSettled):
	case errors.Is(err, queue.ErrLeaseLost):
		return p.conflict(d, metric.ConflictUpdate)
	default:
		p.leaveHidden(d)
		if p.updates.failed("") {
			d.msg.Log().Warn("release failed; the message comes back when its lease lapses", "error", reason(err))
		}
	}
	return outcome
}

// deadLetter moves the message to the poison queue. When the copy fails, the message is retried after
// the delay: it is never dropped. When only the removal fails it is tried again while the lease
// lasts; after that the next delivery makes a second copy, which readers take for the same entry.
func (p *Processor) deadLetter(d *delivery, category poison.Category, why string, delay time.Duration) string {
	err := p.poisonCase(d, category, why, d.err).Move(p.settlingIn(d), d.msg.Message)
	if moved, ok := errors.AsType[*poison.MoveError](err); ok && !errors.Is(err, queue.ErrSettled) {
		p.metrics.DeadLetterFailed(string(moved.Stage))
		if moved.Stage == poison.StageSend {
			if p.moves.failed("") {
				d.msg.Log().Error("dead-lettering failed; the message is retried", "category", string(category), "error", reason(err), "delay", delay)
			}
			return p.abandon(d, delay, metric.OutcomeAbandoned)
		}
		err = p.insist(d, moved.Err, d.msg.CompleteDeadLettered)
	}
	switch {
	case err == nil, d.msg.Settlement() == queue.DeadLettered: // the renewal may find the removal done
		p.noteEnd(d, false)
		p.mended(&p.moves, "dead-lettering works again")
		p.metrics.DeadLettered(string(category))
		d.msg.Log().Error("message dead-lettered", "category", string(category), "reason", why)
		return metric.OutcomeDeadLettered
	case errors.Is(err, queue.ErrSettled):
		return p.settled(d, d.msg.Settlement())
	case errors.Is(err, queue.ErrLeaseLost):
		return p.conflict(d, metric.ConflictDelete)
	}
	p.leaveHidden(d)
	d.msg.Log().Error("message copied to the poison queue but not removed; it will be dead-lettered again", "category", string(category), "error", reason(err))
	return metric.OutcomeLeaseLost
}

func (p *Processor) mended(i *incident, message string) {
	if n, lasted, tell := i.mended(); tell {
		p.log.Info(message, "failures", n, "lasted", lasted)
	}
}

// givenUp says whether shutdown waits no longer.
func (p *Processor) givenUp() bool {
	select {
	case <-p.giveUp:
		return true
	default:
		return false
	}
}

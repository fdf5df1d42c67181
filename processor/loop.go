package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

const (
	// beatEvery is how often a waiting loop shows that it is alive.
	beatEvery = 10 * time.Second
	// errorBackoffMin is the wait after the first failed receive.
	errorBackoffMin = time.Second
	// receiveGrace is how long shutdown waits for a receive under way. Cutting it off would hide
	// what it was about to bring for a whole lease, and burn a delivery.
	receiveGrace = 2 * time.Second
)

// awaitReady waits until the whole process is up. It is false when shutdown comes first.
func (p *Processor) awaitReady(ctx context.Context) bool {
	if p.cfg.Ready == nil {
		return ctx.Err() == nil
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		p.beat()
		select {
		case <-ctx.Done():
			return false
		case <-p.cfg.Ready:
			return ctx.Err() == nil
		case <-tick.C:
		}
	}
}

// beat shows that the loop turns.
func (p *Processor) beat() {
	p.lastTurn.Store(time.Now().UnixNano())
	p.cfg.Beat()
}

// receive is the receive loop. It asks only for what a handler is free for, so that no message waits
// behind another, and returns when the context is done.
func (p *Processor) receive(ctx context.Context) {
	// A receive under way outlives the context by a grace.
	asking, cancel := context.WithCancel(p.values)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(receiveGrace, cancel) })()

	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	empty := backoff{least: p.cfg.EmptyBackoffMin, most: p.cfg.EmptyBackoffMax}
	failed := backoff{least: errorBackoffMin, most: p.cfg.ErrorBackoffMax}
	for {
		room, probe := p.awaitRoom(ctx, tick)
		if room == 0 {
			return
		}
		messages, err := p.q.ReceivePacked(asking, room, p.cfg.VisibilityTimeout)
		if ctx.Err() != nil {
			p.receivedLate(messages, err)
			return
		}
		var wait time.Duration
		switch {
		case err != nil:
			wait = failed.wait()
			if refused, ok := errors.AsType[*queue.StorageError](err); ok { // the service may ask for patience
				wait = max(wait, min(refused.RetryAfter, p.cfg.ErrorBackoffMax))
			}
			p.receiveFailed(ctx, err, wait)
		case len(messages) == 0:
			wait = empty.wait()
			p.metrics.ReceiveRequest(metric.ReceiveEmpty)
			p.idle()
			if probe {
				p.nothingToProbeWith()
			}
		default:
			empty.reset()
			p.metrics.ReceiveRequest(metric.ReceiveMessage)
			p.dispatch(messages, probe)
		}
		if err == nil {
			failed.reset()
			p.receiveSucceeded(ctx)
		}
		if wait > 0 && !p.sleep(ctx, tick, wait) {
			return
		}
	}
}

// awaitRoom waits for free handlers, for permits, and for a probe's time while the breaker is open. It
// returns how many messages may be asked for; 0 when the context is done.
func (p *Processor) awaitRoom(ctx context.Context, tick *time.Ticker) (room int, probe bool) {
	for {
		p.beat()
		p.keepPosting()
		if ctx.Err() != nil {
			return 0, false
		}
		var due <-chan time.Time
		if n := p.room(); n > 0 {
			wait, open := p.breaker.next(p.now())
			switch {
			case !open:
				n, wait = p.limit.take(n)
			case wait <= 0 && !p.reachable(ctx):
				continue
			case wait <= 0:
				n, wait = p.limit.take(1)
			}
			if wait <= 0 {
				return n, open
			}
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-p.changed:
		case <-p.kicked:
		case <-tick.C:
		case <-due:
		}
	}
}

// room is the number of messages there is a free handler for. A handler is free as soon as it has
// returned: its message is settled while the next is fetched. Settling must not fall behind, though,
// or a storage that answers receives and refuses deletes would pile messages up here.
func (p *Processor) room() int {
	now := p.now()
	allowed := p.breaker.allowed(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused || p.finishing > p.cfg.Concurrency {
		return 0
	}
	free := min(queue.MaxReceive, allowed-p.handlers)
	if p.batches.handler != nil {
		free = p.batches.room(free)
	}
	return p.caution.ask(free, now)
}

// idle takes note of an empty receive.
func (p *Processor) idle() {
	p.mu.Lock()
	p.caution.wary = true
	p.mu.Unlock()
}

// reachable asks the handler, if it can tell, whether a probe is worth a message.
func (p *Processor) reachable(ctx context.Context) bool {
	if p.prober == nil {
		return true
	}
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := p.ask(asking)
	if err == nil || ctx.Err() != nil {
		return ctx.Err() == nil
	}
	wait := p.breaker.unreachable(p.now())
	p.log.DebugContext(ctx, "what the handler calls cannot be reached", "error", reason(err), "delay", wait)
	return false
}

// ask calls the prober, and waits no longer than the context: neither a panic nor a prober that does not
// return stops the loop.
func (p *Processor) ask(ctx context.Context) error {
	return aside(ctx, p.prober.Probe)
}

// sleep waits, unless it is paused or resumed in between. It is false when the context is done.
func (p *Processor) sleep(ctx context.Context, tick *time.Ticker, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-p.kicked:
			return true
		case <-tick.C:
			p.beat()
		}
	}
}

func (p *Processor) receiveFailed(ctx context.Context, err error, wait time.Duration) {
	p.metrics.ReceiveRequest(metric.ReceiveError)
	class := queue.Classify(err)
	p.lastError.Store(&class)
	if !p.receives.failed(string(class)) {
		return
	}
	level := slog.LevelWarn // storage trouble passes
	switch class {
	case queue.ResultAuth, queue.ResultNotFound, queue.ResultOther:
		level = slog.LevelError // somebody has to mend it
	}
	p.log.LogAttrs(ctx, level, "receive failed; trying again until it works",
		slog.String("reason", string(class)), slog.String("error", reason(err)+cure(class)), slog.Duration("delay", wait))
}

// cure tells what would help against a class of failure.
func cure(class queue.Result) string {
	if class == queue.ResultNotFound {
		return "; create the queue, or have it created (queue.Config.CreateIfMissing, createIfMissing in the file)"
	}
	return ""
}

func (p *Processor) receiveSucceeded(ctx context.Context) {
	p.lastReceive.Store(time.Now().UnixNano())
	n, lasted, tell := p.receives.mended()
	if n > 0 {
		p.lastError.Store(nil)
	}
	if tell {
		p.log.InfoContext(ctx, "receiving again", "failures", n, "lasted", lasted)
	}
}

// dispatch gives each message a handler slot and a worker.
func (p *Processor) dispatch(messages []*queue.Message, probe bool) {
	p.metrics.Received(len(messages))
	now := p.now()
	all := make([]*delivery, len(messages))
	for i, m := range messages {
		size := len(m.Body)
		switch {
		case m.Err != nil:
			size = len(m.Text)
		case m.PackedSize() > 0:
			size = m.PackedSize()
		}
		p.metrics.Size(size)
		p.metrics.DeliveryAttempts(m.DequeueCount)
		all[i] = p.newDelivery(m, now)
		p.breaker.recognize(all[i])
	}
	p.limit.spend(len(messages))
	if probe {
		p.breaker.probe(all[0], now)
	}
	var calls []*batch
	if p.batches.handler != nil {
		calls = p.newBatches(all)
	}
	if p.hold(all) {
		p.log.Warn("messages come again that this process has not given back; taking them one at a time")
	}
	if calls != nil {
		go p.workBatches(calls)
		return
	}
	for _, d := range all {
		p.assign(d)
	}
}

// assign gives a delivery to an idle worker, or to a new one. Workers are kept because their stacks,
// once grown by the SDK's deep call chains, are the better part of a goroutine's price.
func (p *Processor) assign(d *delivery) {
	select {
	case p.handoff <- d:
	default:
		go p.work(d)
	}
}

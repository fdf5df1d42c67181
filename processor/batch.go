package processor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/qwatch/qwatch/queue"
)

// BatchHandler handles several messages in one call, for work that is cheaper in bulk.
//
// Nil completes every message that the handler has not settled itself; an error (or a panic) is dealt
// with for each of those as if a Handler had returned it: ErrorPolicy is asked once for each message,
// and each is retried after the delay for its own deliveries. Messages settled by then stay settled. A
// message's last attempt, unless it is its first, is a call of its own, so that one bad message does not
// take its company to the poison queue.
//
// The context is cancelled when shutdown has waited long enough, or when the lease of one of the
// messages is lost that the handler has not settled; the cause tells, as for Handler. The other messages
// are then released at once if the handler fails, without a word against them. The slice is the
// handler's own.
type BatchHandler interface {
	HandleBatch(ctx context.Context, messages []*Message) error
}

// BatchHandlerFunc is a function as a BatchHandler.
type BatchHandlerFunc func(ctx context.Context, messages []*Message) error

// HandleBatch implements BatchHandler.
func (f BatchHandlerFunc) HandleBatch(ctx context.Context, messages []*Message) error {
	return f(ctx, messages)
}

// BatchConfig describes how a queue is consumed in batches. The zero value is usable.
type BatchConfig struct {
	// Config is as for single messages, but that Concurrency must not be set, and Middleware neither:
	// it is built around one message. The breaker counts messages; while it is open, and after a start or
	// a wait, batches of one come first.
	Config
	// MaxBatchSize is how many messages a call gets at most: 1 to 32, default 32. A batch is what one
	// receive brings, but for last attempts: nobody waits to fill it.
	MaxBatchSize int
	// MaxConcurrentBatches is how many calls may run at once. Default 1. At most as many times
	// MaxBatchSize messages are in hand.
	MaxConcurrentBatches int
}

// WithDefaults returns the configuration with every default filled in. Concurrency becomes the number
// of messages that may be in hand.
func (c BatchConfig) WithDefaults() BatchConfig {
	if c.MaxBatchSize == 0 {
		c.MaxBatchSize = queue.MaxReceive
	}
	if c.MaxConcurrentBatches == 0 {
		c.MaxConcurrentBatches = 1
	}
	if c.Concurrency == 0 {
		c.Concurrency = c.MaxBatchSize * c.MaxConcurrentBatches
	}
	c.Config = c.Config.WithDefaults()
	return c
}

func (c BatchConfig) validate() error {
	var errs []error
	if c.MaxBatchSize < 1 || c.MaxBatchSize > queue.MaxReceive {
		errs = append(errs, fmt.Errorf("batch size %d is not 1 to %d", c.MaxBatchSize, queue.MaxReceive))
	}
	if c.MaxConcurrentBatches < 1 || c.MaxConcurrentBatches > MaxConcurrency/queue.MaxReceive {
		errs = append(errs, fmt.Errorf("%d concurrent batches are not 1 to %d", c.MaxConcurrentBatches, MaxConcurrency/queue.MaxReceive))
	}
	if len(errs) == 0 && c.Concurrency != c.MaxBatchSize*c.MaxConcurrentBatches {
		errs = append(errs, errors.New("concurrency is set: a batch processor's is its batch size times its concurrent batches"))
	}
	if len(c.Middleware) > 0 {
		errs = append(errs, errors.New("there is middleware, which wraps single messages: put it into the batch handler"))
	}
	return errors.Join(errs...)
}

// NewBatch checks everything and returns a processor that hands the queue's messages to the handler in
// batches. What cannot be read, or was delivered too often, is dead-lettered on its own and is not in
// the batch; without any message left the handler is not called. All else, from leases to shutdown, is
// as for New, for each message. Status and metrics count messages.
func NewBatch(q *queue.Queue, handler BatchHandler, cfg BatchConfig) (*Processor, error) {
	cfg = cfg.WithDefaults()
	bad := cfg.validate()
	if f, ok := handler.(BatchHandlerFunc); handler == nil || ok && f == nil {
		bad = errors.Join(bad, errors.New("the handler is nil"))
	}
	if bad != nil {
		return nil, fmt.Errorf("batch processor: %w", bad)
	}
	p, err := New(q, batchOfOne{handler}, cfg.Config)
	if err != nil {
		return nil, err
	}
	if h, ok := handler.(preparer); ok {
		p.prepare = h.prepare
	}
	p.prober, _ = handler.(Prober)
	p.batches = batches{handler: handler, size: cfg.MaxBatchSize, most: cfg.MaxConcurrentBatches}
	return p, nil
}

// batchOfOne makes a Handler of a BatchHandler.
type batchOfOne struct{ handler BatchHandler }

// Handle implements Handler.
func (b batchOfOne) Handle(ctx context.Context, m *Message) error {
	return b.handler.HandleBatch(ctx, []*Message{m})
}

// batches is what a batch processor has and another has not.
type batches struct {
	handler BatchHandler // nil: messages are handled one by one
	size    int
	most    int
	running int // guarded by Processor.mu
}

// room is how many messages there is room for, of those that may be in hand. The caller holds mu.
func (b *batches) room(free int) int {
	if b.running >= b.most {
		return 0
	}
	return min(b.size, free)
}

// batch is what one receive brought, on its way through one call of the handler.
type batch struct {
	p      *Processor
	all    []*delivery
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex // guards what follows
	left  int        // members whose ending is not known
	sum   Ending
	ended func(Ending)
}

// newBatches makes batches of deliveries that nobody else has seen yet: one of nearly all, and one for each
// message whose last attempt it is after others. In company it may have failed for another's sake.
func (p *Processor) newBatches(all []*delivery) []*batch {
	company := make([]*delivery, 0, len(all))
	var alone []*batch
	for _, d := range all {
		if d.msg.DequeueCount > 1 && d.msg.LastAttempt() {
			alone = append(alone, p.newBatch([]*delivery{d}))
		} else {
			company = append(company, d)
		}
	}
	if len(company) == 0 {
		return alone
	}
	return append([]*batch{p.newBatch(company)}, alone...)
}

// newBatch makes a batch.
func (p *Processor) newBatch(all []*delivery) *batch {
	b := &batch{p: p, all: all}
	b.ctx, b.cancel = context.WithCancelCause(p.values)
	for _, d := range all {
		own := d.cancel
		d.cancel = func(cause error) {
			own(cause)
			if !errors.Is(cause, context.Canceled) { // it is not merely over
				b.cut(cause)
			}
		}
	}
	return b
}

// cut cancels the handler, because of shutdown or of one message's lease. The other messages are not
// to blame for what it returns then.
func (b *batch) cut(cause error) {
	if !errors.Is(cause, ErrDraining) { // shutdown marks them itself, and holds the lock
		b.p.mu.Lock()
		for _, d := range b.all {
			if d.running && !d.interrupted {
				d.interrupted, d.spared = true, true
			}
		}
		b.p.mu.Unlock()
	}
	b.cancel(cause)
}

// workBatches takes what one receive brought through the handler, call by call, and frees the slot.
func (p *Processor) workBatches(calls []*batch) {
	defer func() {
		if len(calls) > 0 { // a handler that ended its goroutine
			go p.workBatches(calls)
			return
		}
		p.mu.Lock()
		p.batches.running--
		p.mu.Unlock()
		p.signal()
	}()
	for len(calls) > 0 {
		b := calls[0]
		calls = calls[1:]
		p.workBatch(b)
	}
}

// workBatch takes a batch through its handler. What is left out of it goes its own way at once, and
// what comes out of it is settled by workers, like single messages.
func (p *Processor) workBatch(b *batch) {
	var members []*delivery
	open := b.all                                    // not looked at yet
	if cause := context.Cause(b.ctx); cause != nil { // cut before its turn came
		for _, d := range open {
			d.err, d.stage = cause, stageJudging // nobody is asked about it
		}
		p.dissolve(b, open)
		return
	}
	defer func() {
		// Normally nothing is left here. After a Goexit all that is unsettled failed of it.
		for _, d := range append(members, open...) {
			if d.stage <= stageHandling {
				d.err = errGoexit
			}
		}
		p.dissolve(b, append(members, open...))
	}()
	for len(open) > 0 {
		d := open[0]
		if p.admit(d) {
			members = append(members, d)
		}
		open = open[1:]
	}
	if len(members) == 0 {
		return
	}
	messages := make([]*Message, len(members))
	for i, d := range members {
		messages[i] = &d.msg
	}
	ctx := p.traceBatch(b, members, messages)
	p.warnOnce(members)
	for _, d := range members {
		d.stage = stageHandling
		p.entering(d)
	}
	err := p.callBatch(ctx, messages)
	for _, d := range members {
		d.stage = stageHandled
		if d.msg.Settlement() == queue.Unsettled { // the others' part of the work is done
			d.err = err
		}
	}
}

// admit says whether a message is for the handler. One that is not is settled on its own.
func (p *Processor) admit(d *delivery) bool {
	if category, why := p.triage(d); category != "" {
		go func() {
			p.trace(d)
			p.refuse(d, category, why)
		}()
		return false
	}
	if d.err != nil { // to be given back
		d.stage = stageHandled
		p.trace(d)
		p.assign(d)
		return false
	}
	if p.prepare == nil {
		return true
	}
	if err := guard(func() error { return p.prepare(&d.msg) }); err != nil {
		d.err, d.stage = err, stageHandled
		p.trace(d)
		p.assign(d)
		return false
	}
	return true
}

// warnOnce has one message of the batch tell that the handler runs long.
func (p *Processor) warnOnce(members []*delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range members[1:] {
		d.warnAt = never
		p.lease.plan(d)
	}
}

// callBatch calls the handler. A panic is an error.
func (p *Processor) callBatch(ctx context.Context, messages []*Message) error {
	return guard(func() error { return p.batches.handler.HandleBatch(ctx, messages) })
}

// dissolve ends a batch whose handler has returned: its messages are settled.
func (p *Processor) dissolve(b *batch, members []*delivery) {
	ours := members[:0:0]
	for _, d := range members {
		if d.called {
			d.took = p.now() - d.started
		}
		d.stage = max(d.stage, stageReturned)
		if p.returned(d) {
			ours = append(ours, d)
		}
	}
	b.cancel(context.Canceled)
	for _, d := range ours {
		p.assign(d)
	}
}

// traceBatch has the tracer follow the batch as one.
func (p *Processor) traceBatch(b *batch, members []*delivery, messages []*Message) context.Context {
	if p.cfg.Tracer == nil {
		return b.ctx
	}
	ctx, end := p.startTrace(b.ctx, messages)
	b.left, b.ended = len(members), end
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range members {
		d.end, d.span = b.end, ctx
	}
	return ctx
}

// end takes note of how one message of the batch ended.
func (b *batch) end(e Ending) {
	b.mu.Lock()
	switch {
	case b.sum.Outcome == "":
		b.sum = e
	default:
		if b.sum.Outcome != e.Outcome {
			b.sum.Outcome = outcomeMixed
		}
		if b.sum.ErrorType == "" {
			b.sum.ErrorType, b.sum.Reason = e.ErrorType, e.Reason
		}
	}
	b.left--
	last := b.left == 0
	b.mu.Unlock()
	if last {
		b.ended(b.sum)
	}
}

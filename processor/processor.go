package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

// Processor consumes one queue. It is safe for concurrent use; Run may be called once.
type Processor struct {
	q       *queue.Queue
	handler Handler
	prepare func(*Message) error // reads the body before the handler is called; nil: nothing to do
	prober  Prober               // asked before a probe; nil: nobody
	cfg     Config
	log     *slog.Logger
	metrics *metric.ConsumerQueue
	epoch   time.Time // what now() counts from

	began    atomic.Bool
	values   context.Context // Run's context, never cancelled: what handlers' contexts come from
	settling context.Context // for storage calls; cancelled only when shutdown gives up
	handoff  chan *delivery  // to an idle worker
	changed  chan struct{}   // a handler returned or a message was settled; holds one
	kicked   chan struct{}   // paused or resumed; holds one
	giveUp   chan struct{}   // closed: no second tries any more
	quit     chan struct{}   // closed: Run is over

	lastTurn    atomic.Int64 // Unix nanoseconds
	lastReceive atomic.Int64
	lastError   atomic.Pointer[queue.Result] // of the present incident
	handled     atomic.Uint64                // handler calls that have ended
	handlerTime atomic.Int64                 // nanoseconds they took
	receives    incident
	deletes     incident
	updates     incident
	moves       incident
	held        held
	history     history
	worker      string
	limit       limit // the receive loop's
	lease       keeper
	unpacked    *semaphore.Weighted // bytes of large decompressed bodies
	breaker     breaker
	board       board

	mu          sync.Mutex // guards what follows, keeper, and the marked fields of deliveries
	state       State
	paused      bool
	handlers    int       // deliveries with a handler slot
	finishing   int       // deliveries being settled
	first, last *delivery // those with a handler slot, the oldest first
	caution     caution
	batches     batches
}

// New checks everything and returns a processor that hands the queue's messages to the handler. It
// makes no request. Errors tell every fault at once.
func New(q *queue.Queue, handler Handler, cfg Config) (*Processor, error) {
	cfg = cfg.WithDefaults()
	errs := []error{cfg.validate()}
	if q == nil {
		return nil, fmt.Errorf("processor: %w", errors.Join(append(errs, errors.New("the queue is nil"))...))
	}
	if f, ok := handler.(HandlerFunc); handler == nil || ok && f == nil {
		errs = append(errs, errors.New("the handler is nil"))
	}
	if r, ok := handler.(interface{ validate() error }); ok {
		errs = append(errs, r.validate())
	}
	errs = append(errs, cfg.validateFor(q))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("processor of %s: %w", q, err)
	}
	account := q.Account().Name()
	p := &Processor{
		q: q, handler: handler, cfg: cfg,
		log:     cfg.Logger.With("account", account, "queue", q.Name()),
		metrics: cfg.Metrics.queue(account, q.Name()),
		epoch:   time.Now(),
		handoff: make(chan *delivery),
		changed: make(chan struct{}, 1),
		kicked:  make(chan struct{}, 1),
		giveUp:  make(chan struct{}),
		quit:    make(chan struct{}),
		worker:  worker(),
		state:   StateWaiting,
	}
	if h, ok := handler.(preparer); ok {
		p.prepare = h.prepare
	}
	p.prober, _ = handler.(Prober)
	p.limit.rate = cfg.RateLimit
	if p.handler = chain(handler, cfg.Middleware...); p.handler == nil {
		return nil, fmt.Errorf("processor of %s: a middleware returned a nil handler", q)
	}
	p.lease.init(p)
	p.unpacked = semaphore.NewWeighted(int64(max(maxUnpacked, q.Config().MaxBodyBytes)))
	p.breaker.init(cfg, q.Account().Now)
	p.board.init(p)
	p.caution = caution{off: cfg.Breaker.Off, wary: true, last: -2 * cautionQuiet}
	p.metrics.Watch(p.gauges)
	return p, nil
}

// Queue returns the queue that is consumed.
func (p *Processor) Queue() *queue.Queue { return p.q }

// Run consumes the queue until the context is done, then shuts down. Whatever storage answers, only
// the context ends it.
//
// Shutdown stops receiving, gives handlers Config.DrainTimeout to finish, cancels them with
// ErrDraining, and waits as long again. A message whose handler gave up is released at once, so that
// another worker takes it; deletes that are owed are still sent. A handler that runs on after all of
// that keeps its message until the lease lapses, and Run says so in its error: everything else ends
// in nil. Run takes at most twice the drain timeout, and half a minute for storage.
//
// A delivery cut short has been counted by the service like any other: a message interrupted on its
// last attempt goes to the poison queue without another.
func (p *Processor) Run(ctx context.Context) error {
	if !p.began.CompareAndSwap(false, true) {
		return fmt.Errorf("processor of %s: Run was called before", p.q)
	}
	defer p.setState(StateStopped)
	defer close(p.quit)
	var cancel context.CancelFunc
	p.values = context.WithoutCancel(ctx)
	p.settling, cancel = context.WithCancel(p.values)
	defer cancel()
	if !p.awaitReady(ctx) {
		return nil
	}
	p.learn(ctx)
	p.receiving()
	go p.keepLeases()
	p.receive(ctx)
	err := p.drain(cancel)
	p.board.finish(cancel)
	return err
}

// Close removes the processor's series from Config.Metrics, once it has no more business there: when a
// new configuration no longer consumes the queue, say. Call it after Run has returned.
func (p *Processor) Close() { p.metrics.Delete() }

// now is the time since the processor was made, by the monotonic clock.
func (p *Processor) now() time.Duration { return time.Since(p.epoch) }

// signal tells the receive loop, or the drain, to look again.
func (p *Processor) signal() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// hidden notes that a message stays invisible for a while with nobody working on it.
func (p *Processor) hidden(d time.Duration) {
	now := p.now()
	p.held.add(now, now+d)
}

package processor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// FailureHook hears of messages that fail, to keep records of them: package failures has one. Its calls
// must return soon; the message's lease is kept meanwhile, and nothing that goes wrong there keeps the
// message. After fifteen seconds, when its context is done, a call is not waited for any more. They are made
// concurrently, each in a goroutine of its own. A zero time, and a nil error, mean that the handler was not
// called.
type FailureHook interface {
	// Failed is called after a failed attempt at a message that will be retried. The category is that of
	// queue_message_retries_total.
	Failed(ctx context.Context, m *Message, category string, err error, started time.Time, took time.Duration)
	// DeadLettered is called when the poison copy is safe and the original not yet deleted: a crash in
	// between has the message delivered, and dead-lettered, again.
	DeadLettered(ctx context.Context, m *Message, category poison.Category, reason string, err error, started time.Time, took time.Duration)
	// Recovered is called when a message was completed that had been delivered before.
	Recovered(ctx context.Context, m *Message)
}

const (
	historyAttempts = 20     // kept of a message: the latest
	historyTotal    = 20_000 // kept in all
)

// history is what this process saw of messages that are not gone yet: failed attempts. The zero value
// is ready.
type history struct {
	mu    sync.Mutex
	of    map[string][]queue.Attempt
	total int
}

func (h *history) add(id string, a queue.Attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string][]queue.Attempt{}
	}
	if all := h.of[id]; len(all) == historyAttempts {
		h.of[id] = append(all[:0:0], all[1:]...)
		h.total--
	}
	for old := range h.of { // any will do: it takes an outage to get here
		if h.total < historyTotal {
			break
		}
		h.drop(old)
	}
	h.of[id] = append(h.of[id], a)
	h.total++
}

func (h *history) drop(id string) {
	h.total -= len(h.of[id])
	delete(h.of, id)
}

// forget drops a message that is gone.
func (h *history) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(id)
}

func (h *history) list(id string) []queue.Attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[id]
}

// worker names this process in records.
func worker() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// startedAt is when the handler was called, by the service's clock; zero if it was not.
func (d *delivery) startedAt() time.Time {
	if !d.called {
		return time.Time{}
	}
	p := d.p
	return p.q.Account().Now().Add(d.started - p.now()).Round(0)
}

// attempt is a delivery that failed.
func (p *Processor) attempt(d *delivery, category string, err error) queue.Attempt {
	return queue.Attempt{
		Number: d.msg.DequeueCount, At: d.startedAt(), Category: category,
		Error: cut(reason(err), poison.MaxError), Worker: p.worker,
	}
}

// noteFailure keeps a failed attempt at a message that will be retried, and tells the hook.
func (p *Processor) noteFailure(d *delivery, category string) {
	p.history.add(d.msg.ID, p.attempt(d, category, d.err))
	if p.cfg.Failures != nil {
		err, started, took := own(d.err), d.startedAt(), d.took
		p.tell(d, func(ctx context.Context) {
			p.cfg.Failures.Failed(ctx, &d.msg, category, err, started, took)
		})
	}
}

// noteEnd forgets a message that is gone, and tells the hook of one that was completed after all.
func (p *Processor) noteEnd(d *delivery, recovered bool) {
	if d.msg.DequeueCount <= 1 {
		return
	}
	p.history.forget(d.msg.ID)
	if recovered && p.cfg.Failures != nil {
		p.tell(d, func(ctx context.Context) { p.cfg.Failures.Recovered(ctx, &d.msg) })
	}
}

// poisonCase is what goes into a message's poison record. The error is the handler's, if it has returned one.
func (p *Processor) poisonCase(d *delivery, category poison.Category, why string, err error) poison.Case {
	c := poison.Case{Category: category, Reason: why, BusinessKey: p.businessKey(&d.msg), Attempts: p.history.list(d.msg.ID)}
	if d.called && err != nil {
		c.Attempts = append(c.Attempts[:len(c.Attempts):len(c.Attempts)], p.attempt(d, retryCategory(err), err))
	}
	if p.cfg.Failures != nil {
		c.Copied = func(context.Context) {
			var took time.Duration
			switch {
			case err != nil:
				took = d.took
			case d.called: // the handler still runs
				took = p.now() - d.started
			}
			started := d.startedAt()
			p.tell(d, func(ctx context.Context) {
				p.cfg.Failures.DeadLettered(ctx, &d.msg, category, why, own(err), started, took)
			})
		}
	}
	return c
}

// tell calls the hook with the handler's values, in a context that shutdown does not end before its
// time, and waits no longer than that.
func (p *Processor) tell(d *delivery, call func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), hookTimeout)
	defer cancel()
	err := aside(ctx, func(ctx context.Context) error {
		call(ctx)
		return nil
	})
	if err == nil {
		return
	}
	message := "failure hook did not return"
	if _, ok := errors.AsType[*PanicError](err); ok {
		message = "failure hook panicked"
	}
	d.msg.Log().ErrorContext(ctx, message, "error", reason(err))
}

// hookTimeout bounds a hook's call.
const hookTimeout = 15 * time.Second

// businessKey asks for the key. What goes wrong there is no reason not to move the message.
func (p *Processor) businessKey(m *Message) string {
	if p.cfg.BusinessKey == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(p.values, hookTimeout)
	defer cancel()
	key := make(chan string, 1)
	err := aside(ctx, func(context.Context) error {
		k, err := p.cfg.BusinessKey(m)
		key <- k
		return err
	})
	if err != nil {
		return ""
	}
	return <-key
}

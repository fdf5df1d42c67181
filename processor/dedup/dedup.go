package dedup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// Store remembers which keys are done. Implementations are safe for concurrent use.
type Store interface {
	// Once calls do if the key is not done and nobody else has it in hand, and remembers the key as
	// done together with the result if do returns nil. Whatever else do returns leaves the key free
	// and is returned as it is. If the key is done, do is not called, and the outcome is a hit.
	//
	// The context given to do is ctx or derives from it. It is cancelled when the claim is lost.
	//
	// A *ClaimedError says that another worker has the key in hand.
	Once(ctx context.Context, key Key, do func(context.Context) (result []byte, err error)) (Outcome, error)
}

// Key names a business operation.
type Key struct {
	Scope     string // keeps keys of different queues apart
	Value     string // the business key: 1 to 1,024 bytes of UTF-8 without NUL
	Partition string // for Tables: where the key's entity lies; "" for anywhere
}

// String keeps business keys out of texts.
func (Key) String() string { return "(business key)" }

// GoString keeps business keys out of %#v.
func (k Key) GoString() string { return k.String() }

// LogValue implements slog.LogValuer.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Outcome is what Store.Once found.
type Outcome struct {
	Hit    bool   // the key was done before
	Result []byte // of a hit: what the handler gave to SetResult then
}

// Options tune Middleware. The zero value is usable.
type Options struct {
	// Scope keeps apart equal keys that mean different operations. Default: the storage account's
	// own name and the queue's, as in "ordersprod/orders". Set it for several queues whose messages
	// share their keys, or before a queue is renamed.
	Scope string
	// Partition tells the table partition that holds the entities a message's handler changes, for
	// Tables and Batch; it must be the same at every delivery of a key. Default: none.
	Partition func(*processor.Message) (string, error)
	// OnHit is called with the stored result when a message's key is done already, to repeat what
	// follows from it, such as an answer that may not have been sent. An error is treated like a
	// handler's. With Config.ManualSettle it must settle the message. Default: none.
	OnHit func(ctx context.Context, m *processor.Message, result []byte) error
}

// ErrNoKey is a message without a business key. Middleware makes it permanent.
var ErrNoKey = errors.New("the message has no business key")

// ClaimedError says that another worker has the key in hand.
type ClaimedError struct {
	For time.Duration // until its claim lapses, unless it is renewed
}

// Error implements error.
func (e *ClaimedError) Error() string {
	return "another worker has the message's business key in hand"
}

// errNotDone keeps a key from being remembered although the handler returned nil.
var errNotDone = errors.New("the handler gave the message away")

// Middleware returns a middleware that calls the handler once for each business key. It panics if
// store or key is nil.
//
// The handler's work counts as done when it returns nil. It must not settle the message itself before
// that, but for giving it away: if it abandons or dead-letters the message, the key stays free.
//
// A key that cannot be told, or is unfit, is a permanent error. key is called for every delivery; see
// Header and Body.
func Middleware(store Store, key func(*processor.Message) (string, error), opts Options) func(processor.Handler) processor.Handler {
	if store == nil || key == nil {
		panic("dedup: Middleware needs a store and a key")
	}
	return func(next processor.Handler) processor.Handler {
		return &middleware{store: store, key: key, opts: opts, next: next}
	}
}

type middleware struct {
	store Store
	key   func(*processor.Message) (string, error)
	opts  Options
	next  processor.Handler
}

// Handle implements processor.Handler.
func (d *middleware) Handle(ctx context.Context, m *processor.Message) error {
	key, err := d.keyOf(m)
	if err != nil {
		if ready, ok := errors.AsType[*readyError](err); ok {
			return ready.err
		}
		return processor.Permanent(err)
	}
	counted := false
	count := func(hit bool) {
		if !counted {
			m.Deduplicated(hit)
		}
		counted = true
	}
	for {
		outcome, err := d.store.Once(ctx, key, func(ctx context.Context) ([]byte, error) {
			count(false)
			return d.handle(ctx, m)
		})
		claimed, isClaimed := errors.AsType[*ClaimedError](err)
		switch {
		case errors.Is(err, errNotDone):
			return nil
		case isClaimed:
			count(false)
			if !m.LastAttempt() {
				return processor.Postpone(claimed.For, err)
			}
			if err := wait(ctx, claimed.For); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case !outcome.Hit:
			return nil
		}
		count(true)
		m.Log().DebugContext(ctx, "the message's work was done before")
		if d.opts.OnHit != nil {
			return d.opts.OnHit(ctx, m, outcome.Result)
		}
		return nil
	}
}

// Probe implements processor.Prober for a handler that does. One that does not cannot tell.
func (d *middleware) Probe(ctx context.Context) error {
	if p, ok := d.next.(processor.Prober); ok {
		return p.Probe(ctx)
	}
	return nil
}

func (d *middleware) handle(ctx context.Context, m *processor.Message) ([]byte, error) {
	r := &result{}
	if err := d.next.Handle(context.WithValue(ctx, resultKey{}, r), m); err != nil {
		return nil, err
	}
	if s := m.Settlement(); s == queue.Abandoned || s == queue.DeadLettered {
		return nil, errNotDone
	}
	return r.take(), nil
}

func (d *middleware) keyOf(m *processor.Message) (Key, error) {
	value, err := d.key(m)
	if err == nil {
		err = checkKey(value)
	}
	if err != nil {
		return Key{}, err
	}
	key := Key{Scope: d.opts.Scope, Value: value}
	if q := m.Queue(); key.Scope == "" && q != nil {
		key.Scope = q.Account().StorageAccount() + "/" + q.Name()
	}
	if d.opts.Partition != nil {
		if key.Partition, err = d.opts.Partition(m); err != nil {
			return Key{}, fmt.Errorf("partition of the business key: %w", err)
		}
	}
	return key, nil
}

// wait waits in place. The lease is renewed meanwhile.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, time.Second))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue/encryption"
)

// keyOutage bounds how long one content key that cannot be unwrapped keeps Receive from asking for messages.
const keyOutage = 5 * time.Minute

// outage is the time during which what messages need besides the queue, the body store or the keys,
// does not answer. Each message received then would be a delivery for nothing.
type outage struct {
	mu    sync.Mutex
	known bool                        // and logged
	probe func(context.Context) error // nil: nobody can be asked
	until time.Time                   // no more probes after; zero: no end
}

// began notes why a message could not be read, and logs the first of a row.
func (o *outage) began(ctx context.Context, q *Queue, a *absence) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probe, o.until = nil, time.Time{}
	if a.sealed != nil {
		o.until = time.Now().Add(keyOutage)
		o.probe = func(ctx context.Context) error {
			if _, err := a.sealed.Open(ctx, q.cfg.KeyWrapper); !errors.Is(err, encryption.ErrUndecryptable) {
				return err
			}
			return nil
		}
	} else if c, ok := q.cfg.BodyStore.(BodyChecker); ok {
		o.probe = c.Check
	}
	if !o.known {
		o.known = true
		q.acct.log.WarnContext(ctx, "messages cannot be read for now; they are released and tried again", "queue", q.name, "error", a)
	}
}

// mended notes that messages can be read.
func (o *outage) mended(ctx context.Context, q *Queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probe = nil
	if o.known {
		o.known = false
		q.acct.log.InfoContext(ctx, "messages can be read again", "queue", q.name)
	}
}

// over asks whether an outage is over, if there is one; else it returns why messages would not be read.
func (o *outage) over(ctx context.Context, q *Queue) error {
	o.mu.Lock()
	probe := o.probe
	if probe != nil && !o.until.IsZero() && time.Now().After(o.until) {
		probe, o.probe = nil, nil
	}
	o.mu.Unlock()
	if probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.acct.cfg.Timeout)
	defer cancel()
	if err := aside(ctx, func() error { return probe(ctx) }); err != nil {
		return fmt.Errorf("receive from %s: not asked for, because messages cannot be read for now: %w", q, err)
	}
	o.mu.Lock()
	o.probe = nil
	o.mu.Unlock()
	return nil
}

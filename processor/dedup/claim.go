package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/internal/table"
)

const (
	takeRounds   = 5                      // of losing a race for a key
	recordTries  = 4                      // to record work that is done
	recordWithin = 30 * time.Second       // bounds them all
	recordPause  = 250 * time.Millisecond // after the first, doubling
	freeWithin   = 5 * time.Second        // bounds giving a claim back
)

// Properties of a claim's entity.
const (
	propState  = "State"
	propOwner  = "Owner"
	propLease  = "LeaseMilliseconds"
	propScope  = "Scope"
	propKey    = "BusinessKey"
	propResult = "Result"

	stateClaimed = "claimed"
	stateDone    = "done"
)

// claim is one worker's claim on a key. It is not safe for concurrent use; between keep and its stop, the
// keeper alone uses it.
type claim struct {
	store          *TablesStore
	key            Key
	partition, row string
	owner          string // tells this claim from every other

	etag  azcore.ETag
	since time.Time // local: when it was taken
	until time.Time // local, and early: counted from before the request that the service stamped
}

func newOwner() string { return rand.Text() }

func (c *claim) entity(state string) table.Entity {
	return table.Entity{Partition: c.partition, Key: c.row, Properties: map[string]any{
		propState: state, propOwner: c.owner, propLease: int32(c.store.opts.Lease.Milliseconds()),
		propScope: c.key.Scope, propKey: c.key.Value,
	}}
}

func (c *claim) held(etag azcore.ETag, sent time.Time) {
	c.etag, c.until = etag, sent.Add(c.store.opts.Lease)
}

func (c *claim) mine(row table.Row, state string) bool {
	return row.Text(propOwner) == c.owner && row.Text(propState) == state
}

// take takes the key, or finds it done, or claimed.
func (c *claim) take(ctx context.Context) (Outcome, error) {
	for range takeRounds {
		sent := time.Now()
		etag, err := c.store.table.Insert(ctx, c.entity(stateClaimed))
		if table.Exists(err) {
			var outcome Outcome
			var again bool
			etag, outcome, again, err = c.meet(ctx)
			switch {
			case err == nil && outcome.Hit:
				return outcome, nil
			case again:
				continue
			}
		}
		if err != nil {
			if _, claimed := errors.AsType[*ClaimedError](err); claimed {
				return Outcome{}, err
			}
			return Outcome{}, c.failed(ctx, "claim a business key", err)
		}
		c.since = sent
		c.held(etag, sent)
		return Outcome{}, nil
	}
	return Outcome{}, &ClaimedError{For: time.Second}
}

// meet deals with an entity that is there already. It returns the etag of our claim, or a hit, or whether
// the entity changed meanwhile.
func (c *claim) meet(ctx context.Context) (etag azcore.ETag, _ Outcome, again bool, _ error) {
	row, err := c.store.table.Read(ctx, c.partition, c.row)
	switch {
	case table.Missing(err): // given back
		return "", Outcome{}, true, nil
	case err != nil:
		return "", Outcome{}, false, err
	case row.Text(propState) == stateDone:
		result, _ := row.Properties[propResult].(aztables.EDMBinary)
		return "", Outcome{Hit: true, Result: result}, false, nil
	case c.mine(row, stateClaimed): // our own request's answer was lost
		return row.ETag, Outcome{}, false, nil
	}
	// Both times are the service's. Its Date is cut to whole seconds, which errs on the late side.
	lease := time.Duration(row.Int(propLease)) * time.Millisecond
	if left := row.Timestamp.Add(lease).Sub(row.ReadAt); left > 0 {
		return "", Outcome{}, false, &ClaimedError{For: left}
	}
	etag, err = c.store.table.Replace(ctx, c.entity(stateClaimed), row.ETag)
	if table.Changed(err) || table.Missing(err) {
		return "", Outcome{}, true, nil
	}
	return etag, Outcome{}, false, err
}

// keep renews the claim until stop is called or the context ends, and cancels when the claim is lost. stop
// may be called more than once.
func (c *claim) keep(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	renewing, end := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() {
		for {
			wait := time.Until(c.until) - c.store.opts.Lease/2
			if time.Since(c.since)+wait > c.store.opts.MaxRenewal {
				wait = time.Until(c.until) // and not renewed
			}
			if !pause(renewing, wait) {
				return
			}
			if !time.Now().Before(c.until) || !c.renew(renewing) {
				if renewing.Err() == nil {
					cancel(ErrClaimLost)
				}
				return
			}
		}
	})
	return func() {
		end()
		over.Wait()
	}
}

// renew renews the claim, trying again until it lapses. It is false when the claim is lost.
func (c *claim) renew(ctx context.Context) bool {
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	for {
		sent := time.Now()
		e := table.Entity{Partition: c.partition, Key: c.row, Properties: map[string]any{propOwner: c.owner}}
		etag, err := c.store.table.Merge(ctx, e, c.etag)
		switch {
		case err == nil:
			c.held(etag, sent)
			return true
		case table.Changed(err):
			// Somebody else's by now, or ours, renewed by a request whose answer was lost.
			row, err := c.store.table.Read(ctx, c.partition, c.row)
			switch {
			case err == nil && c.mine(row, stateClaimed):
				c.etag = row.ETag
				continue
			case err == nil, table.Missing(err):
				return false
			}
		case table.Missing(err):
			return false
		}
		if !pause(ctx, min(c.store.opts.Lease/8, time.Second)) {
			return false
		}
	}
}

// record makes the claim a record of work done, in one transaction with the actions if there are any.
func (c *claim) record(ctx context.Context, result []byte, actions []aztables.TransactionAction) error {
	// The work is done: a context that has ended since is no reason to forget it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	wait := recordPause
	for try := 1; ; try++ {
		err := c.commit(ctx, result, actions)
		if err == nil {
			return nil
		}
		row, readErr := c.store.table.Read(ctx, c.partition, c.row)
		switch {
		case readErr == nil && c.mine(row, stateDone): // the answer was lost
			return nil
		case table.Missing(readErr), readErr == nil && !c.mine(row, stateClaimed):
			return c.failed(ctx, "record a business key as done", ErrClaimLost)
		case readErr == nil && !table.Passing(err) && !c.stale(err):
			return c.refused(ctx, err)
		case readErr == nil:
			c.etag = row.ETag // of a renewal whose answer was lost
		}
		if try == recordTries || !pause(ctx, wait) {
			return c.failed(ctx, "record a business key as done", err)
		}
		wait *= 2
	}
}

func (c *claim) commit(ctx context.Context, result []byte, actions []aztables.TransactionAction) error {
	e := c.entity(stateDone)
	if result != nil {
		e.Properties[propResult] = aztables.EDMBinary(result)
	}
	if len(actions) == 0 {
		_, err := c.store.table.Replace(ctx, e, c.etag)
		return err
	}
	first, err := e.Action(aztables.TransactionTypeUpdateReplace, c.etag)
	if err != nil {
		return err
	}
	return c.store.table.Submit(ctx, append([]aztables.TransactionAction{first}, actions...))
}

// stale says whether the claim's own condition failed, not one of the handler's actions.
func (c *claim) stale(err error) bool {
	f, ok := errors.AsType[*table.Error](err)
	return ok && (f.Action == table.NoAction || f.Action == 0) && (table.Changed(err) || table.Missing(err))
}

// refused describes a transaction that the service will not do.
func (c *claim) refused(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*table.Error](err); ok && f.Action > 0 {
		return &BatchError{Index: f.Action - 1, Status: f.Status, Code: f.Code}
	}
	return c.failed(ctx, "record a business key as done", err)
}

// release gives the key back. If that fails, its lease does.
func (c *claim) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeWithin)
	defer cancel()
	err := c.store.table.Delete(ctx, c.partition, c.row, c.etag)
	if !table.Changed(err) {
		return
	}
	if row, err := c.store.table.Read(ctx, c.partition, c.row); err == nil && c.mine(row, stateClaimed) {
		_ = c.store.table.Delete(ctx, c.partition, c.row, row.ETag)
	}
}

func (c *claim) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s in the idempotency table: %w", what, err)
}

// pause waits, and is false when the context ended instead.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

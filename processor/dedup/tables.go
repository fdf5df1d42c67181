package dedup

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/internal/table"
)

// TablesOptions tune Tables. The zero value is usable.
type TablesOptions struct {
	// Lease is how long a claim holds without being renewed: how long a worker that dies blocks its key.
	// 1 s to 7 days. Default 1 m.
	Lease time.Duration
	// MaxRenewal is how long a claim is renewed at most, at half the lease; when it lapses after that,
	// the handler is cancelled. Claims are not renewed once the handler's context has ended. Default 24 h.
	MaxRenewal time.Duration
	// Timeout bounds one call to the service, retries included. Default 10 s.
	Timeout time.Duration
}

// MaxLease is the longest TablesOptions.Lease.
const MaxLease = 7 * 24 * time.Hour

// ErrClaimLost is the cause (context.Cause) with which a handler is cancelled whose claim lapsed because
// it could not be renewed, or was renewed for TablesOptions.MaxRenewal, or that another worker has taken
// since; and the error when its work could not be recorded for that reason.
var ErrClaimLost = errors.New("the claim on the business key was lost")

// TablesStore keeps keys as entities of an Azure table. It is safe for concurrent use.
//
// A claim is an entity with its owner; one whose lease has lapsed may be taken over. When it was last
// written, and what time it is, are the service's word: no local clock is asked. The work is recorded on
// the condition that the claim has not changed hands.
//
// The effect is applied once when the handler adds it to Batch, which is committed in one
// entity-group transaction with the record. What it does elsewhere is repeated if the worker dies, or
// loses its claim, after the effect and before the record.
//
// The table may hold other entities. Row keys that begin with "qwatch-dedup!" are the store's own.
type TablesStore struct {
	table *table.Table
	opts  TablesOptions
}

// Tables returns a store in the client's table. It makes no call; see Create. The error joins every
// fault of the options.
func Tables(client *aztables.Client, opts TablesOptions) (*TablesStore, error) {
	opts = opts.WithDefaults()
	if err := opts.validate(client); err != nil {
		return nil, fmt.Errorf("idempotency in Azure Tables: %w", err)
	}
	return &TablesStore{table: table.New(client, opts.Timeout), opts: opts}, nil
}

// WithDefaults returns the options with every default filled in.
func (o TablesOptions) WithDefaults() TablesOptions {
	if o.Lease == 0 {
		o.Lease = time.Minute
	}
	if o.MaxRenewal == 0 {
		o.MaxRenewal = 24 * time.Hour
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	return o
}

func (o TablesOptions) validate(client *aztables.Client) error {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("there is no client"))
	}
	if o.Lease < time.Second || o.Lease > MaxLease {
		errs = append(errs, fmt.Errorf("lease %v is outside 1s to 7 days", o.Lease))
	}
	if o.MaxRenewal < 0 {
		errs = append(errs, fmt.Errorf("longest renewal %v is negative", o.MaxRenewal))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative: every call has a deadline", o.Timeout))
	}
	return errors.Join(errs...)
}

// Create creates the table. One that is there already is no error.
func (s *TablesStore) Create(ctx context.Context) error {
	if err := s.table.Create(ctx); err != nil {
		return fmt.Errorf("create the idempotency table: %w", err)
	}
	return nil
}

// Once implements Store.
func (s *TablesStore) Once(ctx context.Context, key Key, do func(context.Context) ([]byte, error)) (Outcome, error) {
	c, err := s.claim(key)
	if err != nil {
		return Outcome{}, err
	}
	if outcome, err := c.take(ctx); err != nil || outcome.Hit {
		return outcome, err
	}
	held, cancel := context.WithCancelCause(ctx)
	stop := c.keep(held, cancel)
	recorded := false
	defer func() { // also when the handler panics or ends its goroutine
		stop()
		cancel(nil)
		if !recorded {
			c.release(ctx)
		}
	}()
	batch := &Actions{partition: c.partition}
	result, err := do(context.WithValue(held, batchKey{}, batch))
	stop()
	if err != nil {
		if errors.Is(context.Cause(held), ErrClaimLost) {
			err = fmt.Errorf("%w: %w", ErrClaimLost, err)
		}
		return Outcome{}, err
	}
	if err := c.record(ctx, result, batch.all()); err != nil {
		return Outcome{}, err
	}
	recorded = true
	return Outcome{}, nil
}

// rowPrefix marks the store's own entities.
const rowPrefix = "qwatch-dedup!"

// claim returns a claim that was not taken yet. Keys of entities are hashes, so that a business key is
// in no address.
func (s *TablesStore) claim(key Key) (*claim, error) {
	sum := sha256.Sum256([]byte(key.Scope + "\x00" + key.Value))
	c := &claim{store: s, key: key, partition: key.Partition, row: rowPrefix + base64.RawURLEncoding.EncodeToString(sum[:])}
	if c.partition == "" {
		c.partition = "qwatch-dedup-" + hex.EncodeToString(sum[:1])
	}
	if err := checkPartition(c.partition); err != nil {
		return nil, processor.Permanent(err)
	}
	c.owner = newOwner()
	return c, nil
}

func checkPartition(p string) error {
	const most = 512
	switch {
	case len(p) > most:
		return fmt.Errorf("the business key's partition has %d bytes, more than %d", len(p), most)
	case !utf8.ValidString(p) || strings.ContainsAny(p, `/\#?'`) || strings.ContainsFunc(p, unicode.IsControl):
		return errors.New(`the business key's partition has a character that a partition key cannot have (/ \ # ? ' and control characters)`)
	default:
		return nil
	}
}

// Purge removes what was done, and claims left behind, longer ago than that, by the service's clock as far
// as this machine's agrees with it, and returns how many. It reads the whole table. A message of a purged
// key that comes again is handled again.
func (s *TablesStore) Purge(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= s.opts.Lease {
		return 0, fmt.Errorf("purge the idempotency table: an age of %v is not longer than the lease, %v", olderThan, s.opts.Lease)
	}
	old := table.Query{
		Filter: fmt.Sprintf("RowKey ge '%s' and RowKey lt '%s~' and Timestamp lt %s", rowPrefix, rowPrefix, table.Literal(time.Now().Add(-olderThan))),
		Select: "PartitionKey,RowKey",
	}
	n, err := s.table.DeleteAll(ctx, s.table.Query(ctx, old))
	if err != nil {
		return n, fmt.Errorf("purge the idempotency table: %w", err)
	}
	return n, nil
}

package failures

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/internal/table"
)

// TablesOptions tune Tables. The zero value is usable.
type TablesOptions struct {
	// Timeout bounds one call to the service, retries included. Default 10 s.
	Timeout time.Duration
}

// TablesStore keeps failures in an Azure table. It is safe for concurrent use.
//
// A record's partition is its queue, its row is its message id, so that anyone can look one up; its
// attempts are rows beside it.
type TablesStore struct{ table *table.Table }

var _ Store = (*TablesStore)(nil)

// Tables returns a store in the client's table. It makes no call; see Create. The error joins every fault
// of the options.
func Tables(client *aztables.Client, opts TablesOptions) (*TablesStore, error) {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("there is no client"))
	}
	if opts.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v is negative: every call has a deadline", opts.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("failure store in Azure Tables: %w", err)
	}
	return &TablesStore{table.New(client, opts.WithDefaults().Timeout)}, nil
}

// WithDefaults returns the options with every default filled in.
func (o TablesOptions) WithDefaults() TablesOptions {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	return o
}

// Create creates the table. One that is there already is no error.
func (s *TablesStore) Create(ctx context.Context) error {
	if err := s.table.Create(ctx); err != nil {
		return fmt.Errorf("create the failure table: %w", err)
	}
	return nil
}

// Attempted implements Store. Of a message that is retried for ever it keeps the first 10 attempts and
// the latest 40.
func (s *TablesStore) Attempted(ctx context.Context, queue, messageID string, a Attempt) error {
	action, err := attemptEntity(queue, messageID, a).Action(aztables.TransactionTypeInsertReplace, "")
	if err == nil {
		err = s.table.Submit(ctx, []aztables.TransactionAction{action})
	}
	if err != nil {
		return fmt.Errorf("record attempt %d at message %s of %s: %w", a.Number, messageID, queue, err)
	}
	return nil
}

// Record implements Store. The record and its attempts are written in one transaction.
func (s *TablesStore) Record(ctx context.Context, f Failure) error {
	if err := s.record(ctx, f); err != nil {
		return fmt.Errorf("record the failure of message %s of %s: %w", f.MessageID, f.Queue, err)
	}
	return nil
}

func (s *TablesStore) record(ctx context.Context, f Failure) error {
	entity := recordEntity(f)
	var attempts []aztables.TransactionAction
	for slot, a := range bySlot(f.Attempts) {
		action, err := attemptEntity(f.Queue, f.MessageID, a).Action(aztables.TransactionTypeInsertReplace, "")
		if err != nil {
			return fmt.Errorf("attempt %d: %w", slot, err)
		}
		attempts = append(attempts, action)
	}
	const races = 4 // with other copies of the message
	for try := 1; ; try++ {
		first, err := entity.Action(aztables.TransactionTypeAdd, "")
		if err != nil {
			return err
		}
		err = s.table.Submit(ctx, append([]aztables.TransactionAction{first}, attempts...))
		if !table.Exists(err) {
			return err
		}
		there, err := s.table.Read(ctx, entity.Partition, entity.Key)
		if err == nil {
			lacks := lacking(there, entity)
			if first, err = lacks.Action(aztables.TransactionTypeUpdateMerge, there.ETag); err != nil {
				return err
			}
			actions := attempts
			if len(lacks.Properties) > 0 {
				actions = append([]aztables.TransactionAction{first}, attempts...)
			}
			if len(actions) == 0 {
				return nil
			}
			err = s.table.Submit(ctx, actions)
		}
		if try == races || !table.Changed(err) && !table.Missing(err) {
			return err
		}
	}
}

// Recovered implements Store.
func (s *TablesStore) Recovered(ctx context.Context, queue, messageID string) error {
	rows, err := s.rows(ctx, queue, messageID, keys)
	if err == nil && !slices.ContainsFunc(rows, isRecord) {
		_, err = s.table.DeleteAll(ctx, each(rows))
	}
	if err != nil {
		return fmt.Errorf("forget the attempts at message %s of %s: %w", messageID, queue, err)
	}
	return nil
}

// Load implements Store. Of a message that is still being retried it returns the attempts alone.
func (s *TablesStore) Load(ctx context.Context, queue, messageID string) (Failure, error) {
	rows, err := s.rows(ctx, queue, messageID, "")
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Failure{}, fmt.Errorf("load the failure of message %s of %s: %w", messageID, queue, err)
	}
	f := Failure{Queue: queue, MessageID: messageID}
	var attempts []Attempt
	var replayOf string
	var replayedAt time.Time
	for _, row := range rows {
		switch row.Text(propKind) {
		case kindFailure:
			f = failureOf(row)
		case kindReplay:
			replayOf, replayedAt = row.Text(propReplayOf), row.Time(propAt)
		default:
			attempts = append(attempts, attemptOf(row))
		}
	}
	f.ReplayOf, f.ReplayedAt = replayOf, replayedAt
	slices.SortFunc(attempts, func(a, b Attempt) int { return a.Number - b.Number })
	f.Attempts = attempts
	return f, nil
}

// List implements Store. It reads the queue's whole partition, or the whole table.
func (s *TablesStore) List(ctx context.Context, opts ListOptions) iter.Seq2[Failure, error] {
	filter := []string{propKind + " eq '" + kindFailure + "'"}
	if opts.Queue != "" {
		filter = append(filter, "PartitionKey eq '"+escape(opts.Queue)+"'")
	}
	if !opts.Since.IsZero() {
		filter = append(filter, propDeadLetteredAt+" ge "+table.Literal(opts.Since))
	}
	q := table.Query{Filter: strings.Join(filter, " and ")}
	if !opts.Bodies {
		q.Select = bodiless
	}
	return func(yield func(Failure, error) bool) {
		for row, err := range s.table.Query(ctx, q) {
			if err != nil {
				yield(Failure{}, fmt.Errorf("list failures: %w", err))
				return
			}
			if !yield(failureOf(row), nil) {
				return
			}
		}
	}
}

// Delete implements Store.
func (s *TablesStore) Delete(ctx context.Context, queue, messageID string) error {
	rows, err := s.rows(ctx, queue, messageID, keys)
	if err == nil {
		_, err = s.table.DeleteAll(ctx, each(rows))
	}
	if err != nil {
		return fmt.Errorf("delete the failure of message %s of %s: %w", messageID, queue, err)
	}
	return nil
}

// Purge removes records and attempts written longer ago than that, by the service's clock as far as this
// machine's agrees with it, and returns how many rows. It reads the whole table.
func (s *TablesStore) Purge(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan <= 0 {
		return 0, fmt.Errorf("purge failures: an age of %v is not positive", olderThan)
	}
	old := table.Query{Filter: "Timestamp lt " + table.Literal(time.Now().Add(-olderThan)), Select: keys}
	n, err := s.table.DeleteAll(ctx, s.table.Query(ctx, old))
	if err != nil {
		return n, fmt.Errorf("purge failures: %w", err)
	}
	return n, nil
}

// keys selects what it takes to delete a row.
const keys = "PartitionKey,RowKey," + propKind

// rows reads the record of a message and its attempts.
func (s *TablesStore) rows(ctx context.Context, queue, messageID, properties string) ([]table.Row, error) {
	key := escape(messageID)
	q := table.Query{
		// An attempt's row is the message's, '!' and two digits, a replay's '!replay'; '"' is the character after '!'.
		Filter: fmt.Sprintf("PartitionKey eq '%s' and RowKey ge '%s' and RowKey lt '%s\"'", escape(queue), key, key),
		Select: properties,
	}
	var all []table.Row
	for row, err := range s.table.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

func each(rows []table.Row) iter.Seq2[table.Row, error] {
	return func(yield func(table.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

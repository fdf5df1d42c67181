package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SQLOptions describe where SQL keeps keys.
type SQLOptions struct {
	// Dialect is the database's. Required.
	Dialect Dialect
	// Table is the table's name, in PostgreSQL with or without its schema: letters, digits, underscores.
	// Default "qwatch_dedup".
	Table string
	// Isolation of the transactions. Default: the database's. Above read committed, PostgreSQL answers
	// a duplicate that waited with a serialization failure; it is a hit at its next attempt.
	Isolation sql.IsolationLevel
	// MaxWait is how long a duplicate waits for the transaction that has its key in hand, with a handler
	// and a connection, before it is retried later. Default 30 s, −1 for as long as the handler may.
	MaxWait time.Duration
}

// Off turns off what options can turn off.
const Off = -1

// SQLStore keeps keys in a table of a SQL database. It is safe for concurrent use.
//
// Each handler runs inside a transaction, which Tx returns, and which the store commits together
// with the key when the handler succeeds. So every running handler holds a connection: let the pool
// have as many as there are handlers, and more if handlers use others beside their transaction.
//
// The transaction ends with the handler's context, and with the worker's connection. For a worker
// whose machine vanishes, that is when the database notices: set tcp_keepalives_idle, or
// idle_in_transaction_session_timeout, in PostgreSQL.
//
// SQLite has one writer at a time, so handlers take turns: open the database with a busy timeout and in
// WAL mode, or the pool with a single connection.
type SQLStore struct {
	db   *sql.DB
	opts SQLOptions
	sql  statements
}

// SQL returns a store in the database, which it does not close. It makes no call; see Create. The error
// joins every fault of the options.
func SQL(db *sql.DB, opts SQLOptions) (*SQLStore, error) {
	opts = opts.WithDefaults()
	if err := opts.validate(db); err != nil {
		return nil, fmt.Errorf("idempotency in SQL: %w", err)
	}
	return &SQLStore{db: db, opts: opts, sql: opts.Dialect.statements(opts.Table)}, nil
}

// WithDefaults returns the options with every default filled in.
func (o SQLOptions) WithDefaults() SQLOptions {
	if o.Table == "" {
		o.Table = "qwatch_dedup"
	}
	if o.MaxWait == 0 {
		o.MaxWait = 30 * time.Second
	}
	return o
}

func (o SQLOptions) validate(db *sql.DB) error {
	var errs []error
	if db == nil {
		errs = append(errs, errors.New("there is no database"))
	}
	if o.Dialect != PostgreSQL && o.Dialect != SQLite {
		errs = append(errs, fmt.Errorf("dialect %d is neither PostgreSQL nor SQLite", o.Dialect))
	}
	if !plainTable(o.Table) {
		errs = append(errs, fmt.Errorf("table %.80q is not a name of letters, digits and underscores, with or without a schema", o.Table))
	} else if o.Dialect == SQLite && strings.Contains(o.Table, ".") {
		errs = append(errs, fmt.Errorf("table %q has a schema, which SQLite does not take", o.Table))
	}
	if o.MaxWait < time.Millisecond && o.MaxWait != Off {
		errs = append(errs, fmt.Errorf("longest wait %v is neither at least 1ms nor -1 for off", o.MaxWait))
	}
	return errors.Join(errs...)
}

// askWithin bounds the question whether a commit happened.
const askWithin = 5 * time.Second

type txKey struct{}

// Tx returns the transaction that the handler's work is to be done in, nil outside a handler that the
// middleware of an SQLStore called. The store commits it, or rolls it back if the handler fails; the
// handler must do neither.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

// Schema returns the statements that create the table and its index, if they are not there.
func (s *SQLStore) Schema() []string { return s.sql.schema }

// Create creates the table and its index, if they are not there.
func (s *SQLStore) Create(ctx context.Context) error {
	for _, statement := range s.sql.schema {
		_, err := s.db.ExecContext(ctx, statement)
		if err != nil && ctx.Err() == nil {
			// PostgreSQL lets two that create the same thing at once collide in spite of IF NOT EXISTS.
			_, err = s.db.ExecContext(ctx, statement)
		}
		if err != nil {
			return fmt.Errorf("create table %s: %w", s.opts.Table, err)
		}
	}
	return nil
}

// Once implements Store. A duplicate waits for the transaction that has its key in hand: a
// *ClaimedError means that it waited for SQLOptions.MaxWait, or that SQLite had another writer for as
// long as its busy timeout.
func (s *SQLStore) Once(ctx context.Context, key Key, do func(context.Context) ([]byte, error)) (Outcome, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return Outcome{}, s.failed(ctx, "connect to the database of", err)
	}
	defer func() { _ = conn.Close() }() // gives it back
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: s.opts.Isolation})
	if err != nil {
		return Outcome{}, s.failed(ctx, "begin a transaction with", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing once committed
	mine, err := s.insert(ctx, tx, key)
	if err != nil {
		return Outcome{}, err
	}
	if !mine {
		return s.lookUp(ctx, tx, key)
	}
	result, err := do(context.WithValue(ctx, txKey{}, tx))
	if err != nil {
		return Outcome{}, err
	}
	if result != nil {
		if _, err := tx.ExecContext(ctx, s.sql.result, result, key.Scope, key.Value); err != nil {
			return Outcome{}, s.failed(ctx, "store the result in", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return Outcome{}, s.committed(ctx, conn, key, err)
	}
	return Outcome{}, nil
}

// insert puts the key in the transaction, and says whether it was not done.
func (s *SQLStore) insert(ctx context.Context, tx *sql.Tx, key Key) (bool, error) {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if s.opts.MaxWait != Off {
		waiting, cancel = context.WithTimeout(ctx, s.opts.MaxWait)
	}
	defer cancel()
	r, err := tx.ExecContext(waiting, s.sql.insert, key.Scope, key.Value)
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			return false, &ClaimedError{For: s.opts.MaxWait}
		}
		return false, s.failed(ctx, "claim a business key in", err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		return false, s.failed(ctx, "claim a business key in", err)
	}
	return n == 1, nil
}

func (s *SQLStore) lookUp(ctx context.Context, tx *sql.Tx, key Key) (Outcome, error) {
	hit := Outcome{Hit: true}
	err := tx.QueryRowContext(ctx, s.sql.lookUp, key.Scope, key.Value).Scan(&hit.Result)
	if err != nil && !errors.Is(err, sql.ErrNoRows) { // purged this moment: still a hit
		return Outcome{}, s.failed(ctx, "read a result from", err)
	}
	return hit, nil
}

// committed returns nil if a commit that failed was one after all: its answer may have been lost.
func (s *SQLStore) committed(ctx context.Context, conn *sql.Conn, key Key, cause error) error {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	// A commit that SQLite refuses leaves its transaction open, and not every driver ends it. Nobody may
	// ask in there.
	_, _ = conn.ExecContext(asking, "ROLLBACK")
	_ = conn.Close()
	var result []byte
	if s.db.QueryRowContext(asking, s.sql.lookUp, key.Scope, key.Value).Scan(&result) == nil {
		return nil
	}
	return s.failed(ctx, "commit the work with a business key in", cause)
}

// failed describes an error of the database's. No statement of ours echoes a key.
func (s *SQLStore) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", what, s.opts.Table, context.Cause(ctx))
	}
	if s.opts.Dialect == SQLite && locked(err) {
		return &ClaimedError{For: time.Second}
	}
	return fmt.Errorf("%s %s: %w", what, s.opts.Table, err)
}

// locked recognizes SQLite's refusal of a second writer, which every driver words alike.
func locked(err error) bool {
	return strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "database table is locked")
}

// Purge removes the keys done longer ago than that, by the database's clock, a thousand at a time, and
// returns how many. A message of theirs that comes again is handled again.
func (s *SQLStore) Purge(ctx context.Context, olderThan time.Duration) (int64, error) {
	if olderThan <= 0 {
		return 0, fmt.Errorf("purge %s: an age of %v is not positive", s.opts.Table, olderThan)
	}
	var total int64
	for {
		r, err := s.db.ExecContext(ctx, s.sql.purge, int64((olderThan+time.Second-1)/time.Second))
		if err != nil {
			return total, fmt.Errorf("purge %s: %w", s.opts.Table, err)
		}
		n, err := r.RowsAffected()
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}

package test_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/test/peer"
)

func TestDedupInPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := peer.Postgres(t).DSN()
	opts := dedup.SQLOptions{Dialect: dedup.PostgreSQL}
	db, store := openSQL(t, "pgx", dsn, opts)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (what text)"); err != nil {
		t.Fatal(err)
	}
	apply := func(ctx context.Context, what string) error {
		_, err := dedup.Tx(ctx).ExecContext(ctx, "INSERT INTO effects (what) VALUES ($1)", what)
		return err
	}
	applied := func(what string) (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effects WHERE what = $1", what).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	t.Run("a duplicate waits for the first and is a hit", func(t *testing.T) {
		t.Parallel()
		key := dedup.Key{Scope: "s", Value: "waits"}
		in := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
				close(in)
				time.Sleep(time.Second)
				return []byte("first"), apply(ctx, "waits")
			}); err != nil {
				t.Error(err)
			}
		})
		<-in
		began := time.Now()
		o, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) { return nil, apply(ctx, "waits") })
		if err != nil || !o.Hit || string(o.Result) != "first" || time.Since(began) < 900*time.Millisecond {
			t.Errorf("after %v: %+v, %v", time.Since(began), o, err)
		}
		wg.Wait()
		if n := applied("waits"); n != 1 {
			t.Errorf("applied %d times", n)
		}
	})
	t.Run("it gives up waiting and leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		opts.MaxWait = 300 * time.Millisecond
		_, impatient := openSQL(t, "pgx", dsn, opts)
		key := dedup.Key{Scope: "s", Value: "impatient"}
		_, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
			for range 3 {
				_, err := impatient.Once(ctx, key, func(context.Context) ([]byte, error) { return nil, errors.New("two workers at once") })
				if c, ok := errors.AsType[*dedup.ClaimedError](err); !ok || c.For != opts.MaxWait {
					t.Errorf("in between: %v", err)
				}
			}
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
		if o, err := impatient.Once(t.Context(), key, nil); err != nil || !o.Hit {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
		var waiting int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'").Scan(&waiting); err != nil || waiting > 1 {
			t.Errorf("%d statements still wait, %v", waiting, err)
		}
	})
	t.Run("a connection that dies takes the work along", func(t *testing.T) {
		t.Parallel()
		key := dedup.Key{Scope: "s", Value: "dies"}
		work := func(kill bool) error {
			_, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
				var pid int
				err := errors.Join(apply(ctx, "dies"), dedup.Tx(ctx).QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid))
				if kill && err == nil {
					_, err = db.ExecContext(ctx, "SELECT pg_terminate_backend($1)", pid)
				}
				return nil, err
			})
			return err
		}
		if err := work(true); err == nil {
			t.Error("a commit on a dead connection succeeded")
		}
		if n := applied("dies"); n != 0 {
			t.Errorf("applied %d times by the dead one", n)
		}
		if err := work(false); err != nil || applied("dies") != 1 {
			t.Errorf("afterwards applied %d times, %v", applied("dies"), err)
		}
	})
	t.Run("a failed statement that the handler hides is no success", func(t *testing.T) {
		t.Parallel()
		key := dedup.Key{Scope: "s", Value: "hidden"}
		if _, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
			if err := apply(ctx, "hidden"); err != nil {
				return nil, err
			}
			_, _ = dedup.Tx(ctx).ExecContext(ctx, "SELECT 1/0")
			return nil, nil
		}); err == nil || applied("hidden") != 0 {
			t.Errorf("applied %d times, %v", applied("hidden"), err)
		}
	})
	t.Run("a lost context rolls back", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		if _, err := store.Once(ctx, dedup.Key{Scope: "s", Value: "lost"}, func(ctx context.Context) ([]byte, error) {
			err := apply(ctx, "lost")
			cancel(errWidget) // and the handler takes no notice
			return nil, err
		}); !errors.Is(err, errWidget) || applied("lost") != 0 {
			t.Errorf("applied %d times, %v", applied("lost"), err)
		}
	})
	t.Run("isolation above read committed fails a duplicate that waited, once", func(t *testing.T) {
		t.Parallel()
		opts.Isolation = sql.LevelSerializable
		_, strict := openSQL(t, "pgx", dsn, opts)
		key := dedup.Key{Scope: "s", Value: "strict"}
		in := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := strict.Once(t.Context(), key, func(context.Context) ([]byte, error) {
				close(in)
				time.Sleep(500 * time.Millisecond)
				return nil, nil
			}); err != nil {
				t.Error(err)
			}
		})
		<-in
		again := func(context.Context) ([]byte, error) { return nil, errors.New("done twice") }
		if o, err := strict.Once(t.Context(), key, again); err == nil && !o.Hit {
			t.Errorf("waited: %+v, %v", o, err)
		}
		wg.Wait()
		if o, err := strict.Once(t.Context(), key, again); err != nil || !o.Hit {
			t.Errorf("afterwards: %+v, %v", o, err)
		}
	})
	t.Run("many processes may create the table at once", func(t *testing.T) {
		t.Parallel()
		if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA shop"); err != nil {
			t.Fatal(err)
		}
		many, err := dedup.SQL(db, dedup.SQLOptions{Dialect: dedup.PostgreSQL, Table: "shop.done"})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := many.Create(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		onceAndAgain(t, many)
	})
	t.Run("old keys are purged", func(t *testing.T) {
		t.Parallel()
		purges(t, db, dedup.PostgreSQL, "UPDATE old SET done_at = now() - interval '8 days' WHERE business_key NOT LIKE 'new%'")
	})
}

func TestDedupInSQLite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db, store := openSQL(t, "sqlite", sqliteDSN(folder), dedup.SQLOptions{Dialect: dedup.SQLite})
	purges(t, db, dedup.SQLite, "UPDATE old SET done_at = done_at - 8*86400 WHERE business_key NOT LIKE 'new%'")

	// A second process that does not wait: another pool on the same file, without a busy timeout.
	_, other := openSQL(t, "sqlite", "file:"+folder+"/work.db", dedup.SQLOptions{Dialect: dedup.SQLite})
	if _, err := store.Once(t.Context(), dedup.Key{Value: "one"}, func(ctx context.Context) ([]byte, error) {
		_, err := other.Once(ctx, dedup.Key{Value: "two"}, func(context.Context) ([]byte, error) { return nil, nil })
		if c, ok := errors.AsType[*dedup.ClaimedError](err); !ok || c.For != time.Second {
			t.Errorf("while another writes: %v", err)
		}
		return nil, nil
	}); err != nil {
		t.Error(err)
	}
	if o, err := other.Once(t.Context(), dedup.Key{Value: "two"}, func(context.Context) ([]byte, error) { return nil, nil }); err != nil || o.Hit {
		t.Errorf("afterwards: %+v, %v", o, err)
	}
}

// A commit that a reader holds up, without WAL, must not leave its connection inside the transaction,
// nor be taken for one that happened.
func TestDedupInSQLiteWhoseCommitIsRefused(t *testing.T) {
	t.Parallel()
	dsn := "file:" + t.TempDir() + "/work.db?_pragma=busy_timeout(100)"
	db, store := openSQL(t, "sqlite", dsn, dedup.SQLOptions{Dialect: dedup.SQLite})
	reader, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM qwatch_dedup").Scan(&n); err != nil {
		t.Fatal(err)
	}
	key := dedup.Key{Value: "held up"}
	work := func(context.Context) ([]byte, error) { return nil, nil }
	if o, err := store.Once(t.Context(), key, work); err == nil {
		t.Errorf("committed while a reader was in the way: %+v", o)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	for delivery := range 3 { // on whichever connections the pool has left
		if o, err := store.Once(t.Context(), key, work); err != nil || o.Hit != (delivery > 0) {
			t.Errorf("delivery %d: %+v, %v", delivery, o, err)
		}
	}
}

// purges checks a purge of 2,300 old keys beside three new ones.
func purges(t *testing.T, db *sql.DB, dialect dedup.Dialect, age string) {
	t.Helper()
	store, err := dedup.SQL(db, dedup.SQLOptions{Dialect: dialect, Table: "old"})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for i := range 2303 {
		key := fmt.Sprint("old", i)
		if i < 3 {
			key = fmt.Sprint("new", i)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO old (scope, business_key) VALUES ('s', '"+key+"')"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.ExecContext(t.Context(), age); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Purge(t.Context(), 7*24*time.Hour); err != nil || n != 2300 {
		t.Errorf("purged %d, %v", n, err)
	}
	for i := range 3 {
		if o, err := store.Once(t.Context(), dedup.Key{Scope: "s", Value: fmt.Sprint("new", i)}, nil); err != nil || !o.Hit {
			t.Errorf("a new key: %+v, %v", o, err)
		}
	}
}

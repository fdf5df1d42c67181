package dedup_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor/dedup"
)

// inSQL runs a test on a double of a database, in fake time.
func inSQL(t *testing.T, opts dedup.SQLOptions, test func(t *testing.T, db *fakeDB, s *dedup.SQLStore)) {
	t.Helper()
	if opts.Dialect == 0 {
		opts.Dialect = dedup.PostgreSQL
	}
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{}
		pool := db.open()
		pool.SetMaxOpenConns(2)
		defer func() { _ = pool.Close() }()
		s, err := dedup.SQL(pool, opts)
		if err != nil {
			t.Fatal(err)
		}
		test(t, db, s)
	})
}

// transfers is work in the handler's transaction.
func transfers(ctx context.Context) ([]byte, error) {
	_, err := dedup.Tx(ctx).ExecContext(ctx, "UPDATE accounts SET cents = cents + $1", 100)
	return []byte("receipt"), err
}

func TestSQLCommitsTheWorkWithItsKey(t *testing.T) {
	t.Parallel()
	inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
		if o, err := s.Once(t.Context(), key, transfers); err != nil || o.Hit {
			t.Fatalf("first: %+v, %v", o, err)
		}
		if o, err := s.Once(t.Context(), key, transfers); err != nil || !o.Hit || string(o.Result) != "receipt" {
			t.Errorf("second: %+v, %v", o, err)
		}
		if diff := cmp.Diff([]string{"UPDATE accounts SET cents = cents + 100"}, db.applied); diff != "" {
			t.Errorf("applied (-want +got):\n%s", diff)
		}
	})
}

func TestSQLRollsBackFailedWork(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"an error": func() error { return errBroken },
		"a panic":  func() error { panic("the widget exploded") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
				func() {
					defer func() { _ = recover() }()
					if _, err := s.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
						if _, err := transfers(ctx); err != nil {
							t.Error(err)
						}
						return nil, fail()
					}); err != errBroken {
						t.Errorf("error %v", err)
					}
				}()
				if len(db.applied) != 0 || len(db.keys) != 0 {
					t.Errorf("applied %v, keys %v", db.applied, db.keys)
				}
				if o, err := s.Once(t.Context(), key, transfers); err != nil || o.Hit {
					t.Errorf("again: %+v, %v", o, err)
				}
			})
		})
	}
}

func TestSQLDuplicateWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first error // of the first worker
		hit   bool  // of the second
	}{
		"that commits":    {nil, true},
		"that rolls back": {errBroken, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := s.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
						_, err := transfers(ctx)
						time.Sleep(10 * time.Second)
						return nil, errors.Join(err, tt.first)
					}); !errors.Is(err, tt.first) {
						t.Errorf("first: %v", err)
					}
				})
				time.Sleep(time.Second)
				began := time.Now()
				o, err := s.Once(t.Context(), key, transfers)
				if err != nil || o.Hit != tt.hit || time.Since(began) != 9*time.Second {
					t.Errorf("second, after %v: %+v, %v", time.Since(began), o, err)
				}
				wg.Wait()
				if len(db.applied) != 1 {
					t.Errorf("applied: %v", db.applied)
				}
			})
		})
	}
}

func TestSQLDuplicateGivesUpWaiting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		wait  time.Duration
		after time.Duration // when it gives up; 0: it does not
	}{
		"by default after 30s": {0, 30 * time.Second},
		"when told":            {5 * time.Second, 5 * time.Second},
		"never":                {dedup.Off, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSQL(t, dedup.SQLOptions{MaxWait: tt.wait}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := s.Once(t.Context(), key, takes(time.Hour)); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				began := time.Now()
				o, err := s.Once(t.Context(), key, transfers)
				c, claimed := errors.AsType[*dedup.ClaimedError](err)
				switch {
				case tt.after == 0 && (err != nil || !o.Hit):
					t.Errorf("after %v: %+v, %v", time.Since(began), o, err)
				case tt.after > 0 && (!claimed || c.For != tt.after || time.Since(began) != tt.after):
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				wg.Wait()
			})
		})
	}
}

func TestSQLWaitEndsWithTheHandlersContext(t *testing.T) {
	t.Parallel()
	inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.Once(t.Context(), key, takes(time.Minute)) })
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBroken) })
		if _, err := s.Once(ctx, key, transfers); !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		wg.Wait()
	})
}

func TestSQLCommitWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	for name, tt := range map[string]struct {
		happened bool
		lookUp   error
		want     string
	}{
		"happened":            {happened: true},
		"did not happen":      {want: "commit the work with a business key in qwatch_dedup: connection reset by peer"},
		"and nobody can tell": {happened: true, lookUp: errBroken, want: "commit the work with a business key in qwatch_dedup: connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
				db.failCommit, db.commitAnyway, db.failLookUp = lost, tt.happened, tt.lookUp
				_, err := s.Once(t.Context(), key, transfers)
				if got := text(err); got != tt.want {
					t.Errorf("error %q, want %q", got, tt.want)
				}
				// The connection is outside the transaction again.
				db.failCommit, db.failLookUp = nil, nil
				if o, err := s.Once(t.Context(), key, transfers); err != nil || o.Hit != tt.happened {
					t.Errorf("again: %+v, %v", o, err)
				}
				if len(db.applied) != 1 {
					t.Errorf("applied %v", db.applied)
				}
			})
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestSQLErrorsNameTheTable(t *testing.T) {
	t.Parallel()
	locked := errors.New("database is locked (5) (SQLITE_BUSY)")
	for name, tt := range map[string]struct {
		dialect dedup.Dialect
		fail    func(*fakeDB)
		want    string
		claimed bool
	}{
		"begin":            {dedup.PostgreSQL, func(db *fakeDB) { db.failBegin = errBroken }, "begin a transaction with qwatch_dedup: the widget is broken", false},
		"insert":           {dedup.PostgreSQL, func(db *fakeDB) { db.failInsert = errBroken }, "claim a business key in qwatch_dedup: the widget is broken", false},
		"a locked SQLite":  {dedup.SQLite, func(db *fakeDB) { db.failInsert = locked }, "another worker has the message's business key in hand", true},
		"locked elsewhere": {dedup.PostgreSQL, func(db *fakeDB) { db.failInsert = locked }, "claim a business key in qwatch_dedup: " + locked.Error(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSQL(t, dedup.SQLOptions{Dialect: tt.dialect}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
				tt.fail(db)
				_, err := s.Once(t.Context(), key, transfers)
				if _, claimed := errors.AsType[*dedup.ClaimedError](err); text(err) != tt.want || claimed != tt.claimed {
					t.Errorf("error %v, claimed %t", err, claimed)
				}
			})
		})
	}
}

func TestSQLPurgesInParts(t *testing.T) {
	t.Parallel()
	inSQL(t, dedup.SQLOptions{}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
		db.purgeable = 2300
		n, err := s.Purge(t.Context(), 90*time.Minute+time.Millisecond)
		if err != nil || n != 2300 {
			t.Errorf("purged %d, %v", n, err)
		}
		if diff := cmp.Diff([]int64{5401, 5401, 5401}, db.purged); diff != "" {
			t.Errorf("ages in seconds (-want +got):\n%s", diff)
		}
		if _, err := s.Purge(t.Context(), 0); err == nil {
			t.Error("purged everything")
		}
	})
}

func TestSQLOptionsAreChecked(t *testing.T) {
	t.Parallel()
	pool := (&fakeDB{}).open()
	defer func() { _ = pool.Close() }()
	for name, tt := range map[string]struct {
		db   *sql.DB
		opts dedup.SQLOptions
		want []string
	}{
		"the least":              {db: pool, opts: dedup.SQLOptions{Dialect: dedup.SQLite}},
		"a schema":               {db: pool, opts: dedup.SQLOptions{Dialect: dedup.PostgreSQL, Table: "shop.Dedup_2"}},
		"a schema in SQLite":     {db: pool, opts: dedup.SQLOptions{Dialect: dedup.SQLite, Table: "main.dedup"}, want: []string{`table "main.dedup" has a schema, which SQLite does not take`}},
		"a name that is a trick": {db: pool, opts: dedup.SQLOptions{Dialect: dedup.SQLite, Table: `a"; DROP TABLE b`}, want: []string{`table "a\"; DROP TABLE b" is not a name of letters, digits and underscores, with or without a schema`}},
		"everything wrong": {opts: dedup.SQLOptions{Table: "1", MaxWait: -5}, want: []string{
			"there is no database", "dialect 0 is neither PostgreSQL nor SQLite",
			`table "1" is not a name of letters, digits and underscores, with or without a schema`,
			"longest wait -5ns is neither at least 1ms nor -1 for off",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if _, err := dedup.SQL(tt.db, tt.opts); err != nil {
				got = strings.Split(strings.TrimPrefix(err.Error(), "idempotency in SQL: "), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// The page tells people who create the table themselves what to run.
func TestDocumentedSchemaIsCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []dedup.Dialect{dedup.PostgreSQL, dedup.SQLite} {
		inSQL(t, dedup.SQLOptions{Dialect: d}, func(t *testing.T, db *fakeDB, s *dedup.SQLStore) {
			if ddl := strings.Join(s.Schema(), ";\n") + ";\n"; !strings.Contains(string(page), ddl) {
				t.Errorf("docs/idempotency.md lacks\n%s", ddl)
			}
			if err := s.Create(t.Context()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(s.Schema(), db.applied); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

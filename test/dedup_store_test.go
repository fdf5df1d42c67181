package test_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/test/peer"
)

var errWidget = errors.New("the widget is broken")

// openSQL opens a database, with its effects table and a store.
func openSQL(t testing.TB, driver, dsn string, opts dedup.SQLOptions) (*sql.DB, *dedup.SQLStore) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := dedup.SQL(db, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, store
}

// sqliteDSN is a database in a file, as the documentation recommends to open it.
func sqliteDSN(folder string) string {
	return "file:" + filepath.Join(folder, "work.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
}

// tableClient is a client of a table on Azurite.
func tableClient(t testing.TB, connectionString, name string) *aztables.Client {
	t.Helper()
	service, err := aztables.NewServiceClientFromConnectionString(connectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	return service.NewClient(name)
}

func openTables(t testing.TB, azurite *peer.AzuriteServer, name string, opts dedup.TablesOptions) *dedup.TablesStore {
	t.Helper()
	store, err := dedup.Tables(tableClient(t, azurite.ConnectionString(), name), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// What every store promises, on the real thing.
func TestDedupStoresKeepTheirPromise(t *testing.T) {
	t.Parallel()
	_, postgres := openSQL(t, "pgx", peer.Postgres(t).DSN(), dedup.SQLOptions{Dialect: dedup.PostgreSQL})
	_, sqlite := openSQL(t, "sqlite", sqliteDSN(t.TempDir()), dedup.SQLOptions{Dialect: dedup.SQLite})
	tables := openTables(t, peer.Azurite(t), "dedup", dedup.TablesOptions{Lease: 2 * time.Second})
	for name, store := range map[string]dedup.Store{"PostgreSQL": postgres, "SQLite": sqlite, "Azure Tables": tables, "memory": &dedup.Memory{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("a key is done once, and its result kept", func(t *testing.T) { onceAndAgain(t, store) })
			t.Run("failed work leaves the key free", func(t *testing.T) { failAndAgain(t, store) })
			t.Run("one of many at once does the work", func(t *testing.T) { manyAtOnce(t, store) })
			t.Run("keys and scopes are told apart", func(t *testing.T) { apart(t, store) })
		})
	}
}

func onceAndAgain(t *testing.T, store dedup.Store) {
	for name, result := range map[string][]byte{"with a result": []byte("naïve \x00\xff"), "with a large one": make([]byte, dedup.MaxResult), "without": nil} {
		key := dedup.Key{Scope: "shop/orders", Value: "o'brien/42?#\\ " + name}
		for delivery := range 3 {
			o, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) {
				if delivery > 0 {
					t.Errorf("%s: the work was done again", name)
				}
				return result, nil
			})
			if err != nil || o.Hit != (delivery > 0) || o.Hit && string(o.Result) != string(result) {
				t.Errorf("%s, delivery %d: hit %t with %d bytes, %v", name, delivery, o.Hit, len(o.Result), err)
			}
		}
	}
}

func failAndAgain(t *testing.T, store dedup.Store) {
	key := dedup.Key{Scope: "shop/orders", Value: "fails"}
	for range 2 {
		if _, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) { return nil, errWidget }); !errors.Is(err, errWidget) {
			t.Errorf("error %v", err)
		}
	}
	if o, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) { return nil, nil }); err != nil || o.Hit {
		t.Errorf("afterwards: %+v, %v", o, err)
	}
}

func manyAtOnce(t *testing.T, store dedup.Store) {
	key := dedup.Key{Scope: "shop/orders", Value: "many"}
	var done, hits, busy atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			o, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) {
				done.Add(1)
				time.Sleep(300 * time.Millisecond)
				return nil, nil
			})
			switch _, claimed := errors.AsType[*dedup.ClaimedError](err); {
			case claimed:
				busy.Add(1)
			case err != nil:
				t.Error(err)
			case o.Hit:
				hits.Add(1)
			}
		})
	}
	wg.Wait()
	if done.Load() != 1 || hits.Load()+busy.Load() != 11 {
		t.Errorf("done %d times, %d hits, %d told to wait", done.Load(), hits.Load(), busy.Load())
	}
}

func apart(t *testing.T, store dedup.Store) {
	for i, key := range []dedup.Key{{Scope: "a", Value: "b"}, {Scope: "a", Value: "c"}, {Scope: "a/b", Value: ""}, {Scope: "", Value: "a/b"}} {
		if o, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) { return nil, nil }); err != nil || o.Hit {
			t.Errorf("key %d: %+v, %v", i, o, err)
		}
	}
}

func TestDedupTablesOnAzurite(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	azurite := peer.Azurite(t)
	client := tableClient(t, azurite.ConnectionString(), "ledgers")
	store := openTables(t, azurite, "ledgers", dedup.TablesOptions{Lease: lease})
	add := func(row string) aztables.TransactionAction {
		return aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: fmt.Appendf(nil, `{"PartitionKey": "customer 42", "RowKey": %q}`, row)}
	}
	has := func(row string) bool {
		_, err := client.GetEntity(t.Context(), "customer 42", row, nil)
		return err == nil
	}

	t.Run("a claim is renewed for as long as the handler needs", func(t *testing.T) {
		t.Parallel()
		key := dedup.Key{Scope: "s", Value: "long"}
		var wg sync.WaitGroup
		wg.Go(func() {
			if o, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
				time.Sleep(4 * lease)
				return nil, ctx.Err()
			}); err != nil || o.Hit {
				t.Errorf("long work: %+v, %v", o, err)
			}
		})
		for range 5 {
			time.Sleep(lease / 2)
			_, err := store.Once(t.Context(), key, func(context.Context) ([]byte, error) {
				t.Error("two workers at once")
				return nil, nil
			})
			if c, ok := errors.AsType[*dedup.ClaimedError](err); !ok || c.For <= 0 || c.For > lease+time.Second {
				t.Errorf("in between: %v", err)
			}
		}
		wg.Wait()
	})
	t.Run("actions are committed with the key", func(t *testing.T) {
		t.Parallel()
		key := dedup.Key{Scope: "s", Value: "batch", Partition: "customer 42"}
		for range 2 {
			if _, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
				return nil, dedup.Batch(ctx).Add(add("one"), add("two"))
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !has("one") || !has("two") {
			t.Error("the effect is not there")
		}
	})
	t.Run("a refused action leaves nothing", func(t *testing.T) {
		t.Parallel()
		if _, err := client.AddEntity(t.Context(), add("taken").Entity, nil); err != nil {
			t.Fatal(err)
		}
		key := dedup.Key{Scope: "s", Value: "refused", Partition: "customer 42"}
		for range 2 {
			_, err := store.Once(t.Context(), key, func(ctx context.Context) ([]byte, error) {
				return nil, dedup.Batch(ctx).Add(add("three"), add("taken"))
			})
			if refused, ok := errors.AsType[*dedup.BatchError](err); !ok || *refused != (dedup.BatchError{Index: 1, Status: 409, Code: "EntityAlreadyExists"}) {
				t.Errorf("error %v", err)
			}
		}
		if has("three") {
			t.Error("half of the transaction was done")
		}
	})
	t.Run("old keys are purged, new ones kept", func(t *testing.T) {
		t.Parallel()
		purged := openTables(t, azurite, "purged", dedup.TablesOptions{Lease: time.Second})
		done := func(n int) (hits int) {
			for i := range n {
				o, err := purged.Once(t.Context(), dedup.Key{Value: fmt.Sprint(i), Partition: "p"}, func(context.Context) ([]byte, error) { return nil, nil })
				if err != nil {
					t.Fatal(err)
				}
				if o.Hit {
					hits++
				}
			}
			return hits
		}
		done(7)
		time.Sleep(3 * time.Second)
		if hits := done(10); hits != 7 {
			t.Errorf("%d hits", hits)
		}
		if n, err := purged.Purge(t.Context(), 2*time.Second); err != nil || n != 7 {
			t.Errorf("purged %d, %v", n, err)
		}
		if hits := done(10); hits != 3 {
			t.Errorf("%d hits after the purge", hits)
		}
	})
}

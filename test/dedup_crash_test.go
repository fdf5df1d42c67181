package test_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// A bench is a queue and a store that worker processes share.
type bench struct {
	worker workerConfig
	q      *queue.Queue
	// applied counts how often the effect of each key was applied.
	applied func() map[string]int
}

// benches makes a new queue and an empty store of a kind, for one test.
type benches map[string]func(t *testing.T, name string) *bench

func newBenches(t *testing.T) benches {
	azurite, postgres := peer.Azurite(t), peer.Postgres(t)
	account := openAccount(t, azurite)
	onQueue := func(t *testing.T, name string, c workerConfig) *bench {
		c.Azurite, c.Queue = azurite.ConnectionString(), name
		return &bench{worker: c, q: createQueue(t, account, name)}
	}
	inSQL := func(t *testing.T, name, driver, dsn string, dialect dedup.Dialect) *bench {
		b := onQueue(t, name, workerConfig{Driver: driver, DSN: dsn})
		db, _ := openSQL(t, driver, dsn, dedup.SQLOptions{Dialect: dialect})
		if _, err := db.ExecContext(t.Context(), effectsSchema); err != nil {
			t.Fatal(err)
		}
		b.applied = func() map[string]int { return effectsInSQL(t, db) }
		return b
	}
	inTables := func(t *testing.T, name string, outside bool) *bench {
		table := strings.ReplaceAll(name, "-", "")
		openTables(t, azurite, table, dedup.TablesOptions{})
		b := onQueue(t, name, workerConfig{Driver: "tables", DSN: table, Outside: outside})
		client := tableClient(t, azurite.ConnectionString(), table)
		b.applied = func() map[string]int { return effectsInTable(t, client) }
		return b
	}
	return benches{
		"PostgreSQL": func(t *testing.T, name string) *bench {
			database := strings.ReplaceAll(name, "-", "_")
			admin, err := sql.Open("pgx", postgres.DSN())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = admin.Close() }()
			if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+database); err != nil {
				t.Fatal(err)
			}
			return inSQL(t, name, "pgx", strings.Replace(postgres.DSN(), "/postgres?", "/"+database+"?", 1), dedup.PostgreSQL)
		},
		"SQLite": func(t *testing.T, name string) *bench {
			return inSQL(t, name, "sqlite", sqliteDSN(t.TempDir()), dedup.SQLite)
		},
		"Azure Tables":                         func(t *testing.T, name string) *bench { return inTables(t, name, false) },
		"Azure Tables, effect outside of them": func(t *testing.T, name string) *bench { return inTables(t, name, true) },
	}
}

func effectsInSQL(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT business_key, count(*) FROM effects GROUP BY business_key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	all := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		all[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func effectsInTable(t *testing.T, client *aztables.Client) map[string]int {
	t.Helper()
	filter, all := "RowKey ge 'effect' and RowKey lt 'effect~'", map[string]int{}
	for pages := client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}); pages.More(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range page.Entities {
			var e aztables.EDMEntity
			if err := e.UnmarshalJSON(raw); err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(e.PartitionKey, "customer of ")]++
		}
	}
	return all
}

// finish waits until the queue is empty and nothing was dead-lettered.
func (b *bench) finish(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the queue is empty", func() bool { return count(t, b.q) == 0 })
	if n := count(t, b.q.Poison()); n > 0 {
		t.Errorf("%d messages on the poison queue", n)
	}
}

// Each crash window of a consumer, two consumers on one key, and deaths at random, with every store.
func TestDedupOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	for store, open := range newBenches(t) {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			windows := []string{crashBefore, crashApplied, crashRenewal, crashAfter}
			if strings.HasSuffix(store, "SQL") || store == "SQLite" {
				windows = append(windows, crashCommit)
			}
			for i, crash := range windows {
				t.Run("killed "+crash, func(t *testing.T) {
					t.Parallel()
					killedIn(t, open(t, fmt.Sprintf("crash-%d-%d", i, rand.Uint32())), crash)
				})
			}
			if !strings.HasSuffix(store, "outside of them") { // for which nothing is promised here
				t.Run("two consumers on one redelivered key", func(t *testing.T) {
					t.Parallel()
					twoConsumers(t, open(t, fmt.Sprintf("two-%d", rand.Uint32())))
				})
			}
			t.Run("workers killed at random", func(t *testing.T) {
				t.Parallel()
				killedAtRandom(t, open(t, fmt.Sprintf("random-%d", rand.Uint32())))
			})
		})
	}
}

// killedIn has a worker process killed in a crash window, and another take its message over.
func killedIn(t *testing.T, b *bench, crash string) {
	want := 1
	if b.worker.Outside && (crash == crashApplied || crash == crashRenewal) {
		want = 2 // at least once, as the documentation says
	}
	send(t, b.q, []body{{ID: "payment-1"}})

	c := b.worker
	c.Crash = crash
	first := startWorker(t, c)
	if status := first.Wait(t, 30*time.Second); status != -1 {
		t.Fatalf("the first worker ended with status %d\n%s", status, first.Output())
	}
	if n := count(t, b.q); n != 1 {
		t.Fatalf("after the crash %d messages are left: unfinished work must remain", n)
	}
	second := startWorker(t, b.worker)
	b.finish(t)
	if n := b.applied()["payment-1"]; n != want {
		t.Errorf("the effect was applied %d times, want %d", n, want)
	}
	if (crash == crashAfter || crash == crashCommit) && !strings.Contains(second.Stdout(), "hit\n") {
		t.Error("the second worker did not find the work done")
	}

	// The sender was not sure that it had sent it.
	send(t, b.q, []body{{ID: "payment-1"}})
	b.finish(t)
	if n := b.applied()["payment-1"]; n != want {
		t.Errorf("sent again, the effect was applied %d times, want %d", n, want)
	}
	second.Signal(t, syscall.SIGTERM)
	if status := second.Wait(t, 30*time.Second); status != 0 {
		t.Errorf("the second worker ended with status %d", status)
	}
}

// twoConsumers has a worker's lease lapse while it works, which it takes no notice of.
func twoConsumers(t *testing.T, b *bench) {
	c := b.worker
	c.Stun = true
	send(t, b.q, []body{{ID: "payment-1"}})
	stunned := startWorker(t, c)
	eventually(t, 30*time.Second, "the first worker has the message", func() bool {
		peeked, err := b.q.Peek(t.Context(), 1)
		return err == nil && len(peeked.Messages) == 0
	})
	second := startWorker(t, b.worker)
	b.finish(t)
	time.Sleep(3 * workerLease) // the first comes to, and tries what it can
	if n := b.applied()["payment-1"]; n != 1 {
		t.Errorf("the effect was applied %d times\n%s\n%s", n, stunned.Output(), second.Output())
	}
	if n := count(t, b.q); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// killedAtRandom has duplicates of many keys handled by two workers that are killed again and again.
func killedAtRandom(t *testing.T, b *bench) {
	const kills, keys, copies = 6, 30, 3
	var all []body
	for range copies {
		all = append(all, bodies("payment", keys, "")...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	send(t, b.q, all)
	c := b.worker
	c.Handle = 100 * time.Millisecond
	workers := []*peer.Process{startWorker(t, c), startWorker(t, c)}
	for range kills {
		time.Sleep(500*time.Millisecond + rand.N(500*time.Millisecond))
		i := rand.IntN(len(workers))
		workers[i].Kill()
		workers[i] = startWorker(t, c)
	}
	b.finish(t)
	applied := b.applied()
	if len(applied) != keys {
		t.Errorf("%d keys were handled, want %d", len(applied), keys)
	}
	for key, n := range applied {
		if n != 1 && !c.Outside {
			t.Errorf("%s was applied %d times", key, n)
		}
	}
}

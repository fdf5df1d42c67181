package test_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

func openFailures(t testing.TB, azurite *peer.AzuriteServer, name string) *failures.TablesStore {
	t.Helper()
	store, err := failures.Tables(tableClient(t, azurite.ConnectionString(), name), failures.TablesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it there
		if err := store.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestFailuresOnAzurite(t *testing.T) {
	t.Parallel()
	azurite := peer.Azurite(t)
	noon := time.Date(2026, 3, 4, 12, 0, 0, 1234500, time.UTC)
	failure := func(id string) failures.Failure {
		return failures.Failure{
			Queue: "orders", MessageID: id, BusinessKey: "o'brien/42", Category: poison.CategoryHandler, Reason: `it's "broken" <&>`,
			Causes: []failures.Cause{{Type: "*fmt.wrapError", Message: "naïve 😀"}}, Panic: "boom", Stack: "a\n\tb", DequeueCount: 2,
			InsertedAt: noon, DeadLetteredAt: noon.Add(time.Hour),
		}
	}
	load := func(t *testing.T, s *failures.TablesStore, f failures.Failure) {
		t.Helper()
		got, err := s.Load(t.Context(), f.Queue, f.MessageID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got, cmp.Comparer(bytes.Equal)); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
	}

	t.Run("bodies of every kind come back", func(t *testing.T) {
		t.Parallel()
		store := openFailures(t, azurite, "bodies")
		for name, body := range map[string]string{
			"json": `{"id": 42, "name": "naïve 😀"}`, "empty": "", "binary": "\x00\xff",
			"long text": strings.Repeat("0123456789\n", 20_000), "long characters": "x" + strings.Repeat("ï😀", 40_000),
			"long binary": strings.Repeat("\xff\x00\x7f", 80_000), "a/b\\c#d?e'f\"g": "a strange id",
		} {
			f := failure(name)
			f.Body = &failures.Body{Data: []byte(body), Size: len(body)}
			for range 2 {
				if err := store.Record(t.Context(), f); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			load(t, store, f)
		}
	})
	t.Run("copies make one record", func(t *testing.T) {
		t.Parallel()
		store := openFailures(t, azurite, "copies")
		full, bare := failure("m"), failure("m")
		full.Body = &failures.Body{Data: []byte("x"), Size: 1}
		bare.Causes, bare.Panic, bare.Stack = nil, "", ""
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if err := store.Record(t.Context(), []failures.Failure{full, bare}[i%2]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		load(t, store, full)
	})
	t.Run("attempts are kept until the message recovers", func(t *testing.T) {
		t.Parallel()
		store := openFailures(t, azurite, "attempts")
		attempt := func(id string, n int) failures.Attempt {
			t.Helper()
			a := failures.Attempt{Number: n, At: noon, Took: time.Second, Category: "handler", Error: "no", Worker: fmt.Sprint("host/", n)}
			if err := store.Attempted(t.Context(), "orders", id, a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		f := failure("poisoned")
		f.Attempts = []failures.Attempt{attempt("poisoned", 1), attempt("poisoned", 2)}
		if err := store.Record(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		attempt("recovers", 1)
		for _, id := range []string{"poisoned", "recovers", "recovers"} {
			if err := store.Recovered(t.Context(), "orders", id); err != nil {
				t.Fatal(err)
			}
		}
		load(t, store, f)
		if _, err := store.Load(t.Context(), "orders", "recovers"); !errors.Is(err, failures.ErrNotFound) {
			t.Errorf("recovered: %v", err)
		}
	})
	t.Run("failures are listed, deleted and purged", func(t *testing.T) {
		t.Parallel()
		store := openFailures(t, azurite, "listed")
		for i := range 4 {
			f := failure(fmt.Sprint("m", i))
			f.DeadLetteredAt = noon.Add(time.Duration(i) * time.Hour)
			f.Attempts = []failures.Attempt{{Number: 1, Error: "no"}}
			if i == 3 {
				f.Queue = "refunds"
			}
			if err := store.Record(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		list := func(opts failures.ListOptions) (ids string) {
			t.Helper()
			for f, err := range store.List(t.Context(), opts) {
				if err != nil {
					t.Fatal(err)
				}
				ids += f.MessageID + " "
			}
			return ids
		}
		for want, opts := range map[string]failures.ListOptions{
			"m0 m1 m2 m3 ": {},
			"m0 m1 m2 ":    {Queue: "orders"},
			"m1 m2 ":       {Queue: "orders", Since: noon.Add(time.Hour), Bodies: true},
		} {
			if got := list(opts); got != want {
				t.Errorf("%+v lists %s, want %s", opts, got, want)
			}
		}
		if err := store.Delete(t.Context(), "orders", "m1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		if err := store.Record(t.Context(), failure("new")); err != nil {
			t.Fatal(err)
		}
		if n, err := store.Purge(t.Context(), 2*time.Second); err != nil || n != 6 {
			t.Errorf("purged %d rows, %v", n, err)
		}
		if got := list(failures.ListOptions{}); got != "new " {
			t.Errorf("left: %s", got)
		}
	})
}

// Three processes have a message in hand, one after the other; each dies where it hurts.
func TestFailuresOfDeadWorkersAreOneRecord(t *testing.T) {
	t.Parallel()
	azurite := peer.Azurite(t)
	store := openFailures(t, azurite, "failures")
	q := createQueue(t, openAccount(t, azurite), "orders")
	if _, err := q.Send(t.Context(), body{ID: "order-42"}, queue.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{taskFail, taskCopy, taskMove} {
		w := startFailing(t, azurite, task)
		want := -1 // killed
		if task == taskMove {
			want = 0
		}
		if status := w.Wait(t, 30*time.Second); status != want {
			t.Fatalf("%s: status %d\n%s", task, status, w.Output())
		}
	}

	listing, err := poison.List(t.Context(), q)
	if err != nil || len(listing.Entries) != 1 || listing.Entries[0].Copies != 2 {
		t.Fatalf("poison %+v, %v", listing, err)
	}
	entry := listing.Entries[0]
	f, err := store.Load(t.Context(), entry.Queue, entry.MessageID)
	if err != nil {
		t.Fatal(err)
	}
	if f.BusinessKey != "order-42" || f.Category != entry.Category || f.Reason != entry.Reason || f.DequeueCount != 2 || string(f.Body.Data) != `{"id":"order-42","note":""}` {
		t.Errorf("failure %+v, entry %+v", f, entry)
	}
	workers := map[string]bool{}
	for i, a := range f.Attempts {
		workers[a.Worker] = true
		if a.Number != i+1 || a.Error != fmt.Sprintf("no such article (delivery %d)", i+1) {
			t.Errorf("attempt %+v", a)
		}
	}
	if len(f.Attempts) != 3 || len(workers) != 3 {
		t.Errorf("%d attempts of %d workers", len(f.Attempts), len(workers))
	}
	n := 0
	for _, err := range store.List(t.Context(), failures.ListOptions{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d records", n)
	}
}

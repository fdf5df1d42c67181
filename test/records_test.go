package test_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// recordsConfig consumes with what is kept in tables. Azurite's ports are not the emulator's usual ones.
const recordsConfig = `
accounts:
  - name: orders
%s
    queues:
      - name: orders
        createIfMissing: true
        consumer:
          handler: {http: {url: "%s"}}
          concurrency: 4
          retry: {initial: 1s, max: 1s}
          maxDequeueCount: 2
          businessKey: {json: /id}
          failureRecords: {table: %s, maxBody: 4096, endpoint: "%s"}
          idempotency: {table: %s, endpoint: "%s"}
`

// P15 and P16 from configuration alone, signed in to the tables as to the queues, by a key and by a SAS.
func TestConfiguredConsumersKeepRecords(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	for i, signIn := range []string{
		"    connectionString: ${SECRET}",
		"    endpoint: " + azurite.QueueURL() + "\n    sas: ${SECRET}",
	} {
		orders := createQueue(t, account, "orders")
		handler := newEndpoint(t, marker, func(id string, _ int) answer {
			if strings.HasPrefix(id, "bad") {
				return answer{http.StatusInternalServerError, "out of stock"}
			}
			return answer{status: http.StatusNoContent}
		})
		records, keys := fmt.Sprint("records", i), fmt.Sprint("keys", i)
		secret := []string{azurite.ConnectionString(), string(accountSAS(t, "bqt"))}[i]
		s := serve(t, fmt.Sprintf(recordsConfig, signIn, handler.URL, records, azurite.TableURL(), keys, azurite.TableURL()), "SECRET="+secret)
		send(t, orders, bodies("good", 3, marker))
		send(t, orders, bodies("bad", 2, marker))
		processed := func(n float64) func() bool {
			return func() bool {
				m := scrapeOf(t, s)
				return m.is(n, "queue_messages_processed_total", "queue_name", "orders") && m.is(2, "queue_messages_dead_lettered_total", "queue_name", "orders")
			}
		}
		eventually(t, time.Minute, "3 processed, 2 quarantined", processed(3))
		send(t, orders, bodies("good", 3, marker)) // the same orders again, as other messages
		eventually(t, time.Minute, "3 more completed", processed(6))
		if diff := cmp.Diff(map[string]int{"good-0": 1, "good-1": 1, "good-2": 1, "bad-0": 2, "bad-1": 2}, handler.seen()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		m := scrapeOf(t, s)
		m.want(t, 3, "queue_dedup_hits_total", "queue_name", "orders")
		m.want(t, 10, "queue_dedup_lookups_total", "queue_name", "orders")

		store, err := failures.Tables(tableClient(t, azurite.ConnectionString(), records), failures.TablesOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for f, err := range store.List(t.Context(), failures.ListOptions{Queue: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			if f, err = store.Load(t.Context(), f.Queue, f.MessageID); err != nil {
				t.Fatal(err)
			}
			found[f.BusinessKey] = fmt.Sprintf("%s %d attempts, body %t", f.Reason, len(f.Attempts), f.Body != nil && strings.Contains(string(f.Body.Data), marker))
		}
		want := map[string]string{"bad-0": "out of stock 2 attempts, body true", "bad-1": "out of stock 2 attempts, body true"}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		peeked, err := orders.Poison().Peek(t.Context(), 32)
		if err != nil {
			t.Fatal(err)
		}
		var poisoned []string
		for _, m := range peeked.Messages {
			poisoned = append(poisoned, m.Record.BusinessKey)
		}
		slices.Sort(poisoned)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), poisoned); diff != "" {
			t.Errorf("business keys on the poison queue (-want +got):\n%s", diff)
		}
		s.Kill()
		if strings.Contains(s.Output(), marker) || strings.Contains(s.Output(), secret) {
			t.Error("a body or the secret is in the log")
		}
		for _, q := range []*queue.Queue{orders, orders.Poison()} {
			if err := q.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

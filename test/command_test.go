package test_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/test/peer"
)

const commandConfig = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - name: orders
        consumer:
          handler:
            exec: {command: ["./handle-order"], dir: %q, timeout: 10s}
          concurrency: 4
          retry: {initial: 1s, max: 1s}
`

// handleOrder notes each call in a file of its own, so that calls may run side by side.
const handleOrder = `#!/bin/sh
body=$(cat)
printf '%s %s' "$QWATCH_DEQUEUE_COUNT" "$body" >"calls/$QWATCH_QUEUE.$QWATCH_MESSAGE_ID.$QWATCH_DEQUEUE_COUNT"
case $body in
  *bad-*) echo "no such article" >&2; exit 65 ;;
  *flaky-*) [ "$QWATCH_DEQUEUE_COUNT" -ge 3 ] || exit 1 ;;
esac
`

func TestCommandHandlesMessages(t *testing.T) {
	azurite := peer.Azurite(t)
	orders := createQueue(t, openAccount(t, azurite), "orders")
	send(t, orders, bodies("good", 6, marker))
	send(t, orders, bodies("bad", 2, marker))
	send(t, orders, bodies("flaky", 1, marker))

	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "handle-order"), []byte(handleOrder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "calls"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf(commandConfig, folder), "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
	eventually(t, time.Minute, "7 processed, 2 quarantined", func() bool {
		m := scrapeOf(t, s)
		return m.is(7, "queue_messages_processed_total") && m.is(2, "queue_messages_dead_lettered_total", "queue_dead_letter_reason", "handler")
	})

	files, err := filepath.Glob(filepath.Join(folder, "calls", "orders.*"))
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		attempt, raw, _ := strings.Cut(string(text), " ")
		var b body
		if err := json.Unmarshal([]byte(raw), &b); err != nil || b.Note != marker {
			t.Errorf("the command got %q: %v", raw, err)
		}
		calls = append(calls, fmt.Sprintf("%s, delivery %s", b.ID, attempt))
	}
	slices.Sort(calls)
	want := []string{
		"bad-0, delivery 1", "bad-1, delivery 1", "flaky-0, delivery 1", "flaky-0, delivery 2", "flaky-0, delivery 3",
		"good-0, delivery 1", "good-1, delivery 1", "good-2, delivery 1", "good-3, delivery 1", "good-4, delivery 1", "good-5, delivery 1",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, m := range drain(t, orders.Poison()) {
		if m.Record == nil || m.Record.Reason != "no such article" {
			t.Errorf("record %+v", m.Record)
		}
	}
	if strings.Contains(s.Stderr(), marker) {
		t.Error("the log holds a body")
	}
}

package test_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// crashConfig lets a killed worker's messages come back soon. A kill counts as a delivery of all the
// worker held, so the budget is larger than the number of kills: no good message ends as poison.
const crashConfig = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - name: orders
        consumer:
          handler:
            http: {url: "%s/orders", timeout: 30s}
          concurrency: 4
          visibilityTimeout: 3s
          maxDequeueCount: %d
          retry: {initial: 1s, max: 1s}
          emptyBackoff: {min: 1s, max: 1s}
`

func TestWorkersKilledAtRandomLoseNothing(t *testing.T) {
	crash(t, plan{kills: 20, good: 400, bad: 30})
}

// A plan says how hard a crash test is.
type plan struct{ kills, good, bad int }

// crash has two workers consume a queue, kills one of them at random again and again, and checks
// that nothing was lost. $QWATCH_SEED repeats a run.
func crash(t *testing.T, p plan) {
	seed := rand.Uint64()
	if s := os.Getenv("QWATCH_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("QWATCH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	azurite := peer.Azurite(t)
	orders := createQueue(t, openAccount(t, azurite), "orders")
	all := append(bodies("good", p.good, marker), bodies("bad", p.bad, marker)...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	send(t, orders, all)

	refused := make(chan struct{}, 1) // a bad message is about to be quarantined
	handler := newEndpoint(t, marker, func(id string, call int) answer {
		time.Sleep(100*time.Millisecond + rand.N(400*time.Millisecond))
		if strings.HasPrefix(id, "bad-") {
			select {
			case refused <- struct{}{}:
			default:
			}
			return answer{http.StatusUnprocessableEntity, "no such article"}
		}
		return answer{status: http.StatusOK}
	})
	config := fmt.Sprintf(crashConfig, handler.URL, p.kills+10)
	env := "ORDERS_CONNECTION_STRING=" + azurite.ConnectionString()
	workers := []*service{serve(t, config, env), serve(t, config, env)}

	for kill := range p.kills {
		// Every other kill aims at the moment between the copy to the poison queue and the delete.
		if kill%2 == 0 {
			time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
		} else {
			select {
			case <-refused:
			case <-time.After(time.Second):
			}
			time.Sleep(time.Duration(random.IntN(10_000)) * time.Microsecond)
		}
		if kill == p.kills-1 && count(t, orders) == 0 {
			t.Error("the queue was empty before the last kill: the messages are too few for the kills")
		}
		victim := random.IntN(len(workers))
		workers[victim].Kill()
		workers[victim] = serve(t, config, env)
	}
	eventually(t, 2*time.Minute, "the main queue is empty", func() bool { return count(t, orders) == 0 })

	seen := handler.seen()
	again := 0
	for _, b := range all {
		if seen[b.ID] == 0 {
			t.Errorf("%s was never handled", b.ID)
		}
		again += seen[b.ID] - 1
	}
	handler.check(t)
	t.Logf("%d kills, %d messages handled again", p.kills, again)

	checkQuarantined(t, workers[0].config, env, orders, p.bad)
	for _, w := range workers {
		w.Signal(t, syscall.SIGTERM)
		if status := w.Wait(t, 40*time.Second); status != 0 {
			t.Errorf("exit status %d after SIGTERM", status)
		}
	}
	if n := count(t, orders); n != 0 {
		t.Errorf("%d messages are on the main queue at the end", n)
	}
}

// checkQuarantined checks that the poison queue holds exactly the bad messages, each as one entry
// however many copies of it the crashes left.
func checkQuarantined(t *testing.T, config, env string, orders *queue.Queue, bad int) {
	t.Helper()
	want := make(map[string]bool)
	for _, b := range bodies("bad", bad, marker) {
		want[b.ID] = true
	}
	physical := count(t, orders.Poison())

	r := run(t, []string{env}, "poison", "list", "orders/orders", "-c", config, "-o", "json", "--body")
	var entries []struct {
		poison.Entry
		Body string `json:"body"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &entries); r.status != 0 || err != nil {
		t.Fatalf("poison list: status %d, %v\n%s", r.status, err, r.stderr)
	}
	listed := make(map[string]bool)
	for _, e := range entries {
		var b body
		if err := json.Unmarshal([]byte(e.Body), &b); err != nil || !want[b.ID] || listed[b.ID] {
			t.Errorf("listed: %+v, body %s", e.Entry, e.Body)
		}
		listed[b.ID] = true
	}
	// One peek sees 32 messages; only more copies than that could hide an entry from the list.
	if physical <= 32 && len(entries) != bad {
		t.Errorf("poison list shows %d entries, want %d\n%s", len(entries), bad, r.stderr)
	}

	byID, found := make(map[string]string), make(map[string]bool)
	copies := drain(t, orders.Poison())
	for _, m := range copies {
		var b body
		if err := json.Unmarshal(m.Body, &b); err != nil || b.Note != marker || m.Record == nil || m.Record.Category != string(poison.CategoryHandler) {
			t.Errorf("poison copy %s: %v, record %+v", m.Text, err, m.Record)
			continue
		}
		if id, ok := byID[m.Record.MessageID]; ok && id != b.ID {
			t.Errorf("message id %s is on copies of %s and %s", m.Record.MessageID, id, b.ID)
		}
		byID[m.Record.MessageID] = b.ID
		found[b.ID] = true
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
	if len(byID) != bad {
		t.Errorf("the copies are of %d messages, want %d", len(byID), bad)
	}
	t.Logf("%d copies of %d quarantined messages", len(copies), len(byID))
}

package test_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

const historyConfig = `
accounts:
  - name: orders
    connectionString: ${SECRET}
    queues:
      - name: orders
        createIfMissing: true
        consumer:
          handler: {http: {url: "%s"}}
          retry: {initial: 1s, max: 1s}
          maxDequeueCount: 2
          breaker: false # it always fails
          failureRecords: {table: history, endpoint: "%s"}
`

// D2 and P16: a message that is replayed and fails again, twice, is linked to what it was before through the failure
// records, wherever it is shown: by the command on storage, through the server, and in the API.
func TestAReplayThatFailsAgainIsLinkedToItsHistory(t *testing.T) {
	azurite := peer.Azurite(t)
	handler := newEndpoint(t, marker, func(_ string, call int) answer {
		return answer{http.StatusInternalServerError, fmt.Sprintf("failure %d", call)}
	})
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("- {name: ann, role: operator, token: ann-is-an-operator}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := "SECRET=" + azurite.ConnectionString()
	s := serveWith(t, fmt.Sprintf(historyConfig, handler.URL, azurite.TableURL()), "tokensFile: "+tokens, secret)
	here := []string{secret, "QWATCH_CONFIG=" + s.config}
	there := []string{"QWATCH_SERVER=" + s.main, "QWATCH_TOKEN=ann-is-an-operator"}
	orders := createQueue(t, openAccount(t, azurite), "orders")

	type entry struct {
		MessageID, Reason string
		History           []struct {
			MessageID, Reason, Category string
			ReplayedAt                  time.Time
			Attempts                    []struct{ Error string }
		}
		HistoryError string
	}
	poisoned := func() (id string) {
		eventually(t, time.Minute, "it is dead-lettered", func() bool {
			var list []entry
			r := run(t, there, "poison", "list", "orders/orders", "-o", "json")
			if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
				t.Fatal(err, r.stderr)
			}
			if len(list) != 1 {
				return false
			}
			id = list[0].MessageID
			return true
		})
		return id
	}
	var ids []string
	send(t, orders, bodies("bad", 1, marker))
	for round := range 3 {
		id := poisoned()
		ids = append(ids, id)
		shown := map[string]entry{}
		for how, env := range map[string][]string{"on storage": here, "through the server": there} {
			var e entry
			r := run(t, env, "poison", "show", "orders/orders", id, "-o", "json")
			if err := json.Unmarshal([]byte(r.stdout), &e); err != nil {
				t.Fatalf("%s: %v\n%s", how, err, r.stderr)
			}
			shown[how] = e
			if text := run(t, env, "poison", "show", "orders/orders", id).stdout; strings.Count(text, "\nreplay of ") != round {
				t.Errorf("%s, in round %d:\n%s", how, round, text)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.main+"/api/v1/poison/orders/orders?history=true&id="+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Qwatch-Token", "ann-is-an-operator")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var answered struct{ Entries []entry }
		err = json.NewDecoder(resp.Body).Decode(&answered)
		_ = resp.Body.Close() // it was only read
		if err != nil || len(answered.Entries) != 1 {
			t.Fatalf("the API: %d, %v, %+v", resp.StatusCode, err, answered)
		}
		shown["in the API"] = answered.Entries[0]
		for how, e := range shown {
			if e.MessageID != id || len(e.History) != round || e.HistoryError != "" {
				t.Errorf("%s, in round %d: %+v", how, round, e)
				continue
			}
			for i, h := range e.History { // the latest first
				before := round - 1 - i
				if h.MessageID != ids[before] || h.Reason != fmt.Sprintf("failure %d", 2*before+2) || h.Category != "max_dequeue" || h.ReplayedAt.IsZero() || len(h.Attempts) != 2 {
					t.Errorf("%s, in round %d, history %d: %+v of %v", how, round, i, h, ids)
				}
			}
		}
		env := [][]string{there, here, there}[round]
		if r := run(t, env, "poison", "replay", "orders/orders", id, "--yes"); r.status != 0 {
			t.Fatalf("replay: %s", r.stderr)
		}
	}
}

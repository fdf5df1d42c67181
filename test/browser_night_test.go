package test_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/test/peer"
)

// TestBrowserTellsOneCauseForManyQueues has an account throttle, one refuse the credential and a handler's
// endpoint go away, and wants each said once, first, with how many queues it is behind.
func TestBrowserTellsOneCauseForManyQueues(t *testing.T) {
	var accounts strings.Builder
	names := map[string][]string{
		"orders": {"orders", "invoices", "returns"}, "billing": {"payments", "refunds", "statements", "dunning"}, "audit": {"events", "archive"},
	}
	faults := map[string]queuetest.Fault{
		"billing": {Status: 503, Code: "ServerBusy"}, "audit": {Status: 403, Code: "AuthenticationFailed"},
	}
	gone := httptest.NewServer(nil)
	handler := gone.URL
	gone.Close()
	for account, queues := range names {
		storage, address, open := embedded(t)
		fmt.Fprintf(&accounts, "  - name: %s\n    connectionString: %q\n    queues:\n", account, connection(address))
		for _, name := range queues {
			q := open(name)
			for range map[bool]int{true: 3}[name != "returns"] {
				if _, err := q.Send(t.Context(), []byte("x"), queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprintf(&accounts, "      - name: %s\n", name)
			if account == "orders" && name != "returns" {
				fmt.Fprintf(&accounts, "        consumer: {handler: {http: {url: %q}}, retry: {initial: 1s, max: 1s}}\n", handler+"/"+name)
			}
		}
		if f, ok := faults[account]; ok {
			storage.Inject(f)
		}
	}
	s := serveWith(t, "accounts:\n"+accounts.String()+"watch: {interval: 10s, idleInterval: 10s, patience: 1m}\n", "strictReadiness: false")
	want := map[string]int{"Account billing is throttled": 4, "Account audit refuses the credential": 2, "Handler " + handler + " is down": 2}
	last := map[string]int{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last told: %v", last)
		}
	})
	eventually(t, 90*time.Second, "each cause is told once", func() bool {
		var fleet struct {
			Causes []struct {
				Title    string
				Affected int
			}
		}
		if err := json.Unmarshal(mustGet(t, s.main+"/api/v1/fleet"), &fleet); err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for _, c := range fleet.Causes {
			found[c.Title] = c.Affected
		}
		last = found
		for title, n := range want {
			if found[title] != n {
				return false
			}
		}
		return len(fleet.Causes) == len(want)
	})
	titles := make([]string, 0, len(want))
	for title := range want {
		titles = append(titles, title)
	}
	peer.Browse(t, "night.js", shots(), map[string]any{"url": s.main, "titles": titles}, &struct{}{})
	if shots() != "" {
		squeeze(t, shots())
	}
}

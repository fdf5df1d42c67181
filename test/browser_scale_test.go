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

const manyQueues = 10_000

// connection is the connection string of an embedded queue service that answers at an address.
func connection(address string) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;QueueEndpoint=%s;",
		queuetest.AccountName, queuetest.AccountKey, queuetest.EndpointAt(address, queuetest.AccountName))
}

// embedded starts an embedded queue service and opens one of its queues.
func embedded(t *testing.T) (storage *queuetest.Server, address string, open func(name string) *queue.Queue) {
	t.Helper()
	storage = queuetest.New(queuetest.Options{NoAuth: true})
	server := httptest.NewServer(storage)
	t.Cleanup(server.Close)
	account, err := queue.NewAccount(queue.AccountConfig{Name: "big", ConnectionString: queue.Secret(storage.ConnectionString()), Transport: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return storage, server.URL, func(name string) *queue.Queue {
		q, err := account.Queue(name, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		return q
	}
}

// TestBrowserIsQuickWithTenThousandQueues measures in Chromium what the page promises, on a fleet that the
// program itself watches, each with its poison queue: 20,000 of the service. The best of some tries counts for the paint, for the machine has other things to do.
func TestBrowserIsQuickWithTenThousandQueues(t *testing.T) {
	_, address, open := embedded(t)
	var text strings.Builder
	fmt.Fprintf(&text, "accounts:\n  - name: big\n    connectionString: %q\n    queues:\n", connection(address))
	for i := range manyQueues {
		q := open(fmt.Sprintf("q%05d", i))
		fmt.Fprintf(&text, "      - {name: %s, team: team-%d}\n", q.Name(), i%40)
		n := i % 3
		if i == 4321 {
			n = 90
		}
		for range n {
			if _, err := q.Send(t.Context(), []byte("x"), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Poison().Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			if _, err := q.Poison().Send(t.Context(), []byte("x"), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	text.WriteString("watch: {interval: 2m, idleInterval: 10m, requestsPerSecond: 3000}\n")
	s := serve(t, text.String())
	eventually(t, 2*time.Minute, "every queue is read", func() bool {
		var fleet struct {
			Totals struct{ Queues, Unread, Poison int }
		}
		if err := json.Unmarshal(mustGet(t, s.main+"/api/v1/fleet?limit=1"), &fleet); err != nil {
			t.Fatal(err)
		}
		return fleet.Totals.Queues == manyQueues && fleet.Totals.Unread == 0 && fleet.Totals.Poison == (manyQueues+6)/7
	})
	var seen struct {
		Paint, Update, Page, Answer, Scrolled float64
		Paints                                []float64
		Measured                              string // of the script alone, the first ones without the browser warm
	}
	peer.Browse(t, "scale.js", shots(), map[string]any{"url": s.main, "queues": manyQueues}, &seen)
	t.Logf("%+v", seen)
	if shots() != "" {
		squeeze(t, shots())
	}
	if seen.Paint >= 1000 {
		t.Errorf("the first paint took %.0f ms, want under a second", seen.Paint)
	}
	if seen.Update >= 100 {
		t.Errorf("an update took %.0f ms of work, want under 100", seen.Update)
	}
	for what, size := range map[string]float64{"the page": seen.Page, "an update": seen.Answer} {
		if size <= 0 || size >= 1<<20 {
			t.Errorf("%s has %.0f bytes as sent, want under a megabyte", what, size)
		}
	}
}

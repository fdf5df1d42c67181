package test_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// A watcher learns from the consumers in other processes what runs there and how long it takes.
func TestScalingKnowsConsumersInOtherProcesses(t *testing.T) {
	azurite := peer.Azurite(t)
	orders := createQueue(t, openAccount(t, azurite), "orders")
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	handler := newEndpoint(t, marker, func(string, int) answer {
		<-gate
		return answer{status: http.StatusOK}
	})
	env := "ORDERS_CONNECTION_STRING=" + azurite.ConnectionString()
	const accounts = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - {name: orders, objective: {timeInQueue: 1m}%s}
watch: {interval: 1s, idleInterval: 1s}
`
	consumer := func() *service {
		return serve(t, fmt.Sprintf(accounts, fmt.Sprintf(`, consumer: {handler: {http: {url: %q}}, concurrency: 4}`, handler.URL)), env)
	}
	first, second := consumer(), consumer()
	address := func(s *service) string { return strings.TrimPrefix(s.main, "http://") }
	watcher := serve(t, fmt.Sprintf(accounts, "")+fmt.Sprintf("scaling: {peers: %q}\n", address(first)+", "+address(second)), env)
	value := func(strategy string) float64 {
		status, text, err := get(t.Context(), watcher.main+"/api/v1/scaling/orders/orders?strategy="+strategy)
		var a struct{ Value float64 }
		if err != nil || status != http.StatusOK || json.Unmarshal(text, &a) != nil {
			return -1
		}
		return a.Value
	}
	eventually(t, 20*time.Second, "nothing runs", func() bool { return value("inflight") == 0 && value("drain") == 0 })

	send(t, orders, bodies("good", 10, marker))
	eventually(t, 30*time.Second, "eight run in two processes, and two wait", func() bool { return value("visible") == 2 && value("inflight") == 10 })
	eventually(t, 20*time.Second, "the page says who consumes it", func() bool {
		return strings.Contains(string(mustGet(t, watcher.main+"/queues/orders/orders")), "No consumer of it runs in this process.</p><p>2 other processes consume it, with 8 of 8 handlers at work, as they said ")
	})
	eventually(t, 10*time.Second, "both replicas are needed", func() bool { return value("drain") == 2 })
	open()
	eventually(t, 30*time.Second, "all is done", func() bool { return value("all") == 0 && value("inflight") == 0 })
}

package test_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/test/peer"
)

func TestPrometheusScrapesIt(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	orders := createQueue(t, account, "orders")
	send(t, createQueue(t, account, "audit"), bodies("audit", 3, marker))
	handler := newEndpoint(t, marker, func(string, int) answer { return answer{status: http.StatusOK} })
	s := serve(t, fmt.Sprintf(ordersConfig, handler.URL), "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())

	t.Run("every counter is there before anything happened", func(t *testing.T) { checkBornAtZero(t, scrapeOf(t, s)) })
	t.Run("promtool finds nothing to say", func(t *testing.T) {
		if status, out := peer.Promtool(t, string(mustGet(t, s.main+"/metrics")), "check", "metrics"); status != 0 || out != "" {
			t.Errorf("status %d:\n%s", status, out)
		}
	})

	prometheus := peer.Prometheus(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: qwatch, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(s.main, "http://")))
	value := func(expr string) float64 {
		samples := prometheus.Query(t, expr)
		if len(samples) != 1 {
			return -1
		}
		return samples[0].Value
	}
	eventually(t, 20*time.Second, "Prometheus has scraped twice", func() bool {
		return value(`count_over_time(queue_messages_processed_total{queue_name="orders"}[1m])`) >= 2
	})
	send(t, orders, bodies("good", 10, marker))
	eventually(t, time.Minute, "Prometheus sees ten messages processed", func() bool {
		return value(`queue_messages_processed_total{account="orders",queue_name="orders"}`) == 10
	})
	// Only a counter that was there at 0 shows its first ten.
	eventually(t, 20*time.Second, "increase() sees the first messages", func() bool {
		return value(`increase(queue_messages_processed_total{queue_name="orders"}[1m])`) > 9
	})
	if n := value(`sum(max by (account, queue_name) (queue_approximate_messages{queue_kind="main",queue_name="audit"}))`); n != 3 {
		t.Errorf("the depth of the watched queue is %v in Prometheus, want 3", n)
	}
	targets := prometheus.Targets(t)
	if len(targets) != 1 || targets[0].Health != "up" {
		t.Errorf("targets: %+v", targets)
	}
	if up := prometheus.Query(t, `min_over_time(up[1m])`); len(up) != 1 || up[0].Value != 1 {
		t.Errorf("some scrape failed: %v", up)
	}

	t.Run("promtool still finds nothing to say", func(t *testing.T) {
		if status, out := peer.Promtool(t, string(mustGet(t, s.main+"/metrics")), "check", "metrics"); status != 0 || out != "" {
			t.Errorf("status %d:\n%s", status, out)
		}
	})
}

// checkBornAtZero looks for every combination of closed labels of every counter and histogram in
// the catalogue. What starting alone brings about may be above zero.
func checkBornAtZero(t *testing.T, m scrape) {
	t.Helper()
	moving := map[string]bool{
		metric.QueuePolls: true, metric.ReceiveRequests: true, metric.StorageRequestDuration: true,
		metric.QueuePollFailures: true, // the poison queue of orders does not exist yet
	}
	names := map[metric.Scope][]series{
		metric.PerConsumer: {{"account", "orders", "queue_name", "orders"}},
		metric.PerQueue:    {{"account", "orders", "queue_name", "orders"}, {"account", "orders", "queue_name", "audit"}},
		metric.PerAccount:  {{"account", "orders"}},
		metric.PerProcess:  {{}},
	}
	checked := 0
	for _, def := range metric.Catalogue() {
		if def.Type != metric.Counter && def.Type != metric.Histogram || def.Name == metric.StorageRequestDuration {
			continue
		}
		for _, things := range names[def.Scope] {
			for _, closed := range combinations(def.Labels) {
				of := append(append(series{def.Name}, things...), closed...)
				value, ok := m.value(of)
				if !ok || value != 0 && !moving[def.Name] {
					t.Errorf("%v is %v on the first scrape (present: %v)", of, value, ok)
				}
				checked++
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d series were looked for", checked)
	}
	if !m.has(metric.StorageRequestDuration, "account", "orders", "operation", "receive", "result", "throttled") {
		t.Error("the storage requests are not there at 0")
	}
}

// combinations returns every choice of values for the closed labels, as label, value pairs.
func combinations(labels []metric.Label) []series {
	all := []series{{}}
	for _, l := range labels {
		if l.Values == nil {
			continue
		}
		var more []series
		for _, chosen := range all {
			for _, v := range l.Values {
				more = append(more, append(append(series{}, chosen...), l.Name, v))
			}
		}
		all = more
	}
	return all
}

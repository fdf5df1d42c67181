package test_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// demoStarts bounds the time from the command to the first answer of every probe. A busy
// machine gets some tries.
const demoStarts = 2 * time.Second

func TestDemoIsACleanFirstImpression(t *testing.T) {
	var demo *peer.Process
	var url string
	for try := 1; ; try++ {
		began := time.Now()
		demo = peer.Start(t, "qwatch demo", command(nil, "demo", "--listen", "127.0.0.1:0", "--probes", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--storage", "127.0.0.1:0"))
		page := regexp.MustCompile(`(?m)^ +page +(http://\S+)/$`)
		eventually(t, 30*time.Second, "the demo says where its page is and is ready", func() bool {
			found := page.FindStringSubmatch(demo.Stdout())
			if found == nil {
				return false
			}
			url = found[1]
			status, _, err := get(t.Context(), url+"/readyz")
			return err == nil && status == http.StatusOK
		})
		took := time.Since(began)
		t.Logf("ready after %v", took)
		if took < demoStarts {
			break
		}
		if try == 3 {
			t.Errorf("not ready in %v, %d times", demoStarts, try)
			break
		}
		demo.Kill()
	}

	mustGet(t, url+"/")
	var state struct {
		Queues []struct{ Account, Queue string } `json:"queues"`
	}
	if err := json.Unmarshal(mustGet(t, url+"/api/v1/queues"), &state); err != nil || len(state.Queues) != 7 {
		t.Errorf("the API shows %d queues: %v", len(state.Queues), err)
	}
	s := &service{main: url}
	eventually(t, 30*time.Second, "messages are processed, retried and quarantined", func() bool {
		m := scrapeOf(t, s)
		for _, name := range []string{"queue_messages_processed_total", "queue_message_retries_total", "queue_messages_dead_lettered_total"} {
			if n, _ := m.value(series{name}); n == 0 {
				return false
			}
		}
		return true
	})
	if status, out := peer.Promtool(t, string(mustGet(t, url+"/metrics")), "check", "metrics"); status != 0 || out != "" {
		t.Errorf("promtool: status %d:\n%s", status, out)
	}

	// A real Prometheus speaks OpenMetrics with it; bad exposition shows as a failed scrape.
	prometheus := peer.Prometheus(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: qwatch, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(url, "http://")))
	eventually(t, 20*time.Second, "Prometheus has scraped it", func() bool {
		up := prometheus.Query(t, `up`)
		return len(up) == 1 && up[0].Value == 1
	})
	if depths := prometheus.Query(t, `queue_approximate_messages{account="demo",queue_kind="main"}`); len(depths) != 7 {
		t.Errorf("Prometheus has %d depths, want 7: %v", len(depths), depths)
	}

	demo.Signal(t, os.Interrupt)
	if status := demo.Wait(t, 10*time.Second); status != 0 {
		t.Errorf("exit status %d after Ctrl-C", status)
	}
}

package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// site is a handler over a small fleet that has been polled: a consumed queue with two
// messages and one poisoned, a queue full of old messages, one that is missing, and one
// that cannot be read.
func site(t *testing.T) (http.Handler, *queuetest.Server) {
	t.Helper()
	storage := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "acct", ConnectionString: queue.Secret(storage.ConnectionString()), Transport: storage,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	open := func(name string) *queue.Queue {
		q, err := account.Queue(name, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	fill := func(q *queue.Queue, n int) {
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := q.Send(t.Context(), []byte("<b>secret</b>"), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	orders, archive, missing, refused := open("orders"), open("archive"), open("missing"), open("refused")
	fill(archive, 40)
	time.Sleep(26 * time.Hour)
	fill(orders, 2)
	fill(orders.Poison(), 1)
	storage.Inject(queuetest.Fault{Queue: "refused", Status: 403, Code: "AuthorizationPermissionMismatch"})

	c, err := collector.New(collector.Config{Targets: []collector.Target{
		{Queue: orders, Mode: collector.ModeConsume, Team: "<script>", Tier: 1, Objective: 5 * time.Minute, ObjectiveRatio: 0.99},
		{Queue: archive, MonitorOnly: true},
		{Queue: missing, CountsOnly: true},
		{Queue: refused},
	}, RequestsPerSecond: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	synctest.Wait() // the first round comes at once
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	h := health.New(health.Config{})
	h.Started()
	return web.Handler(web.Options{
		Registry: prometheus.NewRegistry(), Collector: c, Health: h, Version: "v1.2.3", Logger: slog.New(slog.DiscardHandler),
		Processors: func() []processor.Status {
			return []processor.Status{{
				Account: "acct", Queue: "orders", State: processor.StateRunning, Handlers: 1, MaxHandlers: 4,
				OldestHandler: 90 * time.Second, ReceiveFailures: 2, LastReceive: time.Now().Add(-time.Second), LastError: "throttled",
			}}
		},
	}), storage
}

func do(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got, -update writes it anew):\n%s", name, diff)
	}
}

func TestTheAPIAndThePageShowWhatIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, storage := site(t)
		before := storage.Requests(queuetest.Op{})
		resp := do(h, http.MethodGet, "/api/v1/queues")
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/json" {
			t.Errorf("answered %d %q", resp.StatusCode, got)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(body(t, resp)), "", "  "); err != nil {
			t.Fatal(err)
		}
		golden(t, "queues.json", pretty.String())
		build := regexp.MustCompile(`\?[0-9a-f]{12}"`) // of the page's files
		for name, target := range map[string]string{"page.html": "/", "queue.html": "/queues/acct/orders"} {
			golden(t, name, build.ReplaceAllString(body(t, do(h, http.MethodGet, target)), `?BUILD"`))
		}

		type evident struct {
			Status   string
			Evidence *struct {
				Rule    string
				Samples []struct{ Messages, Visible *int }
			}
		}
		var one struct {
			Queue, Mode  string
			Main, Poison evident
		}
		if err := json.Unmarshal([]byte(body(t, do(h, http.MethodGet, "/api/v1/queues/acct/orders"))), &one); err != nil {
			t.Fatal(err)
		}
		if one.Queue != "orders" || one.Mode != "consume" {
			t.Errorf("one queue: %+v", one)
		}
		if e := one.Main.Evidence; e == nil || e.Rule != "too_few_samples" || len(e.Samples) != 1 || e.Samples[0].Messages == nil || *e.Samples[0].Messages != 2 {
			t.Errorf("the evidence of one queue: %+v", e)
		}
		if one.Poison.Status != "holding" || one.Poison.Evidence == nil {
			t.Errorf("its poison queue: %+v", one.Poison)
		}
		if strings.Contains(pretty.String(), "evidence") {
			t.Error("the list of all queues holds evidence")
		}
		if after := storage.Requests(queuetest.Op{}); after != before {
			t.Errorf("answers made %d storage requests", after-before)
		}

		// Long after the last poll nothing is shown as if it were known.
		time.Sleep(time.Hour)
		stale := body(t, do(h, http.MethodGet, "/api/v1/queues"))
		for _, gone := range []string{"approximateMessages", "visible", "oldestVisibleAgeSeconds", `"up":true`} {
			if strings.Contains(stale, gone) {
				t.Errorf("%s is shown an hour after the last poll", gone)
			}
		}
	})
}

func TestWhatIsNotThereAndWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := site(t)
		for _, tt := range []struct {
			method, target string
			status         int
			body           string
		}{
			{"GET", "/api/v1/queues/acct/nosuch", 404, `{"error":"queue acct/nosuch is not watched; GET /api/v1/queues lists those that are"}` + "\n"},
			{"GET", "/api/v1/nosuch", 404, `{"error":"there is no /api/v1/nosuch"}` + "\n"},
			{"GET", "/api/", 404, `{"error":"there is no /api/"}` + "\n"},
			{"POST", "/api/v1/queues", 405, `{"error":"method POST is not allowed here; use GET"}` + "\n"},
			{"DELETE", "/api/v1/queues/acct/orders", 405, `{"error":"method DELETE is not allowed here; use GET"}` + "\n"},
			{"POST", "/", 405, "method not allowed; use GET\n"},
			{"POST", "/metrics", 405, "method not allowed; use GET\n"},
			{"GET", "/nosuch", 404, "404 page not found\n"},
			{"GET", "/debug/pprof/", 404, "404 page not found\n"},
			{"GET", "/livez", 200, "ok\n"},
			{"GET", "/readyz", 200, "ok\n"},
			{"GET", "/startupz", 200, "ok\n"},
		} {
			resp := do(h, tt.method, tt.target)
			got := body(t, resp)
			if resp.StatusCode != tt.status || got != tt.body {
				t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.target, resp.StatusCode, got, tt.status, tt.body)
			}
			if tt.status == 405 && resp.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: Allow is %q", tt.method, tt.target, resp.Header.Get("Allow"))
			}
			if resp.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s %s lacks the security headers: %v", tt.method, tt.target, resp.Header)
			}
		}
	})
}

func TestGzipIsForThoseWhoAcceptIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := site(t)
		for accept, want := range map[string]string{
			"":                      "",
			"gzip":                  "gzip",
			"x-gzip":                "gzip",
			"deflate, gzip;q=0.5":   "gzip",
			"*":                     "gzip",
			"gzip;q=0":              "",
			"*;q=0":                 "",
			"gzip;q=0, *":           "",
			"identity":              "",
			"gzipped":               "",
			"gzip;q=broken":         "",
			`;;,"\x00,gzip ; q=1.0`: "gzip",
		} {
			for _, target := range []string{"/metrics", "/api/v1/queues", "/"} {
				resp := do(h, http.MethodGet, target, "Accept-Encoding", accept)
				if got := resp.Header.Get("Content-Encoding"); got != want {
					t.Errorf("%s with %q: encoding %q, want %q", target, accept, got, want)
				}
				if !strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Accept-Encoding") {
					t.Errorf("%s does not vary by Accept-Encoding", target)
				}
				text := body(t, resp)
				if want == "gzip" {
					zr, err := gzip.NewReader(strings.NewReader(text))
					if err != nil {
						t.Fatalf("%s: %v", target, err)
					}
					b, err := io.ReadAll(zr)
					if err != nil {
						t.Fatalf("%s: %v", target, err)
					}
					text = string(b)
				}
				if !strings.Contains(text, "orders") {
					t.Errorf("%s with %q: the body is broken: %.80q", target, accept, text)
				}
			}
		}
	})
}

// brokenCollector is a collector that cannot collect.
type brokenCollector struct{ desc *prometheus.Desc }

func (b brokenCollector) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }
func (b brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(b.desc, io.ErrUnexpectedEOF)
}

func TestOneBrokenMetricLeavesTheOthers(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	reg.MustRegister(brokenCollector{prometheus.NewDesc("broken", "It is.", nil, nil)})
	c, err := collector.New(collector.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	h := web.Handler(web.Options{
		Registry: reg, Collector: c, Health: health.New(health.Config{}), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	do(h, http.MethodGet, "/metrics")
	resp := do(h, http.MethodGet, "/metrics")
	if got := body(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(got, `promhttp_metric_handler_errors_total{cause="gathering"} 1`) {
		t.Errorf("answered %d:\n%s", resp.StatusCode, got)
	}
	if !strings.Contains(log.String(), "unexpected EOF") {
		t.Errorf("the log does not tell: %s", &log)
	}
}

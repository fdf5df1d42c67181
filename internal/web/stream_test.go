package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// built hides that a collector can hand out its samples one by one.
type built struct{ prometheus.Gatherer }

// In every format the handler writes of a collector what the standard encoder writes of what it builds.
func TestStreamedIsWhatIsBuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(s.ConnectionString()), Transport: s})
		if err != nil {
			t.Fatal(err)
		}
		var targets []collector.Target
		for _, name := range []string{"orders", "audit", "missing"} {
			q, err := acct.Queue(name, queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if name != "missing" {
				if err := q.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := q.SendText(t.Context(), "x", queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			targets = append(targets, collector.Target{Queue: q, Team: "a \"team\"\n\\", Tier: 1})
		}
		c, err := collector.New(collector.Config{Targets: targets})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(20 * time.Minute)
		scrape := func(g prometheus.Gatherer, accept string) string {
			reg := prometheus.NewRegistry()
			h := metricsHandler(reg, g, slog.New(slog.DiscardHandler))
			r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Body.String()
		}
		for _, accept := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
			want, got := scrape(built{c}, accept), scrape(c, accept)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-built +streamed):\n%s", accept, diff)
			}
			if !bytes.Contains([]byte(got), []byte("queue_approximate_messages")) {
				t.Errorf("%s: no depth", accept)
			}
		}
		families, err := c.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var standard bytes.Buffer
		enc := expfmt.NewEncoder(&standard, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, f := range families {
			if err := enc.Encode(f); err != nil {
				t.Fatal(err)
			}
		}
		if got := scrape(c, ""); !bytes.Contains([]byte(got), standard.Bytes()[:standard.Len()/2]) {
			t.Error("the text is not what expfmt writes")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

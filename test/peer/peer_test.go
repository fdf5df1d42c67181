package peer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

func TestAzuriteDiesFreezesAndComesBack(t *testing.T) {
	t.Parallel()
	a := peer.Azurite(t)
	for _, url := range []string{a.BlobURL(), a.QueueURL(), a.TableURL()} {
		if err := ask(t, url, 5*time.Second); err != nil {
			t.Errorf("after the start: %v", err)
		}
		if !strings.Contains(a.ConnectionString(), "Endpoint="+url+";") {
			t.Errorf("the connection string does not name %s", url)
		}
	}

	a.Freeze(t)
	if err := ask(t, a.QueueURL(), 300*time.Millisecond); err == nil {
		t.Error("frozen, it still answers")
	}
	a.Thaw(t)
	if err := ask(t, a.QueueURL(), 5*time.Second); err != nil {
		t.Errorf("after the thaw: %v", err)
	}

	a.Kill()
	if err := ask(t, a.QueueURL(), 5*time.Second); err == nil {
		t.Error("killed, it still answers")
	}
	a.Restart(t)
	if err := ask(t, a.QueueURL(), 5*time.Second); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestPrometheusScrapesAndAnswers(t *testing.T) {
	t.Parallel()
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# HELP answer The answer.\n# TYPE answer gauge\nanswer{kind=\"great\"} 42\n")
	}))
	t.Cleanup(metrics.Close)
	host := strings.TrimPrefix(metrics.URL, "http://")
	p := peer.Prometheus(t, `
global: {scrape_interval: 200ms, scrape_timeout: 200ms}
scrape_configs: [{job_name: test, static_configs: [{targets: ["`+host+`"]}]}]
`)
	var samples []peer.Sample
	for deadline := time.Now().Add(20 * time.Second); len(samples) == 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		samples = p.Query(t, `answer / 2`)
	}
	if len(samples) != 1 || samples[0].Value != 21 || samples[0].Labels["kind"] != "great" || time.Since(samples[0].At) > time.Minute {
		t.Errorf("samples: %v", samples)
	}
	if scalar := p.Query(t, `6 * 7`); len(scalar) != 1 || scalar[0].Value != 42 {
		t.Errorf("scalar: %v", scalar)
	}
	if targets := p.Targets(t); len(targets) != 1 || targets[0].Health != "up" || targets[0].ScrapeURL != metrics.URL+"/metrics" {
		t.Errorf("targets: %+v", targets)
	}
}

func TestAlertmanagerAnswers(t *testing.T) {
	t.Parallel()
	a := peer.Alertmanager(t, "route: {receiver: none}\nreceivers: [{name: none}]\n")
	if err := ask(t, a.URL()+"/api/v2/status", 5*time.Second); err != nil {
		t.Error(err)
	}
}

func TestPromtoolTellsGoodFromBad(t *testing.T) {
	t.Parallel()
	const help = "# HELP polls_total Polls.\n# TYPE polls_total counter\npolls_total 0\n"
	if status, out := peer.Promtool(t, help, "check", "metrics"); status != 0 || out != "" {
		t.Errorf("clean metrics: status %d, %q", status, out)
	}
	if status, out := peer.Promtool(t, "polls 1\n", "check", "metrics"); status == 0 || !strings.Contains(out, "no help text") {
		t.Errorf("metrics without help: status %d, %q", status, out)
	}
}

func TestMissingPeerSaysHowToGetIt(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for name, start := range map[string]func(testing.TB){
		"azurite":      func(t testing.TB) { peer.Azurite(t) },
		"prometheus":   func(t testing.TB) { peer.Prometheus(t, "") },
		"alertmanager": func(t testing.TB) { peer.Alertmanager(t, "") },
		"postgres":     func(t testing.TB) { peer.Postgres(t) },
		"typescript":   func(t testing.TB) { peer.TypeScript(t, nil) },
		"promtool":     func(t testing.TB) { peer.Promtool(t, "", "--version") },
	} {
		failure := failureOf(t, start)
		if !strings.Contains(failure, name) || !strings.Contains(failure, "run `make peers`") {
			t.Errorf("%s missing: %q", name, failure)
		}
	}
}

// failureOf runs f with a T whose Fatalf is caught, and returns what it said.
func failureOf(t *testing.T, f func(testing.TB)) (failure string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprint(r)
		}
	}()
	f(caught{t})
	return ""
}

type caught struct{ testing.TB }

func (caught) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// ask returns nil when url answers anything in time.
func ask(t *testing.T, url string, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

//go:build drill

package test_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

const scaledConfig = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - {name: orders, objective: {timeInQueue: 1m}, scaling: {handlingTime: 6s, concurrency: 2}}
      - {name: full, objective: {timeInQueue: 1m}, scaling: {handlingTime: 6s, concurrency: 2}}
      - {name: missing}
watch: {interval: 1s, idleInterval: 1s}
`

// KEDA's own scaler code asks qwatch, by gRPC and HTTP, and the service itself.
func TestDrillKEDAScalers(t *testing.T) {
	client := kedaClient(t)
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	orders, full := createQueue(t, account, "orders"), createQueue(t, account, "full")
	send(t, orders, bodies("order", 30, marker))
	if leased, err := orders.Receive(t.Context(), 10, time.Hour); err != nil || len(leased) != 10 {
		t.Fatalf("%d, %v", len(leased), err)
	}
	for range 5 {
		if _, err := orders.Send(t.Context(), "later", queue.SendOptions{Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	send(t, full, bodies("order", 50, marker))
	s := serve(t, scaledConfig, "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
	cs := azurite.ConnectionString()

	// 35 messages, of which 20 are visible, 10 are leased and 5 delayed.
	type want struct {
		trigger       kedaTrigger
		metric        string
		target, value float64
		active        bool
	}
	push := external(s, "orders", "visible")
	push.Type = "external-push"
	scaled := external(s, "orders", "visible")
	scaled.Metadata["queueLength"], scaled.Metadata["activationQueueLength"] = "2.5", "20"
	prefixed := "s0-qwatch-orders-orders-"
	wants := []want{
		{azureQueue(cs, "orders", "all"), "s0-azure-queue-orders", 5, 35, true},
		{external(s, "orders", "all"), prefixed + "all", 5, 35, true},
		{metricsAPI(s, "orders", "all"), "", 5, 35, true},
		{azureQueue(cs, "orders", "visibleonly"), "s0-azure-queue-orders", 5, 20, true},
		{external(s, "orders", "visible"), prefixed + "visible", 5, 20, true},
		{metricsAPI(s, "orders", "visible"), "", 5, 20, true},
		{push, prefixed + "visible", 5, 20, true},
		{external(s, "orders", "inflight"), prefixed + "inflight", 5, 20, true},
		{external(s, "orders", "drain"), prefixed + "drain", 1, 1, true}, // 20 × 6 s ÷ (2 × 60 s)
		{metricsAPI(s, "orders", "drain"), "", 5, 1, true},
		{scaled, prefixed + "visible", 2.5, 20, false},
		{external(s, "full", "visible"), "s0-qwatch-orders-full-visible", 5, 50, true},
		{external(s, "full", "drain"), "s0-qwatch-orders-full-drain", 1, 3, true},
		{azureQueue(cs, "full", "visibleonly"), "s0-azure-queue-full", 5, 50, true},
	}
	triggers := make([]kedaTrigger, 0, len(wants))
	for _, w := range wants {
		triggers = append(triggers, w.trigger)
	}
	eventually(t, 20*time.Second, "the queues have been polled", func() bool {
		m := scrapeOf(t, s)
		return m.is(35, "queue_approximate_messages", "queue_name", "orders", "queue_kind", "main") &&
			m.is(50, "queue_approximate_messages", "queue_name", "full", "queue_kind", "main")
	})
	for i, r := range askKEDA(t, client, triggers...) {
		w := wants[i]
		if r.Error != "" || r.Target != w.target || r.Value != w.value || r.Active != w.active || w.metric != "" && r.Metric != w.metric {
			t.Errorf("%s %v: %+v, want target %v, value %v, active %v, metric %s", w.trigger.Type, w.trigger.Metadata, r, w.target, w.value, w.active, w.metric)
		}
		if r.SpecSeconds > 1 || r.MetricsSeconds > 1 {
			t.Errorf("%s %v: the specification took %v s, the value %v s", w.trigger.Type, w.trigger.Metadata, r.SpecSeconds, r.MetricsSeconds)
		}
	}

	t.Run("what is wrong is an error, and no value", func(t *testing.T) { wrongTriggers(t, client, s) })
	t.Run("the push scaler is told when it changes", func(t *testing.T) { pushed(t, client, s, orders) })
	t.Run("storage frozen", func(t *testing.T) { frozen(t, client, s, azurite) })
}

func wrongTriggers(t *testing.T, client string, s *service) {
	misspelt := external(s, "orders", "visible")
	misspelt.Metadata["queuelength"] = "3"
	bare := kedaTrigger{Type: "external", Metadata: map[string]string{"scalerAddress": s.grpc, "strategy": "most", "queueLength": "many"}}
	for i, r := range askKEDA(t, client,
		external(s, "missing", "visible"), metricsAPI(s, "missing", "visible"), external(s, "nowhere", "visible"), metricsAPI(s, "nowhere", "all"),
		metricsAPI(s, "orders", "most"), misspelt, bare,
	) {
		if r.Error == "" || r.Value != 0 || r.Active {
			t.Errorf("%d: %+v", i, r)
		}
		t.Logf("%d: %s", i, r.Error)
	}
}

// pushed empties the queue of what is visible, and fills it again.
func pushed(t *testing.T, client string, s *service, orders *queue.Queue) {
	cmd := exec.Command(client, "push")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := peer.Start(t, "kedaclient push", cmd)
	if _, err := fmt.Fprintf(stdin, `{"type": "external-push", "metadata": {"scalerAddress": %q, "account": "orders", "queueName": "orders", "strategy": "visible", "queueLength": "7"}}`, s.grpc); err != nil {
		t.Fatal(err)
	}
	said := func(what string) func() bool {
		return func() bool { return strings.Contains(p.Stdout(), what) }
	}
	active := func(changes ...string) func() bool {
		return func() bool {
			var told []string
			for line := range strings.Lines(p.Stdout()) {
				if is, ok := strings.CutPrefix(line, "active "); ok {
					told = append(told, strings.TrimSpace(is))
				}
			}
			return slices.Equal(told, changes)
		}
	}
	eventually(t, 20*time.Second, "KEDA has the specification", said("spec s0-qwatch-orders-orders-visible 7"))
	eventually(t, 20*time.Second, "KEDA knows that the queue is active", active("true"))
	drain(t, orders)
	eventually(t, 20*time.Second, "KEDA knows that it is not any more", active("true", "false"))
	send(t, orders, bodies("order", 1, marker))
	eventually(t, 20*time.Second, "KEDA knows that it is again", active("true", "false", "true"))
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if status := p.Wait(t, 20*time.Second); status != 0 {
		t.Errorf("status %d\n%s", status, p.Output())
	}
}

// frozen: the specification is still there, values are errors once they are stale, nothing takes longer than a
// second.
func frozen(t *testing.T, client string, s *service, azurite *peer.AzuriteServer) {
	azurite.Freeze(t)
	defer azurite.Thaw(t)
	stale := func() bool {
		status, _, err := get(t.Context(), s.main+"/api/v1/scaling/orders/full?strategy=all")
		return err == nil && status == http.StatusServiceUnavailable
	}
	eventually(t, 20*time.Second, "the value is stale", stale)
	for _, r := range askKEDA(t, client,
		external(s, "full", "all"), external(s, "full", "visible"), external(s, "full", "inflight"), external(s, "full", "drain"), metricsAPI(s, "full", "all"),
	) {
		if r.Error == "" || r.Target == 0 || r.Active || r.SpecSeconds > 1 || r.MetricsSeconds > 1 {
			t.Errorf("while storage is frozen: %+v", r)
		}
		t.Logf("%s: %s", r.Metric, r.Error)
	}
}

// A storm: every message fails and is hidden in its retry delay. KEDA's own scaler holds replicas for them, qwatch's
// strategies do not.
func TestDrillKEDAInAPoisonStorm(t *testing.T) {
	client := kedaClient(t)
	azurite := peer.Azurite(t)
	orders := createQueue(t, openAccount(t, azurite), "orders")
	send(t, orders, bodies("bad", 40, marker))
	handler := newEndpoint(t, marker, func(string, int) answer { return answer{status: http.StatusInternalServerError} })
	s := serve(t, fmt.Sprintf(`
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues:
      - name: orders
        objective: {timeInQueue: 1m}
        consumer:
          handler: {http: {url: %q}}
          concurrency: 8
          breaker: false
          retry: {initial: 10m, max: 10m}
watch: {interval: 1s, idleInterval: 1s}
`, handler.URL), "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
	eventually(t, time.Minute, "all messages have failed once and are hidden", func() bool {
		m := scrapeOf(t, s)
		return m.is(40, "queue_processor_held_messages", "queue_name", "orders") &&
			m.is(0, "queue_processor_active_handlers", "queue_name", "orders") &&
			m.is(0, "queue_peeked_messages", "queue_name", "orders", "queue_kind", "main") &&
			m.is(40, "queue_approximate_messages", "queue_name", "orders", "queue_kind", "main")
	})
	results := askKEDA(t, client,
		azureQueue(azurite.ConnectionString(), "orders", "all"), external(s, "orders", "all"),
		external(s, "orders", "visible"), external(s, "orders", "inflight"), external(s, "orders", "drain"), metricsAPI(s, "orders", "drain"),
	)
	for i, r := range results {
		held := i < 2
		if r.Error != "" || held != r.Active || held != (r.Value == 40) || !held && r.Value != 0 {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// By TLS, with certificates on both sides, as KEDA does it.
func TestDrillKEDABehindTLS(t *testing.T) {
	client := kedaClient(t)
	azurite := peer.Azurite(t)
	send(t, createQueue(t, openAccount(t, azurite), "orders"), bodies("order", 3, marker))
	ca := peer.NewAuthority(t)
	files := map[string]string{}
	server, serverKey := ca.Issue(t)
	for name, text := range map[string]string{"ca.pem": ca.PEM, "cert.pem": server, "key.pem": serverKey} {
		files[name] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveWith(t, scaledConfig, fmt.Sprintf("grpcTLS: {certFile: %q, keyFile: %q, clientCAFile: %q}", files["cert.pem"], files["key.pem"], files["ca.pem"]),
		"ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
	eventually(t, 20*time.Second, "the queue has been polled", func() bool {
		return scrapeOf(t, s).is(3, "queue_approximate_messages", "queue_name", "orders", "queue_kind", "main")
	})
	cert, key := ca.Issue(t)
	good, anonymous, plain := external(s, "orders", "all"), external(s, "orders", "all"), external(s, "orders", "all")
	good.Auth = map[string]string{"caCert": ca.PEM, "tlsClientCert": cert, "tlsClientKey": key}
	anonymous.Auth = map[string]string{"caCert": ca.PEM}
	stranger := external(s, "orders", "all")
	other := peer.NewAuthority(t)
	otherCert, otherKey := other.Issue(t)
	stranger.Auth = map[string]string{"caCert": ca.PEM, "tlsClientCert": otherCert, "tlsClientKey": otherKey}
	for i, r := range askKEDA(t, client, good, anonymous, plain, stranger) {
		if ok := i == 0; ok != (r.Error == "" && r.Value == 3 && r.Active) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// What `qwatch keda generate` writes is what KEDA's types have, strictly, and what its scalers accept.
func TestDrillKEDATakesWhatIsGenerated(t *testing.T) {
	client := kedaClient(t)
	file := filepath.Join(t.TempDir(), "qwatch.yaml")
	config := strings.ReplaceAll(scaledConfig, "${ORDERS_CONNECTION_STRING}", "UseDevelopmentStorage=true") +
		"server: {grpcTLS: {certFile: c, keyFile: k, clientCAFile: a}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, kind := range [][]string{{"scaledobject", "--target", "workers"}, {"scaledobject", "--min", "1", "--fallback", "2"}, {"scaledjob", "--image", "i"}} {
		for _, scaler := range [][]string{{"external"}, {"external-push"}, {"metrics-api", "--auth", "basic"}, {"metrics-api", "--auth", "tls,basic"}, {"metrics-api"}, {"prometheus", "--prometheus", "http://p", "--auth", "bearer"}} {
			for _, strategy := range []string{"all", "visible", "inflight", "drain"} {
				args := append([]string{"keda", "generate", "-c", file, "--strategy", strategy, "--scaler"}, scaler...)
				args = append(append(args, "--kind"), kind...)
				r := run(t, nil, args...)
				if r.status != 0 {
					t.Fatalf("%q: status %d\n%s", args, r.status, r.stderr)
				}
				said := runKEDA(t, client, r.stdout, "decode")
				objects += strings.Count(said, "Scaled")
			}
		}
	}
	if objects < 100 {
		t.Errorf("only %d objects were decoded", objects)
	}
	// The decoder does complain.
	cmd := exec.Command(client, "decode")
	cmd.Stdin = strings.NewReader("kind: ScaledObject\nspec: {cooldown: 5}\n")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a field that KEDA does not have is taken: %s", out)
	}
}

// The PromQL of the generated objects, through KEDA's prometheus scaler and a Prometheus that scrapes qwatch.
func TestDrillKEDAAsksPrometheus(t *testing.T) {
	client := kedaClient(t)
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	send(t, createQueue(t, account, "orders"), bodies("order", 20, marker))
	send(t, createQueue(t, account, "full"), bodies("order", 50, marker))
	s := serve(t, scaledConfig, "ORDERS_CONNECTION_STRING="+azurite.ConnectionString())
	prometheus := peer.Prometheus(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms}
scrape_configs: [{job_name: qwatch, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(s.main, "http://")))
	// KEDA asks about the present second's beginning.
	eventually(t, 30*time.Second, "Prometheus has known the queues for a while", func() bool {
		return len(prometheus.Query(t, `queue_approximate_messages{queue_kind="main"} offset 3s > 0`)) == 2
	})
	var triggers []kedaTrigger
	wants := []float64{20, 20, 20, 1, 50, 50, 50, 3}
	for _, queue := range []string{"orders", "full"} {
		for _, strategy := range []string{"all", "visible", "inflight", "drain"} {
			r := run(t, []string{"ORDERS_CONNECTION_STRING=" + azurite.ConnectionString()}, "keda", "generate", "-c", s.config, "orders/"+queue, "--scaler", "prometheus", "--prometheus", prometheus.URL(), "--strategy", strategy)
			_, rest, _ := strings.Cut(r.stdout, "query: ")
			query, _, ok := strings.Cut(rest, "\n")
			if !ok {
				t.Fatalf("no query: %s%s", r.stdout, r.stderr)
			}
			triggers = append(triggers, kedaTrigger{Type: "prometheus", Metadata: map[string]string{
				"serverAddress": prometheus.URL(), "query": strings.Trim(query, "'"), "threshold": "5", "ignoreNullValues": "false",
			}})
		}
	}
	for i, r := range askKEDA(t, client, triggers...) {
		if r.Error != "" || r.Value != wants[i] || !r.Active {
			t.Errorf("%s: %+v, want %v", triggers[i].Metadata["query"], r, wants[i])
		}
	}
	// What is not known is a failure, not 0.
	unknown := triggers[0]
	unknown.Metadata["query"] = strings.ReplaceAll(unknown.Metadata["query"], `"orders"`, `"nowhere"`)
	if r := askKEDA(t, client, unknown)[0]; r.Error == "" {
		t.Errorf("of a queue nobody watches: %+v", r)
	}
}

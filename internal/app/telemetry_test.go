package app_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// TestTelemetryReachesAReceiver runs a whole qwatch on real sockets as a job that ends after one
// message: nothing ever scrapes it.
func TestTelemetryReachesAReceiver(t *testing.T) {
	var mu sync.Mutex
	var spans, metrics []string
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if req.Header.Get("X-Key") != "k" {
			t.Errorf("x-key is %q", req.Header.Get("X-Key"))
		}
		switch req.URL.Path {
		case "/v1/traces":
			var all collectortraces.ExportTraceServiceRequest
			err = proto.Unmarshal(b, &all)
			for _, rs := range all.GetResourceSpans() {
				for _, ss := range rs.GetScopeSpans() {
					for _, s := range ss.GetSpans() {
						spans = append(spans, s.GetName())
					}
				}
			}
		case "/v1/metrics":
			var all collectormetrics.ExportMetricsServiceRequest
			err = proto.Unmarshal(b, &all)
			for _, rm := range all.GetResourceMetrics() {
				for _, sm := range rm.GetScopeMetrics() {
					for _, m := range sm.GetMetrics() {
						metrics = append(metrics, m.GetName())
					}
				}
			}
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer receiver.Close()

	storage := queuetest.New(queuetest.Options{})
	cfg := parse(t, storage, strings.NewReplacer("RECEIVER", receiver.URL).Replace(`
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, createIfMissing: true, consumer: {handler: {http: {url: "http://handler.invalid/"}}}}
server: {listen: "127.0.0.1:0", probes: "off", grpc: off}
telemetry:
  otlp: {endpoint: "RECEIVER", headers: [{name: x-key, value: k}]}
  traces: all
  semconvMetrics: true
  pushAtExit: true
`))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := app.Run(ctx, app.Options{
		Config: cfg, Transport: storage,
		Handlers: map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error {
			stop()
			return nil
		})},
		Started: func(r app.Running) {
			if _, err := r.Fleet.Queues[0].Send(ctx, "x", queue.SendOptions{}); err != nil {
				t.Error(err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"Queue.Process", "Queue.Read", "Queue.Send"} {
		if !slices.Contains(spans, want) {
			t.Errorf("no span %s among %v", want, spans)
		}
	}
	for _, want := range []string{
		"messaging.client.sent.messages", "messaging.client.consumed.messages", "messaging.process.duration", "messaging.client.operation.duration",
		"queue_messages_processed_total", "queue_message_processing_duration_seconds", "queue_info", "go_goroutines",
	} {
		if !slices.Contains(metrics, want) {
			t.Errorf("no metric %s among %v", want, metrics)
		}
	}
}

func TestCheckingAConfigurationTellsNobody(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("request for %s", req.URL.Path)
	}))
	defer receiver.Close()
	cfg := parse(t, queuetest.New(queuetest.Options{}), "\naccounts: [{name: acct, connectionString: \"${STORAGE}\", queues: [{name: orders}]}]\n"+
		"telemetry: {otlp: {endpoint: \""+receiver.URL+"\"}, semconvMetrics: true, pushAtExit: true}\n")
	if _, err := app.Check(cfg); err != nil {
		t.Fatal(err)
	}
}

// TestHandlersAreGivenTheSpanToGoOnWith posts to a real handler.
func TestHandlersAreGivenTheSpanToGoOnWith(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	parents := make(chan string, 1)
	handler := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		parents <- req.Header.Get("Traceparent")
		stop()
	}))
	defer handler.Close()
	storage := queuetest.New(queuetest.Options{})
	cfg := parse(t, storage, strings.NewReplacer("RECEIVER", receiver.URL, "HANDLER", handler.URL).Replace(`
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, createIfMissing: true, propagateTraceContext: true, consumer: {handler: {http: {url: "HANDLER"}}}}
server: {listen: "127.0.0.1:0", probes: "off", grpc: off}
telemetry: {otlp: {endpoint: "RECEIVER"}}
`))
	const sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	err := app.Run(ctx, app.Options{Config: cfg, Transport: storage, Started: func(r app.Running) {
		with := queue.ContextWithTrace(ctx, queue.TraceContext{Parent: sender})
		if _, err := r.Fleet.Queues[0].Send(with, "x", queue.SendOptions{}); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := <-parents
	if len(got) != len(sender) || got[:35] != sender[:35] || got[36:52] == sender[36:52] {
		t.Errorf("the handler was given %q, want a span of the sender's trace %s that is not the sender's", got, sender)
	}
}

package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/qwatch/qwatch/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is an OTLP receiver: it decodes what it is sent.
type receiver struct {
	*httptest.Server
	status int // 0: 200

	mu      sync.Mutex
	paths   []string
	headers http.Header
	spans   []string
	metrics map[string]float64
	service map[string]string // the resource's attributes
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{metrics: map[string]float64{}, service: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(req.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil || req.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("content type %s, error %v", req.Header.Get("Content-Type"), err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paths, r.headers = append(r.paths, req.URL.Path), req.Header
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		if strings.HasSuffix(req.URL.Path, "traces") {
			r.traces(t, b)
		} else {
			r.take(t, b)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) traces(t *testing.T, b []byte) {
	var all collectortraces.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &all); err != nil {
		t.Error(err)
	}
	for _, rs := range all.GetResourceSpans() {
		r.describe(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				r.spans = append(r.spans, s.GetName())
			}
		}
	}
}

func (r *receiver) take(t *testing.T, b []byte) {
	var all collectormetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(b, &all); err != nil {
		t.Error(err)
	}
	for _, rm := range all.GetResourceMetrics() {
		r.describe(rm.GetResource().GetAttributes())
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				for _, p := range slices.Concat(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()) {
					r.metrics[m.GetName()] += p.GetAsDouble() + float64(p.GetAsInt())
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					r.metrics[m.GetName()] += float64(p.GetCount())
				}
			}
		}
	}
}

func (r *receiver) describe(attrs []*common.KeyValue) {
	for _, kv := range attrs {
		r.service[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
}

// start makes an exporter that reads no variables but the given.
func start(t *testing.T, cfg otlp.Config, env map[string]string) *otlp.Exporter {
	t.Helper()
	cfg.Env = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	e, err := otlp.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func shutdown(t *testing.T, e *otlp.Exporter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestSpansAndMetricsReachTheReceiver(t *testing.T) {
	r := newReceiver(t)
	e := start(t, otlp.Config{Endpoint: r.URL + "/", Headers: map[string]string{"Authorization": "Bearer x"}, Traces: true, Metrics: true, Version: "v1"}, nil)
	_, span := e.Traces().Tracer("test").Start(t.Context(), "work", trace.WithSpanKind(trace.SpanKindConsumer))
	span.End()
	counter, err := e.Metrics().Meter("test").Int64Counter("done")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	shutdown(t, e)
	slices.Sort(r.paths)
	if diff := cmp.Diff([]string{"/v1/metrics", "/v1/traces"}, r.paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"work"}, r.spans); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"done": 3}, r.metrics); diff != "" {
		t.Error(diff)
	}
	if got := r.headers.Get("Authorization"); got != "Bearer x" {
		t.Errorf("authorization %q", got)
	}
	if r.service["service.name"] != "qwatch" || r.service["service.version"] != "v1" {
		t.Errorf("resource %v", r.service)
	}
}

func TestTheRegistryIsSentOnceAtTheEnd(t *testing.T) {
	r := newReceiver(t)
	reg := prometheus.NewRegistry()
	done := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queue_messages_processed_total", Help: "h"}, []string{"queue"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "queue_message_processing_duration_seconds", Help: "h"})
	reg.MustRegister(done, took)
	e := start(t, otlp.Config{Endpoint: r.URL, AtExit: reg}, nil)
	if e.Traces() != nil || e.Metrics() != nil {
		t.Error("more is sent than was asked for")
	}
	done.WithLabelValues("a").Add(2)
	done.WithLabelValues("b").Add(5)
	took.Observe(1)
	shutdown(t, e)
	if diff := cmp.Diff(map[string]float64{"queue_messages_processed_total": 7, "queue_message_processing_duration_seconds": 1}, r.metrics); diff != "" {
		t.Error(diff)
	}
	if len(r.paths) != 1 {
		t.Errorf("requests: %v", r.paths)
	}
}

// TestTheStandardVariables sets the process's own, which the exporters read.
func TestTheStandardVariables(t *testing.T) {
	r := newReceiver(t)
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=contoso", "OTEL_SERVICE_NAME": "orders",
		"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_METRICS_EXPORTER": "none",
	}
	for k, v := range env {
		t.Setenv(k, v)
	}
	e, err := otlp.New(t.Context(), otlp.Config{Traces: true, Metrics: true})
	if err != nil {
		t.Fatal(err)
	}
	if e.Metrics() != nil {
		t.Error("metrics are sent, though OTEL_METRICS_EXPORTER is none")
	}
	_, span := e.Traces().Tracer("test").Start(t.Context(), "work")
	span.End()
	shutdown(t, e)
	if diff := cmp.Diff([]string{"work"}, r.spans); diff != "" {
		t.Error(diff)
	}
	if got := r.headers.Get("X-Tenant"); got != "contoso" {
		t.Errorf("x-tenant %q", got)
	}
	if got := r.headers.Get("Content-Encoding"); got != "gzip" {
		t.Errorf("content encoding %q", got)
	}
	if r.service["service.name"] != "orders" || r.service["deployment.environment"] != "test" {
		t.Errorf("resource %v", r.service)
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg             otlp.Config
		env             map[string]string
		traces, metrics bool
	}{
		"nothing without a receiver":           {cfg: otlp.Config{Traces: true, Metrics: true}},
		"what is asked for":                    {cfg: otlp.Config{Endpoint: "http://127.0.0.1:9", Traces: true}, traces: true},
		"both":                                 {cfg: otlp.Config{Endpoint: "http://127.0.0.1:9", Traces: true, Metrics: true}, traces: true, metrics: true},
		"a signal with an endpoint of its own": {cfg: otlp.Config{Traces: true, Metrics: true}, env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/x"}, traces: true},
		"not a signal that is turned off":      {cfg: otlp.Config{Endpoint: "http://127.0.0.1:9", Traces: true, Metrics: true}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}, metrics: true},
		"nothing with the SDK disabled":        {cfg: otlp.Config{Endpoint: "http://127.0.0.1:9", Traces: true, Metrics: true}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := start(t, tt.cfg, tt.env)
			defer e.Abandon()
			if got := e.Traces() != nil; got != tt.traces {
				t.Errorf("traces %t, want %t", got, tt.traces)
			}
			if got := e.Metrics() != nil; got != tt.metrics {
				t.Errorf("metrics %t, want %t", got, tt.metrics)
			}
		})
	}
}

func TestAbandoningSendsNothing(t *testing.T) {
	r := newReceiver(t)
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total", Help: "h"}))
	e := start(t, otlp.Config{Endpoint: r.URL, Traces: true, Metrics: true, AtExit: reg}, nil)
	e.Abandon()
	e.Abandon()
	if len(r.paths) != 0 {
		t.Errorf("requests: %v", r.paths)
	}
}

func TestVariablesThatCannotBeObeyedAreRefused(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "zipkin"}
	_, err := otlp.New(t.Context(), otlp.Config{Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	want := "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\": qwatch speaks http/protobuf alone, which receivers take on port 4318\n" +
		"OTEL_TRACES_EXPORTER is \"zipkin\": qwatch knows otlp and none"
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
}

func TestAReceiverThatRefusesIsOneLineInTheLog(t *testing.T) {
	r := newReceiver(t)
	r.status = http.StatusForbidden
	var logs bytes.Buffer
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "a_total", Help: "h"}))
	e := start(t, otlp.Config{
		Endpoint: r.URL, Headers: map[string]string{"Authorization": "Bearer hidden"}, Traces: true, Metrics: true, AtExit: reg,
		Logger: slog.New(slog.NewTextHandler(&logs, nil)),
	}, nil)
	_, span := e.Traces().Tracer("test").Start(t.Context(), "work")
	span.End()
	counter, err := e.Metrics().Meter("test").Int64Counter("done")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 1)
	shutdown(t, e)
	if n := strings.Count(logs.String(), "telemetry cannot be sent"); n != 2 { // spans and metrics
		t.Errorf("told %d times:\n%s", n, &logs)
	}
	if strings.Contains(logs.String(), "hidden") {
		t.Errorf("a header's value is in the log:\n%s", &logs)
	}
}

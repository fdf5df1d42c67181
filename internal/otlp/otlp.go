package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	apimetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	apitrace "go.opentelemetry.io/otel/trace"
)

// Exporter sends. Its methods are safe for concurrent use, but for Shutdown.
type Exporter struct {
	traces  *trace.TracerProvider
	metrics *metric.MeterProvider
	atExit  *metric.ManualReader
	final   metric.Exporter
	holder  *metric.MeterProvider // of atExit
}

// New starts what the configuration wants sent. It makes no request: a receiver that cannot be reached
// costs a line in the log, and what it was to be told. Errors are those of the configuration.
func New(ctx context.Context, cfg Config) (*Exporter, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Exporter{}
	sendTraces, sendMetrics := cfg.Traces && cfg.wanted(traces), cfg.wanted(metrics)
	if !sendTraces && (!sendMetrics || !cfg.Metrics && cfg.AtExit == nil) {
		return e, nil
	}
	res, err := describe(ctx, cfg.Version)
	if err != nil {
		return nil, err
	}
	told := &teller{log: cfg.Logger}
	if sendTraces {
		exp, err := otlptracehttp.New(ctx, traceOptions(cfg)...)
		if err != nil {
			return nil, fmt.Errorf("export spans by OTLP: %w", err)
		}
		e.traces = trace.NewTracerProvider(trace.WithBatcher(spanExporter{exp, told}), trace.WithResource(res))
	}
	if sendMetrics && cfg.Metrics {
		exp, err := otlpmetrichttp.New(ctx, metricOptions(cfg)...)
		if err != nil {
			return nil, fmt.Errorf("export metrics by OTLP: %w", err)
		}
		e.metrics = metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metricExporter{exp, told})), metric.WithResource(res))
	}
	if sendMetrics && cfg.AtExit != nil {
		exp, err := otlpmetrichttp.New(ctx, metricOptions(cfg)...)
		if err != nil {
			return nil, fmt.Errorf("export metrics by OTLP: %w", err)
		}
		e.final = metricExporter{exp, told}
		e.atExit = metric.NewManualReader(metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(cfg.AtExit))))
		e.holder = metric.NewMeterProvider(metric.WithReader(e.atExit), metric.WithResource(res))
	}
	return e, nil
}

// Traces returns the provider of spans; nil when none are sent.
func (e *Exporter) Traces() apitrace.TracerProvider {
	if e.traces == nil {
		return nil
	}
	return e.traces
}

// Metrics returns the provider of metrics; nil when none are sent while the program runs.
func (e *Exporter) Metrics() apimetric.MeterProvider {
	if e.metrics == nil {
		return nil
	}
	return e.metrics
}

// Shutdown sends what is left, and Config.AtExit, for as long as the context lets it, and ends.
func (e *Exporter) Shutdown(ctx context.Context) error {
	var errs []error
	if e.traces != nil {
		errs = append(errs, e.traces.Shutdown(ctx))
	}
	if e.metrics != nil {
		errs = append(errs, e.metrics.Shutdown(ctx))
	}
	if e.atExit != nil {
		var all metricdata.ResourceMetrics
		err := e.atExit.Collect(ctx, &all)
		if len(all.ScopeMetrics) > 0 { // one family that cannot be gathered does not keep the others back
			err = errors.Join(err, e.final.Export(ctx, &all))
		}
		errs = append(errs, err, e.final.Shutdown(ctx), e.holder.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// Abandon ends without sending anything, as long as nothing was recorded. After Shutdown it does nothing.
func (e *Exporter) Abandon() {
	if e.traces != nil {
		_ = e.traces.Shutdown(context.Background())
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // or the reader would collect and send a last time
	for _, p := range []*metric.MeterProvider{e.metrics, e.holder} {
		if p != nil {
			_ = p.Shutdown(ended)
		}
	}
}

// describe tells who sends: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES over what is known here.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{attribute.String("service.name", "qwatch")}
	if version != "" {
		attrs = append(attrs, attribute.String("service.version", version))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attrs...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}

func traceOptions(c Config) (opts []otlptracehttp.Option) {
	if c.Endpoint != "" {
		opts = append(opts, otlptracehttp.WithEndpointURL(strings.TrimSuffix(c.Endpoint, "/")+"/v1/traces"))
	}
	if len(c.Headers) > 0 {
		opts = append(opts, otlptracehttp.WithHeaders(c.Headers))
	}
	return append(opts, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second}))
}

func metricOptions(c Config) (opts []otlpmetrichttp.Option) {
	if c.Endpoint != "" {
		opts = append(opts, otlpmetrichttp.WithEndpointURL(strings.TrimSuffix(c.Endpoint, "/")+"/v1/metrics"))
	}
	if len(c.Headers) > 0 {
		opts = append(opts, otlpmetrichttp.WithHeaders(c.Headers))
	}
	return append(opts, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 30 * time.Second}))
}

package otlp

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// teller logs when sending begins to fail and when it works again. The SDK itself would print every
// failure to standard error.
type teller struct {
	log *slog.Logger

	mu      sync.Mutex
	failing map[string]int // by signal
}

func (t *teller) tell(ctx context.Context, signal string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failing == nil {
		t.failing = map[string]int{}
	}
	switch n := t.failing[signal]; {
	case err != nil:
		t.failing[signal]++
		if n == 0 {
			t.log.LogAttrs(ctx, slog.LevelWarn, "telemetry cannot be sent; it is dropped until the receiver takes it again",
				slog.String("component", "otlp"), slog.String("operation", signal), slog.String("error", err.Error()))
		}
	case n > 0:
		t.failing[signal] = 0
		t.log.LogAttrs(ctx, slog.LevelInfo, "telemetry is sent again", slog.String("component", "otlp"), slog.String("operation", signal), slog.Int("failures", n))
	}
}

type spanExporter struct {
	trace.SpanExporter
	told *teller
}

// ExportSpans implements trace.SpanExporter. Its failures end here.
func (e spanExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	e.told.tell(ctx, "traces", e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type metricExporter struct {
	metric.Exporter
	told *teller
}

// Export implements metric.Exporter. Its failures end here.
func (e metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.told.tell(ctx, "metrics", e.Exporter.Export(ctx, all))
	return nil
}

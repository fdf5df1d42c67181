package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/otlp"
	"github.com/qwatch/qwatch/telemetry"
)

// telemetryGrace bounds how long the end waits for the receiver of telemetry.
const telemetryGrace = 10 * time.Second

// export starts what the configuration, or the OTEL_ variables, want sent to a receiver. Without any of
// it s.follow stays nil, and nothing is followed.
func (s *service) export() error {
	t := s.o.Config.Telemetry
	if t == nil {
		t = config.DefaultTelemetry()
	}
	cfg := otlp.Config{
		Endpoint: t.OTLP.Endpoint,
		Traces:   t.Traces != config.TracesOff,
		Metrics:  t.SemconvMetrics,
		Version:  s.o.Version,
		Logger:   s.log,
	}
	if t.PushAtExit {
		cfg.AtExit = prometheus.Gatherers{s.registry, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			return s.collector.Gather()
		})}
	}
	for _, h := range t.OTLP.Headers {
		if cfg.Headers == nil {
			cfg.Headers = make(map[string]string, len(t.OTLP.Headers))
		}
		cfg.Headers[h.Name] = h.Value.Reveal()
	}
	var err error
	if s.exporter, err = otlp.New(context.Background(), cfg); err != nil {
		return &ConfigError{fmt.Errorf("%s: %w", s.o.Config.At("telemetry"), err)}
	}
	traces, metrics := s.exporter.Traces(), s.exporter.Metrics()
	if traces == nil && metrics == nil {
		return nil
	}
	s.follow, err = telemetry.New(telemetry.Config{Traces: traces, All: t.Traces == config.TracesAll, Metrics: metrics})
	return err
}

// endTelemetry sends what is left to be sent.
func (s *service) endTelemetry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, telemetryGrace)
	defer cancel()
	return s.exporter.Shutdown(ctx)
}

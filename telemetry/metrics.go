package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics of the messaging conventions.
type instruments struct {
	sent, consumed    metric.Int64Counter
	process, duration metric.Float64Histogram
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var i instruments
	var errs [4]error
	// The conventions' own bounds, and above them what handlers of queues really take.
	buckets := metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900, 3600)
	i.sent, errs[0] = m.Int64Counter("messaging.client.sent.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Number of messages producer attempted to send to the broker."))
	i.consumed, errs[1] = m.Int64Counter("messaging.client.consumed.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Number of messages that were delivered to the application."))
	i.process, errs[2] = m.Float64Histogram("messaging.process.duration", metric.WithUnit("s"), buckets,
		metric.WithDescription("Duration of processing operation."))
	i.duration, errs[3] = m.Float64Histogram("messaging.client.operation.duration", metric.WithUnit("s"), buckets,
		metric.WithDescription("Duration of messaging operation initiated by a producer or consumer client."))
	return &i, errors.Join(errs[:]...)
}

// measured is what tells the series of a queue apart.
type measured struct {
	operation
	errorType string
}

// option returns the attributes of a series, made once for each.
func (l *labels) option(m measured) metric.MeasurementOption {
	if o, ok := l.sets.Load(m); ok {
		return o.(metric.MeasurementOption)
	}
	kvs := append(l.metric[:len(l.metric):len(l.metric)], keyOperationName.String(m.name), keyOperationType.String(m.kind))
	if m.errorType != "" {
		kvs = append(kvs, keyErrorType.String(m.errorType))
	}
	o, _ := l.sets.LoadOrStore(m, metric.WithAttributeSet(attribute.NewSet(kvs...)))
	return o.(metric.MeasurementOption)
}

// called records a call: how long it took, and the messages it moved.
func (i *instruments) called(ctx context.Context, l *labels, op operation, errType string, took time.Duration, received int) {
	o := l.option(measured{op, errType})
	i.duration.Record(ctx, took.Seconds(), o)
	switch op.kind {
	case "send":
		i.sent.Add(ctx, 1, o)
	case "receive":
		if received > 0 {
			i.consumed.Add(ctx, int64(received), o)
		}
	}
}

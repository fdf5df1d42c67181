package telemetry

import (
	"errors"
	"net/url"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/qwatch/qwatch/queue"
)

// Scope is the instrumentation scope of all that this package records.
const Scope = "github.com/qwatch/qwatch/telemetry"

// Config says what to tell, and whom. Nil providers are told nothing.
type Config struct {
	// Traces gets the spans.
	Traces trace.TracerProvider
	// All adds a span for each receive and each send to those of processing. Default false: they are many.
	All bool
	// Metrics gets the messaging conventions' metrics.
	Metrics metric.MeterProvider
}

// Telemetry follows queues and processors. It is safe for concurrent use, by any number of them.
type Telemetry struct {
	all     bool
	spans   bool
	tracer  trace.Tracer
	metrics *instruments // nil: off
	queues  sync.Map     // *queue.Queue → *labels
}

// New returns what follows queues and processors. Errors are those of the metric provider.
func New(cfg Config) (*Telemetry, error) {
	t := &Telemetry{all: cfg.All && cfg.Traces != nil, spans: cfg.Traces != nil}
	if cfg.Traces == nil {
		cfg.Traces = tracenoop.NewTracerProvider()
	}
	t.tracer = cfg.Traces.Tracer(Scope)
	if cfg.Metrics != nil {
		if _, off := cfg.Metrics.(metricnoop.MeterProvider); !off {
			var err error
			if t.metrics, err = newInstruments(cfg.Metrics.Meter(Scope)); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// The attributes of the messaging conventions that are used here, and qwatch's own.
const (
	keySystem        = attribute.Key("messaging.system")
	keyDestination   = attribute.Key("messaging.destination.name")
	keyOperationType = attribute.Key("messaging.operation.type")
	keyOperationName = attribute.Key("messaging.operation.name")
	keyMessageID     = attribute.Key("messaging.message.id")
	keyBatchCount    = attribute.Key("messaging.batch.message_count")
	keyServerAddress = attribute.Key("server.address")
	keyServerPort    = attribute.Key("server.port")
	keyErrorType     = attribute.Key("error.type")

	keyQueue        = attribute.Key("queue.name")
	keyQueueMessage = attribute.Key("queue.message_id")
	keyDequeueCount = attribute.Key("queue.dequeue_count")
	keyOutcome      = attribute.Key("queue.outcome")

	system = "azure.storage.queue"
)

// labels are the attributes of a queue.
type labels struct {
	metric []attribute.KeyValue // the conventions' alone
	span   []attribute.KeyValue // with qwatch's own
	sets   sync.Map             // measured → attribute.Set
}

// labelsOf returns the attributes of a queue, made once.
func (t *Telemetry) labelsOf(q *queue.Queue) *labels {
	if l, ok := t.queues.Load(q); ok {
		return l.(*labels)
	}
	base := []attribute.KeyValue{keySystem.String(system), keyDestination.String(q.Name())}
	if u, err := url.Parse(q.Account().URL()); err == nil {
		base = append(base, keyServerAddress.String(u.Hostname()))
		port := 443
		if u.Scheme == "http" {
			port = 80
		}
		if n, err := strconv.Atoi(u.Port()); err == nil {
			port = n
		}
		base = append(base, keyServerPort.Int(port))
	}
	l, _ := t.queues.LoadOrStore(q, &labels{metric: base[:len(base):len(base)], span: append(base[:len(base):len(base)], keyQueue.String(q.Name()))})
	return l.(*labels)
}

// operation is what is done, as the conventions tell it.
type operation struct{ name, kind string }

// operationOf names a call. Renewals are no operation of the conventions.
func operationOf(k queue.CallKind) (op operation, ok bool) {
	switch k {
	case queue.CallSend:
		return operation{"send", "send"}, true
	case queue.CallReceive:
		return operation{"receive", "receive"}, true
	case queue.CallComplete, queue.CallAbandon, queue.CallDeadLetter:
		return operation{k.String(), "settle"}, true
	default:
		return operation{}, false
	}
}

// errorType is the kind of a storage call's failure, or "".
func errorType(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, queue.ErrLeaseLost):
		return "lease_lost"
	case errors.Is(err, queue.ErrSettled):
		return "settled"
	case errors.Is(err, queue.ErrTooLarge):
		return "too_large"
	default:
		return string(queue.Classify(err))
	}
}

package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

var _ processor.Tracer = (*Telemetry)(nil)

// Start implements processor.Tracer.
func (t *Telemetry) Start(ctx context.Context, messages []*processor.Message) (context.Context, func(processor.Ending)) {
	op := operation{"process", "process"}
	q := messages[0].Queue()
	began := time.Now()
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(t.labelsOf(q).span...),
		trace.WithAttributes(keyOperationName.String(op.name), keyOperationType.String(op.kind)),
	}
	for _, m := range messages {
		if sender := senderOf(m.Message); sender.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: sender}))
		}
	}
	parent := ctx
	if len(messages) == 1 {
		m := messages[0]
		opts = append(opts, trace.WithAttributes(keyMessageID.String(m.ID), keyQueueMessage.String(m.ID), keyDequeueCount.Int(m.DequeueCount)))
		parent = trace.ContextWithRemoteSpanContext(ctx, senderOf(m.Message))
	} else {
		opts = append(opts, trace.WithAttributes(keyBatchCount.Int(len(messages))), trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(parent, "Queue.Process", opts...)
	if span.IsRecording() {
		watch(span, messages)
	}
	if t.spans {
		ctx = carry(ctx)
	}
	var once sync.Once
	return ctx, func(e processor.Ending) {
		once.Do(func() {
			if t.metrics != nil {
				t.metrics.process.Record(ctx, time.Since(began).Seconds(), t.labelsOf(q).option(measured{op, e.ErrorType}))
			}
			for _, m := range messages {
				m.Watch(nil) // a goroutine that the handler left behind may settle later
			}
			span.SetAttributes(keyOutcome.String(e.Outcome))
			if e.ErrorType != "" {
				span.SetAttributes(keyErrorType.String(e.ErrorType))
				span.SetStatus(codes.Error, e.Reason)
			}
			span.End()
		})
	}
}

// watch adds an event to the span for what is done with its messages.
func watch(span trace.Span, messages []*processor.Message) {
	for _, m := range messages {
		m.Watch(func(s queue.Settlement) {
			name := "renewed"
			if s != queue.Unsettled {
				name = s.String()
			}
			if len(messages) == 1 {
				span.AddEvent(name)
				return
			}
			span.AddEvent(name, trace.WithAttributes(keyMessageID.String(m.ID)))
		})
	}
}

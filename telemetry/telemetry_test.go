package telemetry_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/telemetry"
)

// rig is the queue "orders", followed, in a bubble of fake time.
type rig struct {
	t     *testing.T
	srv   *queuetest.Server
	q     *queue.Queue
	spans *tracetest.SpanRecorder
	read  *sdkmetric.ManualReader
	tel   *telemetry.Telemetry
	trace trace.Tracer // another library's
}

func bubble(t *testing.T, all bool, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, srv: queuetest.New(queuetest.Options{}), spans: tracetest.NewSpanRecorder(), read: sdkmetric.NewManualReader()}
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
		r.trace = tp.Tracer("test")
		var err error
		r.tel, err = telemetry.New(telemetry.Config{Traces: tp, All: all, Metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.read))})
		if err != nil {
			t.Fatal(err)
		}
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: r.srv})
		if err != nil {
			t.Fatal(err)
		}
		if r.q, err = acct.Queue("orders", queue.Config{CreateIfMissing: true, PropagateTraceContext: true, Tracer: r.tel}); err != nil {
			t.Fatal(err)
		}
		test(t, r)
	})
}

// exemplar is the trace id at the histogram of processing duration.
func exemplar(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "queue_message_processing_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					if l.GetName() == "trace_id" {
						return l.GetValue()
					}
				}
			}
		}
	}
	return ""
}

func TestExemplarsPointAtTheSpansTrace(t *testing.T) {
	bubble(t, false, func(t *testing.T, r *rig) {
		if _, err := r.q.SendText(t.Context(), "x", queue.SendOptions{}); err != nil { // of no trace
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		r.run(time.Second, processor.Config{Metrics: processor.NewMetrics(reg, processor.MetricsOptions{})}, func(context.Context, *processor.Message) error { return nil })
		if got, want := exemplar(t, reg), r.named("Queue.Process")[0].SpanContext().TraceID().String(); got != want {
			t.Errorf("the exemplar's trace is %q, want the span's, %s", got, want)
		}
	})
}

// run processes for a while.
func (r *rig) run(d time.Duration, cfg processor.Config, handle processor.HandlerFunc) {
	r.t.Helper()
	cfg.Tracer = r.tel
	p, err := processor.New(r.q, handle, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(r.t.Context(), d)
	defer stop()
	if err := p.Run(ctx); err != nil {
		r.t.Error(err)
	}
}

// span is what a test compares of a span.
type span struct {
	Name   string
	Kind   trace.SpanKind
	Attrs  map[string]any
	Events []string
	Status string
	Links  int
}

func spanOf(s sdktrace.ReadOnlySpan) span {
	out := span{Name: s.Name(), Kind: s.SpanKind(), Attrs: attrs(s.Attributes()), Links: len(s.Links())}
	for _, e := range s.Events() {
		out.Events = append(out.Events, e.Name)
	}
	if s.Status().Code == codes.Error {
		out.Status = s.Status().Description
	}
	return out
}

func attrs(kvs []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range kvs {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// named returns the ended spans of a name.
func (r *rig) named(name string) (list []sdktrace.ReadOnlySpan) {
	for _, s := range r.spans.Ended() {
		if s.Name() == name {
			list = append(list, s)
		}
	}
	return list
}

// messaging are the attributes that every span here has, with more.
func messaging(name, kind string, more map[string]any) map[string]any {
	m := map[string]any{
		"messaging.system": "azure.storage.queue", "messaging.destination.name": "orders",
		"messaging.operation.name": name, "messaging.operation.type": kind,
		"server.address": "127.0.0.1", "server.port": int64(10001), "queue.name": "orders",
	}
	maps.Copy(m, more)
	return m
}

func TestAProcessedMessageIsASpanOfItsSendersTrace(t *testing.T) {
	bubble(t, false, func(t *testing.T, r *rig) {
		ctx, sender := r.trace.Start(t.Context(), "checkout")
		sent, err := r.q.Send(ctx, "x", queue.SendOptions{})
		sender.End()
		if err != nil {
			t.Fatal(err)
		}
		var inside, onward trace.SpanContext
		r.run(10*time.Second, processor.Config{VisibilityTimeout: 4 * time.Second}, func(ctx context.Context, m *processor.Message) error {
			if onward.IsValid() || string(m.Body) != "x" {
				onward = remote(m.TraceParent)
				return nil
			}
			inside = trace.SpanContextFromContext(ctx)
			time.Sleep(3 * time.Second) // renewed at half of the lease
			_, err := r.q.Send(ctx, "y", queue.SendOptions{})
			return err
		})
		all := r.named("Queue.Process")
		if len(all) != 2 {
			t.Fatalf("%d spans of processing", len(all))
		}
		if spanOf(all[0]).Attrs["queue.message_id"] != sent.ID {
			slices.Reverse(all) // the message that was sent on was done first
		}
		s := all[0]
		want := span{
			Name: "Queue.Process", Kind: trace.SpanKindConsumer, Links: 1, Events: []string{"renewed", "completed"},
			Attrs: messaging("process", "process", map[string]any{
				"messaging.message.id": sent.ID, "queue.message_id": sent.ID, "queue.dequeue_count": int64(1), "queue.outcome": "completed",
			}),
		}
		if diff := cmp.Diff(want, spanOf(s)); diff != "" {
			t.Error(diff)
		}
		if got := s.Parent(); got.SpanID() != sender.SpanContext().SpanID() || s.SpanContext().TraceID() != sender.SpanContext().TraceID() {
			t.Errorf("parent %v, want the sender's span %v", got, sender.SpanContext())
		}
		if got := s.Links()[0].SpanContext; got.SpanID() != sender.SpanContext().SpanID() {
			t.Errorf("linked to %v, want the sender's span", got)
		}
		if !inside.Equal(s.SpanContext()) {
			t.Error("the handler's context does not carry the span")
		}
		if onward.SpanID() != s.SpanContext().SpanID() {
			t.Errorf("what the handler sent carries %v, want the span of processing %v", onward, s.SpanContext())
		}
		if n := len(r.spans.Started()); n != 3 {
			t.Errorf("%d spans started, want the sender's and two of processing", n)
		}
	})
}

func remote(traceparent string) trace.SpanContext {
	id, _ := trace.TraceIDFromHex(traceparent[3:35])
	s, _ := trace.SpanIDFromHex(traceparent[36:52])
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: s})
}

func TestASpanTellsHowItsMessageFailed(t *testing.T) {
	bubble(t, false, func(t *testing.T, r *rig) {
		if _, err := r.q.SendText(t.Context(), `{"$azqs-envelope":1,"traceparent":"not one","body":1}`, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		r.run(time.Minute, processor.Config{MaxDequeueCount: 2}, func(context.Context, *processor.Message) error { return errors.New("the widget is broken") })
		var got []span
		for _, s := range r.named("Queue.Process") {
			sp := spanOf(s)
			delete(sp.Attrs, "messaging.message.id")
			delete(sp.Attrs, "queue.message_id")
			got = append(got, sp)
		}
		want := []span{
			{
				Name: "Queue.Process", Kind: trace.SpanKindConsumer, Status: "the widget is broken", Events: []string{"abandoned"},
				Attrs: messaging("process", "process", map[string]any{"queue.dequeue_count": int64(1), "queue.outcome": "abandoned", "error.type": "handler"}),
			},
			{
				Name: "Queue.Process", Kind: trace.SpanKindConsumer, Status: "the widget is broken", Events: []string{"dead_lettered"},
				Attrs: messaging("process", "process", map[string]any{"queue.dequeue_count": int64(2), "queue.outcome": "dead_lettered", "error.type": "handler"}),
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReceivesAndSendsAreSpansOnRequest(t *testing.T) {
	bubble(t, true, func(t *testing.T, r *rig) {
		sent, err := r.q.Send(t.Context(), "x", queue.SendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ms, err := r.q.Receive(t.Context(), 32, time.Minute)
		if err != nil || len(ms) != 1 {
			t.Fatal(len(ms), err)
		}
		send := r.named("Queue.Send")[0]
		if got := remote(ms[0].TraceParent); got.SpanID() != send.SpanContext().SpanID() {
			t.Errorf("the message carries %v, want the send's own span", got)
		}
		r.srv.Inject(queuetest.Fault{Operation: "receive", Times: 1, Status: 403, Code: "AuthorizationFailure"})
		if _, err := r.q.Receive(t.Context(), 1, time.Minute); err == nil {
			t.Fatal("no error")
		}
		id := map[string]any{"messaging.message.id": sent.ID, "queue.message_id": sent.ID}
		var got []span
		for _, s := range r.spans.Ended() {
			got = append(got, spanOf(s))
		}
		read := messaging("receive", "receive", id)
		read["messaging.batch.message_count"] = int64(1)
		want := []span{
			{Name: "Queue.Send", Kind: trace.SpanKindProducer, Attrs: messaging("send", "send", id)},
			{Name: "Queue.Read", Kind: trace.SpanKindClient, Attrs: read, Links: 1},
			{
				Name: "Queue.Read", Kind: trace.SpanKindClient, Status: "auth",
				Attrs: messaging("receive", "receive", map[string]any{"messaging.batch.message_count": int64(0), "error.type": "auth"}),
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheConventionsMetrics(t *testing.T) {
	bubble(t, false, func(t *testing.T, r *rig) {
		for range 3 {
			if _, err := r.q.Send(t.Context(), "x", queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		calls := 0
		r.run(2*time.Second, processor.Config{}, func(context.Context, *processor.Message) error {
			if calls++; calls == 2 {
				return errors.New("broken")
			}
			return nil
		})
		var all metricdata.ResourceMetrics
		if err := r.read.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		counts, units := map[string]int64{}, map[string]string{}
		add := func(name string, set attribute.Set, n int64) {
			a := attrs(set.ToSlice())
			if a["messaging.system"] != "azure.storage.queue" || a["messaging.destination.name"] != "orders" || a["server.address"] == nil || a["server.port"] == nil {
				t.Errorf("%s lacks attributes: %v", name, a)
			}
			key := name + " " + a["messaging.operation.type"].(string) + "/" + a["messaging.operation.name"].(string)
			if e := a["error.type"]; e != nil {
				key += " " + e.(string)
			}
			counts[key] += n
		}
		for _, m := range all.ScopeMetrics[0].Metrics {
			units[m.Name] = m.Unit
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, int64(p.Count))
				}
			}
		}
		wantUnits := map[string]string{
			messagingconv.ClientSentMessages{}.Name():      messagingconv.ClientSentMessages{}.Unit(),
			messagingconv.ClientConsumedMessages{}.Name():  messagingconv.ClientConsumedMessages{}.Unit(),
			messagingconv.ProcessDuration{}.Name():         messagingconv.ProcessDuration{}.Unit(),
			messagingconv.ClientOperationDuration{}.Name(): messagingconv.ClientOperationDuration{}.Unit(),
		}
		if diff := cmp.Diff(wantUnits, units); diff != "" {
			t.Errorf("names and units: %s", diff)
		}
		const receives = "messaging.client.operation.duration receive/receive"
		if counts[receives] < 4 { // three messages, and at least one empty queue
			t.Errorf("%d receives", counts[receives])
		}
		delete(counts, receives)
		want := map[string]int64{
			"messaging.client.sent.messages send/send":            3,
			"messaging.client.consumed.messages receive/receive":  3,
			"messaging.process.duration process/process":          2,
			"messaging.process.duration process/process handler":  1,
			"messaging.client.operation.duration send/send":       3,
			"messaging.client.operation.duration settle/complete": 2,
			"messaging.client.operation.duration settle/abandon":  1,
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBatchesAreOneSpanLinkedToEverySender(t *testing.T) {
	bubble(t, false, func(t *testing.T, r *rig) {
		var senders []trace.TraceID
		for range 2 {
			ctx, s := r.trace.Start(t.Context(), "checkout")
			if _, err := r.q.Send(ctx, "x", queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
			s.End()
			senders = append(senders, s.SpanContext().TraceID())
		}
		ms, err := r.q.Receive(t.Context(), 2, time.Minute)
		if err != nil || len(ms) != 2 {
			t.Fatal(len(ms), err)
		}
		_, end := r.tel.Start(t.Context(), []*processor.Message{{Message: ms[0]}, {Message: ms[1]}})
		for _, m := range ms {
			if err := m.Complete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		end(processor.Ending{Outcome: "completed"})
		s := r.named("Queue.Process")[0]
		want := span{
			Name: "Queue.Process", Kind: trace.SpanKindConsumer, Links: 2, Events: []string{"completed", "completed"},
			Attrs: messaging("process", "process", map[string]any{"messaging.batch.message_count": int64(2), "queue.outcome": "completed"}),
		}
		if diff := cmp.Diff(want, spanOf(s)); diff != "" {
			t.Error(diff)
		}
		if s.Parent().IsValid() || slices.Contains(senders, s.SpanContext().TraceID()) {
			t.Error("a batch's span is one of a sender's trace")
		}
		for i, l := range s.Links() {
			if l.SpanContext.TraceID() != senders[i] {
				t.Errorf("link %d leads to %v", i, l.SpanContext)
			}
		}
	})
}

func TestWithoutProvidersNothingIsTold(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	got, end := tel.Begin(ctx, queue.Call{Kind: queue.CallSend})
	end(queue.Call{}, nil)
	if got != ctx {
		t.Error("the context was replaced")
	}
}

// The copy on the poison queue is sent within the span of what was processed, and carries what the message did.
func TestAPoisonCopyIsSentWithinTheSpanOfItsMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		run     func(r *rig)
		batched bool
	}{
		"after the handler":  {func(r *rig) { r.run(time.Second, processor.Config{}, refuse) }, false},
		"before the handler": {func(r *rig) { r.run(time.Second, processor.Config{MaxAge: time.Second}, refuse) }, false},
		"of a batch": {func(r *rig) {
			cfg := processor.BatchConfig{MaxBatchSize: 8}
			cfg.Tracer = r.tel
			p, err := processor.NewBatch(r.q, processor.BatchHandlerFunc(func(context.Context, []*processor.Message) error {
				return processor.Permanent(errors.New("the widget is broken"))
			}), cfg)
			if err != nil {
				r.t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(r.t.Context(), time.Second)
			defer stop()
			if err := p.Run(ctx); err != nil {
				r.t.Error(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, true, func(t *testing.T, r *rig) {
				ctx, sender := r.trace.Start(t.Context(), "checkout")
				for range 2 {
					if _, err := r.q.Send(ctx, "x", queue.SendOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				sender.End()
				sent := len(r.named("Queue.Send"))
				time.Sleep(2 * time.Second)
				tt.run(r)
				processes, copies := r.named("Queue.Process"), r.named("Queue.Send")[sent:]
				if len(copies) != 2 || len(processes) != 2 && !tt.batched {
					t.Fatalf("%d copies, %d spans of processing", len(copies), len(processes))
				}
				parents := map[trace.SpanID]bool{}
				for _, p := range processes {
					parents[p.SpanContext().SpanID()] = true
				}
				for _, c := range copies {
					if !parents[c.Parent().SpanID()] {
						t.Errorf("a copy's span has the parent %v, want a span of processing", c.Parent())
					}
					if to := spanOf(c).Attrs["messaging.destination.name"]; to != "orders-poison" {
						t.Errorf("a copy was sent to %v", to)
					}
				}
				peeked, err := r.q.Poison().Peek(t.Context(), 32)
				if err != nil || len(peeked.Messages) != 2 {
					t.Fatal(len(peeked.Messages), err)
				}
				for _, m := range peeked.Messages {
					if got := remote(m.TraceParent).TraceID(); got != sender.SpanContext().TraceID() {
						t.Errorf("a copy carries %v, want what its message did", got)
					}
				}
			})
		})
	}
}

func refuse(context.Context, *processor.Message) error {
	return processor.Permanent(errors.New("the widget is broken"))
}

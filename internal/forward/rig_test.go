package forward_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What must never be seen in an error.
const (
	bodySecret   = "b0dy-s3cret"
	answerSecret = "answer-s3cret"
	urlSecret    = "url-s3cret"
)

// The outcomes of a delivery.
const (
	completed    = "complete"
	deadLettered = "dead-letter"
	retried      = "retry"
)

// delivery is what became of one message.
type delivery struct {
	Outcome  string
	Err      error         // what the handler returned
	Reason   string        // of the poison record
	Category string        // of the poison record, or of the retry
	Delay    time.Duration // before the next attempt
	Took     time.Duration // the handler
}

// options of a delivery.
type options struct {
	body      string
	headers   map[string]string
	text      string // the wire text, in place of body and headers
	trace     queue.TraceContext
	deliver   int  // deliveries allowed; default 5
	cancelled bool // shut down as soon as the handler runs
}

// deliver sends a message to an in-process queue service and has a processor hand it to the handler, once.
func deliver(t *testing.T, h processor.Handler, o options) delivery {
	t.Helper()
	srv := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "shop", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	cfg := queue.Config{PropagateTraceContext: true}
	if !utf8.ValidString(o.body) {
		cfg.Encoding = queue.EncodingBase64
	}
	q, err := account.Queue("orders", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.text != "" {
		_, err = q.SendText(t.Context(), o.text, queue.SendOptions{})
	} else {
		ctx := queue.ContextWithTrace(t.Context(), o.trace)
		_, err = q.Send(ctx, []byte(o.body), queue.SendOptions{Headers: o.headers})
	}
	if err != nil {
		t.Fatal(err)
	}

	var d delivery
	started, returned := make(chan struct{}, 1), make(chan struct{})
	reg := prometheus.NewRegistry()
	p, err := processor.New(q, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		defer close(returned)
		started <- struct{}{}
		began := time.Now()
		d.Err = h.Handle(ctx, m)
		d.Took = time.Since(began)
		return d.Err
	}), processor.Config{
		MaxDequeueCount: o.deliver,
		Retry:           processor.RetryConfig{Initial: 100 * time.Second, Max: 100 * time.Second, Jitter: processor.Off},
		DrainTimeout:    map[bool]time.Duration{true: processor.Off}[o.cancelled],
		Metrics:         processor.NewMetrics(reg, processor.MetricsOptions{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	select {
	case <-started:
	case <-time.After(10 * time.Second):
		t.Fatal("the message was not delivered")
	}
	if !o.cancelled {
		<-returned
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-returned

	switch left := srv.Messages(queuetest.AccountName, "orders"); {
	case len(left) > 0:
		d.Outcome, d.Category = retried, retryCategory(t, reg)
		d.Delay = time.Until(left[0].VisibleAt).Round(5 * time.Second)
	case srv.Len(queuetest.AccountName, "orders-poison") > 0:
		peeked, err := q.Poison().Peek(t.Context(), 1)
		if err != nil || peeked.Messages[0].Record == nil {
			t.Fatalf("poison queue: %v", err)
		}
		record := peeked.Messages[0].Record
		d.Outcome, d.Reason, d.Category = deadLettered, record.Reason, record.Category
	default:
		d.Outcome = completed
	}
	return d
}

func retryCategory(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "queue_message_retries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "category" && m.GetCounter().GetValue() > 0 {
					return l.GetValue()
				}
			}
		}
	}
	return ""
}

// post returns a handler that posts to a server, and closes it with the test.
func post(t *testing.T, cfg forward.HTTPConfig) processor.Handler {
	t.Helper()
	h, err := forward.HTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// serve starts a server with a handler function; it ends with the test.
func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return srv.URL
}

// received returns a message that was received, for calling a handler without a processor.
func received(t *testing.T) *processor.Message {
	t.Helper()
	srv := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "shop", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	q, err := account.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.SendText(t.Context(), `{"n":1}`, queue.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	messages, err := q.Receive(t.Context(), 1, 0)
	if err != nil || len(messages) != 1 {
		t.Fatalf("received %d messages: %v", len(messages), err)
	}
	return &processor.Message{Message: messages[0]}
}

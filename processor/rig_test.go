package processor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// account is the label under which tests know the account.
const account = "acct"

// rig is an in-process service with the queue "orders" and its poison queue, in a bubble of fake time.
type rig struct {
	t      *testing.T
	srv    *queuetest.Server
	acct   *queue.Account
	q      *queue.Queue
	reg    *prometheus.Registry
	logs   *logBuffer
	logger *slog.Logger
	calls  *calls
}

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRig(t, queue.Config{})) })
}

func newRig(t *testing.T, cfg queue.Config) *rig {
	t.Helper()
	r := &rig{t: t, srv: queuetest.New(queuetest.Options{}), reg: prometheus.NewRegistry(), logs: &logBuffer{}, calls: &calls{}}
	r.logger = slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.acct, err = queue.NewAccount(queue.AccountConfig{Name: account, ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: r.srv})
	if err != nil {
		t.Fatal(err)
	}
	if r.q, err = r.acct.Queue("orders", cfg); err != nil {
		t.Fatal(err)
	}
	if err := r.q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) send(bodies ...any) {
	r.t.Helper()
	for _, b := range bodies {
		if _, err := r.q.Send(r.t.Context(), b, queue.SendOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// running is a processor under way.
type running struct {
	*processor.Processor
	stop context.CancelFunc
	done chan error // Run's result
}

func (r *rig) start(cfg processor.Config, h processor.Handler) *running {
	r.t.Helper()
	return r.startOn(r.q, cfg, h)
}

func (r *rig) startOn(q *queue.Queue, cfg processor.Config, h processor.Handler) *running {
	r.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = r.logger
	}
	cfg.Metrics = processor.NewMetrics(r.reg, processor.MetricsOptions{})
	p, err := processor.New(q, h, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	run := &running{p, stop, make(chan error, 1)}
	go func() { run.done <- p.Run(ctx) }()
	return run
}

// end stops the processor and waits for it.
func (r *rig) end(run *running) {
	r.t.Helper()
	run.stop()
	if err := <-run.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

// runFor runs a processor for a while, and shuts it down.
func (r *rig) runFor(d time.Duration, cfg processor.Config, h processor.Handler) {
	r.t.Helper()
	run := r.start(cfg, h)
	time.Sleep(d)
	r.end(run)
}

// calls records handler calls.
type calls struct {
	mu  sync.Mutex
	all []call
}

type call struct {
	id      string
	body    string
	attempt int
	at      time.Time
}

func (c *calls) note(m *processor.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call{m.ID, string(m.Body), m.Attempt(), time.Now()})
}

func (c *calls) list() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]call(nil), c.all...)
}

func (c *calls) count() int { return len(c.list()) }

// handle notes the call, then does what f does.
func (r *rig) handle(f func(ctx context.Context, m *processor.Message) error) processor.Handler {
	return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		r.calls.note(m)
		return f(ctx, m)
	})
}

func succeed(context.Context, *processor.Message) error { return nil }

var errBroken = errors.New("the widget is broken")

func fail(context.Context, *processor.Message) error { return errBroken }

// takes is a handler that needs a while, unless it is cancelled.
func takes(d time.Duration) func(context.Context, *processor.Message) error {
	return func(ctx context.Context, _ *processor.Message) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// left checks how many messages lie on the queue and its poison queue.
func (r *rig) left(main, poison int) {
	r.t.Helper()
	if got := r.srv.Len(queuetest.AccountName, "orders"); got != main {
		r.t.Errorf("%d messages left on the queue, want %d", got, main)
	}
	if got := r.srv.Len(queuetest.AccountName, "orders-poison"); got != poison {
		r.t.Errorf("%d messages on the poison queue, want %d", got, poison)
	}
}

// poisoned reads the records on the poison queue.
func (r *rig) poisoned() []queue.Record {
	r.t.Helper()
	peeked, err := r.q.Poison().Peek(r.t.Context(), 32)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []queue.Record
	for _, m := range peeked.Messages {
		if m.Record == nil {
			r.t.Errorf("message %s on the poison queue has no record", m.ID)
			continue
		}
		all = append(all, *m.Record)
	}
	return all
}

func (r *rig) requests(op queuetest.Operation) int {
	return r.srv.Requests(queuetest.Op{Queue: "orders", Operation: op})
}

func (r *rig) inject(f queuetest.Fault) (remove func()) {
	if f.Queue == "" {
		f.Queue = "orders"
	}
	return r.srv.Inject(f)
}

// metric reads a counter or gauge, or a histogram's count; labels are name, value pairs.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	want := map[string]string{"account": account, "queue_name": "orders"}
	for i := 0; i < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			if maps.Equal(got, want) {
				switch {
				case m.Counter != nil:
					return m.Counter.GetValue()
				case m.Gauge != nil:
					return m.Gauge.GetValue()
				case m.Histogram != nil:
					return float64(m.Histogram.GetSampleCount())
				}
			}
		}
	}
	r.t.Fatalf("no series %s%v", name, want)
	return 0
}

// counted checks metrics: keys are "name" or "name{label=value}".
func (r *rig) counted(want map[string]float64) {
	r.t.Helper()
	for key, v := range want {
		name, label, has := strings.Cut(strings.TrimSuffix(key, "}"), "{")
		var labels []string
		if has {
			l, value, _ := strings.Cut(label, "=")
			labels = []string{l, value}
		}
		if got := r.metric(name, labels...); got != v {
			r.t.Errorf("%s is %v, want %v", key, got, v)
		}
	}
}

// logBuffer keeps JSON log lines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type line map[string]any

// find returns the log lines with the message.
func (b *logBuffer) find(message string) []line {
	var found []line
	for s := range strings.Lines(b.String()) {
		var l line
		if json.Unmarshal([]byte(s), &l) == nil && l["msg"] == message {
			found = append(found, l)
		}
	}
	return found
}

// logged checks that the message was logged so many times, and returns the lines.
func (r *rig) logged(message string, times int) []line {
	r.t.Helper()
	found := r.logs.find(message)
	if len(found) != times {
		r.t.Errorf("%q was logged %d times, want %d; log:\n%s", message, len(found), times, r.logs)
	}
	return found
}

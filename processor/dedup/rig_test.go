package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// secret is in every business key of these tests and nowhere else.
const secret = "op-7f3a91c5"

var errBroken = errors.New("the widget is broken")

// rig is an in-process queue service with two queues, in a bubble of fake time.
type rig struct {
	t        *testing.T
	srv      *queuetest.Server
	q, other *queue.Queue
	reg      *prometheus.Registry
	logs     *logBuffer
}

func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, srv: queuetest.New(queuetest.Options{}), reg: prometheus.NewRegistry(), logs: &logBuffer{}}
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: r.srv})
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]**queue.Queue{"orders": &r.q, "refunds": &r.other} {
			if *q, err = acct.Queue(name, queue.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := (*q).Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		test(t, r)
	})
}

// payment is what the messages carry.
type payment struct {
	Operation string
	Cents     int
}

// Validate refuses a negative amount.
func (p payment) Validate() error {
	if p.Cents < 0 {
		return errors.New("negative amount")
	}
	return nil
}

func byOperation(p payment) string { return p.Operation }

func (r *rig) send(q *queue.Queue, bodies ...any) {
	r.t.Helper()
	for _, b := range bodies {
		if _, err := q.Send(r.t.Context(), b, queue.SendOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// run has a processor consume a queue for a while.
func (r *rig) run(q *queue.Queue, d time.Duration, cfg processor.Config, h processor.Handler) {
	r.t.Helper()
	cfg.Logger = slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Metrics = processor.NewMetrics(r.reg, processor.MetricsOptions{})
	p, err := processor.New(q, h, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(r.t.Context(), d)
	defer stop()
	if err := p.Run(ctx); err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *rig) left(q *queue.Queue) int { return r.srv.Len(queuetest.AccountName, q.Name()) }

// poisoned reads the records on the poison queue of orders.
func (r *rig) poisoned() []queue.Record {
	r.t.Helper()
	if r.srv.Len(queuetest.AccountName, "orders-poison") <= 0 {
		return nil
	}
	peeked, err := r.q.Poison().Peek(r.t.Context(), 32)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []queue.Record
	for _, m := range peeked.Messages {
		all = append(all, *m.Record)
	}
	return all
}

// counted checks lookups and hits on the queue of orders.
func (r *rig) counted(lookups, hits float64) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "queue_name" && l.GetValue() == "orders" {
					got[f.GetName()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	if l, h := got["queue_dedup_lookups_total"], got["queue_dedup_hits_total"]; l != lookups || h != hits {
		r.t.Errorf("%v lookups and %v hits, want %v and %v", l, h, lookups, hits)
	}
}

// secretive checks that no business key is in a log, a metric or a poison record.
func (r *rig) secretive() {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		text.WriteString(f.String())
	}
	for _, rec := range r.poisoned() {
		text.WriteString(rec.Reason)
	}
	text.WriteString(r.logs.String())
	if bytes.Contains(text.Bytes(), []byte(secret)) {
		r.t.Errorf("a business key leaked:\n%s", text.String())
	}
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// counter counts calls.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *counter) is(t *testing.T, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n != want {
		t.Errorf("the handler did its work %d times, want %d", c.n, want)
	}
}

// does is a handler that counts and then does what f does.
func (c *counter) does(f func(ctx context.Context, m *processor.Message, call int) error) processor.Handler {
	return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return f(ctx, m, c.add()) })
}

func succeed(context.Context, *processor.Message, int) error { return nil }

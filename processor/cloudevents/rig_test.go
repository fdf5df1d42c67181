package cloudevents_test

import (
	"context"
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// rig is the queue "events" of an in-process service, in a bubble of fake time.
type rig struct {
	t   *testing.T
	srv *queuetest.Server
	q   *queue.Queue
	reg *prometheus.Registry
}

func bubble(t *testing.T, cfg queue.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, srv: queuetest.New(queuetest.Options{}), reg: prometheus.NewRegistry()}
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: r.srv})
		if err != nil {
			t.Fatal(err)
		}
		cfg.CreateIfMissing = true
		if r.q, err = acct.Queue("events", cfg); err != nil {
			t.Fatal(err)
		}
		test(t, r)
	})
}

// deliver puts a text on the queue as Event Grid would, and runs a processor for a while.
func (r *rig) deliver(h processor.Handler, cfg processor.Config, bodies ...string) {
	r.t.Helper()
	for _, b := range bodies {
		if r.q.Config().Encoding == queue.EncodingBase64 {
			b = base64.StdEncoding.EncodeToString([]byte(b))
		}
		if _, err := r.q.SendText(r.t.Context(), b, queue.SendOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	cfg.Metrics = processor.NewMetrics(r.reg, processor.MetricsOptions{})
	p, err := processor.New(r.q, h, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(r.t.Context(), time.Second)
	defer stop()
	if err := p.Run(ctx); err != nil {
		r.t.Error(err)
	}
}

// left checks how many messages lie on the queue, and returns the records on its poison queue.
func (r *rig) left(main, poisoned int) []queue.Record {
	r.t.Helper()
	if got := r.srv.Len(queuetest.AccountName, "events"); got != main {
		r.t.Errorf("%d messages left on the queue, want %d", got, main)
	}
	if got := r.srv.Len(queuetest.AccountName, "events-poison"); got != poisoned {
		r.t.Fatalf("%d messages on the poison queue, want %d", got, poisoned)
	}
	if poisoned == 0 {
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

// failed is how many failures of handlers were counted.
func (r *rig) failed() (n float64) {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "queue_messages_failed_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

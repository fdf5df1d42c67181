package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// check is one thing that is rehearsed.
type check struct {
	name, expects string
	run           func(context.Context, stage) (saw string, err error)
}

func checks() []check {
	return []check{
		{"redelivery", "a message whose worker crashed is back after its visibility timeout, not before, and counts the delivery", redelivery},
		{"renewal", "a renewed message stays hidden past its first timeout, and has another pop receipt", renewal},
		{"quarantine", "a message that always fails is moved to the poison queue after the allowed deliveries, not before, and leaves its queue", quarantine},
		{"observability", "retries and quarantine show in the metrics and in the poison queue's depth", observability},
		{"crash before the work", "a worker that dies before its durable operation loses nothing: the next does it, once", crashBefore},
		{"crash after the commit", "a worker that dies between commit and delete has its message delivered again, and its operation key recognised", crashAfter},
		{"crash during a renewal", "a worker that dies after renewing has its message back when the longer lease lapses", crashRenewing},
		{"two consumers, one key", "two consumers that meet the same operation key at the same time do its work once", twoConsumers},
		{"unfinished work", "a message in a dead worker's hands is still counted, and its age goes on", unfinished},
	}
}

// stage is what a check works on.
type stage struct {
	q *queue.Queue
	Options
}

// send puts one message on the queue.
func (s stage) send(ctx context.Context, body string) error {
	_, err := s.q.Send(ctx, body, queue.SendOptions{})
	return err
}

// take receives the message that must be there.
func (s stage) take(ctx context.Context) (*queue.Message, error) {
	ms, err := s.q.Receive(ctx, 1, s.Lease)
	if err == nil && len(ms) != 1 {
		err = errors.New("the message cannot be received, though nobody has it")
	}
	if err != nil {
		return nil, err
	}
	return ms[0], nil
}

// poll is how often a hidden message is looked for.
const poll = 100 * time.Millisecond

// slack is what the service's clock, in whole seconds, and the way to it may cost.
const slack = 1500 * time.Millisecond

// comesBack waits for the message to be receivable again: at the due time, not before.
func (s stage) comesBack(ctx context.Context, due time.Time) (*queue.Message, time.Duration, error) {
	for {
		asked := time.Now()
		ms, err := s.q.Receive(ctx, 1, s.Lease)
		switch {
		case err != nil:
			return nil, 0, err
		case len(ms) == 1 && time.Until(due) > slack:
			return nil, 0, fmt.Errorf("it was back %v before its visibility timeout", time.Until(due).Round(time.Millisecond))
		case len(ms) == 1:
			return ms[0], asked.Sub(due), nil
		case asked.Sub(due) > 10*time.Second:
			return nil, 0, errors.New("it is not back 10s after its visibility timeout")
		}
		if err := wait(ctx, poll); err != nil {
			return nil, 0, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func redelivery(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "redelivery"); err != nil {
		return "", err
	}
	first, err := s.take(ctx)
	if err != nil {
		return "", err
	}
	again, late, err := s.comesBack(ctx, first.LeaseExpires()) // the worker is gone
	if err != nil {
		return "", err
	}
	if first.DequeueCount != 1 || again.DequeueCount != 2 || again.ID != first.ID {
		return "", fmt.Errorf("deliveries %d and %d, want 1 and 2 of one message", first.DequeueCount, again.DequeueCount)
	}
	return fmt.Sprintf("hidden for %v, back %v after that as delivery 2", s.Lease, late.Round(10*time.Millisecond)), again.Complete(ctx)
}

func renewal(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "renewal"); err != nil {
		return "", err
	}
	m, err := s.take(ctx)
	if err != nil {
		return "", err
	}
	first, lease := m.LeaseExpires(), m.Lease()
	if err := wait(ctx, s.Lease/2); err != nil {
		return "", err
	}
	longer := 2*s.Lease + 2*time.Second
	if err := m.Renew(ctx, longer); err != nil {
		return "", err
	}
	if m.Lease() == lease {
		return "", errors.New("the pop receipt is the same as before")
	}
	for time.Until(first) > -time.Second {
		ms, err := s.q.Receive(ctx, 1, s.Lease)
		if err != nil {
			return "", err
		}
		if len(ms) > 0 {
			return "", errors.New("it could be received by another while its lease was renewed")
		}
		if err := wait(ctx, poll); err != nil {
			return "", err
		}
	}
	if err := m.Complete(ctx); err != nil {
		return "", fmt.Errorf("delete with the new receipt: %w", err)
	}
	return fmt.Sprintf("renewed to %v, another receipt, hidden a second past the first timeout, deleted with the new receipt", longer), nil
}

// allowed is how many deliveries the rehearsed processors allow.
const allowed = 3

// process runs a processor until the condition holds.
func (s stage) process(ctx context.Context, h processor.HandlerFunc, cfg processor.Config, until func() (bool, error)) (err error) {
	cfg.VisibilityTimeout, cfg.MaxDequeueCount, cfg.Logger = max(s.Lease, 2*time.Second), allowed, s.Logger
	cfg.Retry = processor.RetryConfig{Initial: time.Second, Max: time.Second, Jitter: processor.Off}
	cfg.EmptyBackoffMin, cfg.EmptyBackoffMax = 200*time.Millisecond, 500*time.Millisecond
	cfg.Breaker.Off = true // one message that fails is no outage
	p, err := processor.New(s.q, h, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-done)
	}()
	for {
		if ok, err := until(); ok || err != nil {
			return err
		}
		if err := wait(ctx, poll); err != nil {
			return err
		}
	}
}

// quarantined waits until the message is on the poison queue and off its own.
func (s stage) quarantined(ctx context.Context, l *poison.Listing) func() (bool, error) {
	return func() (bool, error) {
		var err error
		if *l, err = poison.List(ctx, s.q); err != nil || len(l.Entries) == 0 {
			return false, err
		}
		main, err := s.q.Properties(ctx)
		return main.ApproximateMessages == 0, err
	}
}

func quarantine(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "quarantine"); err != nil {
		return "", err
	}
	var mu sync.Mutex
	calls := 0
	early := false
	fail := processor.HandlerFunc(func(ctx context.Context, _ *processor.Message) error {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if l, err := poison.List(ctx, s.q); err == nil && len(l.Entries) > 0 {
			early = true
		}
		return errors.New("rehearsed failure")
	})
	var l poison.Listing
	if err := s.process(ctx, fail, processor.Config{}, s.quarantined(ctx, &l)); err != nil {
		return "", err
	}
	mu.Lock()
	defer mu.Unlock()
	e := l.Entries[0]
	switch {
	case early:
		return "", errors.New("it was on the poison queue while it was still to be tried")
	case calls != allowed || e.DequeueCount != allowed:
		return "", fmt.Errorf("the handler was called %d times and the record says %d deliveries, want %d", calls, e.DequeueCount, allowed)
	case e.Category != poison.CategoryMaxDequeue:
		return "", fmt.Errorf("the record says category %s, want %s", e.Category, poison.CategoryMaxDequeue)
	}
	return fmt.Sprintf("%d deliveries, then one copy on the poison queue, category %s, and nothing on the queue", calls, e.Category), nil
}

func observability(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "observability"); err != nil {
		return "", err
	}
	reg := prometheus.NewRegistry()
	fail := processor.HandlerFunc(func(context.Context, *processor.Message) error { return errors.New("rehearsed failure") })
	var l poison.Listing
	if err := s.process(ctx, fail, processor.Config{Metrics: processor.NewMetrics(reg, processor.MetricsOptions{})}, s.quarantined(ctx, &l)); err != nil {
		return "", err
	}
	families, err := reg.Gather()
	if err != nil {
		return "", err
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			sums[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		metric.MessagesReceived: allowed, metric.MessagesFailed: allowed,
		metric.MessageRetries: allowed - 1, metric.MessagesDeadLettered: 1,
	} {
		if sums[name] != want {
			return "", fmt.Errorf("%s says %v, want %v", name, sums[name], want)
		}
	}
	if l.Total != 1 {
		return "", fmt.Errorf("the poison queue's depth is %d, want 1", l.Total)
	}
	return fmt.Sprintf("%d retries and 1 dead-letter counted, poison depth 1", allowed-1), nil
}

package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// ledger stands for the durable state of an application: an operation key has one result.
type ledger struct {
	mu      sync.Mutex
	applied map[string]int
	asked   int
}

// apply does the work of a key, unless it is done.
func (l *ledger) apply(key string) (did bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.applied == nil {
		l.applied = map[string]int{}
	}
	if l.applied[key] > 0 {
		return false
	}
	l.applied[key]++
	return true
}

func (l *ledger) handler() processor.HandlerFunc {
	return func(_ context.Context, m *processor.Message) error {
		l.apply(string(m.Body))
		return nil
	}
}

// once says that every key's work was done exactly once.
func (l *ledger) once(keys ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if n := l.applied[k]; n != 1 {
			return fmt.Errorf("the work of key %s was done %d times, want once", k, n)
		}
	}
	return nil
}

// emptied waits until nothing is on the queue, hidden messages included.
func (s stage) emptied(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		p, err := s.q.Properties(ctx)
		return err == nil && p.ApproximateMessages == 0, err
	}
}

// crashed has a worker take the message, do what it does, and die.
func (s stage) crashed(ctx context.Context, do func(*queue.Message) error) error {
	m, err := s.take(ctx)
	if err != nil {
		return err
	}
	return do(m)
}

func crashBefore(ctx context.Context, s stage) (string, error) {
	var l ledger
	if err := s.send(ctx, "key"); err != nil {
		return "", err
	}
	if err := s.crashed(ctx, func(*queue.Message) error { return nil }); err != nil {
		return "", err
	}
	if err := s.process(ctx, l.handler(), processor.Config{}, s.emptied(ctx)); err != nil {
		return "", err
	}
	return "the next worker did the work once and deleted the message", l.once("key")
}

func crashAfter(ctx context.Context, s stage) (string, error) {
	var l ledger
	if err := s.send(ctx, "key"); err != nil {
		return "", err
	}
	if err := s.crashed(ctx, func(m *queue.Message) error { l.apply(string(m.Body)); return nil }); err != nil {
		return "", err
	}
	if err := s.process(ctx, l.handler(), processor.Config{}, s.emptied(ctx)); err != nil {
		return "", err
	}
	if l.asked != 2 {
		return "", fmt.Errorf("the message was delivered %d times, want 2", l.asked)
	}
	return "delivered twice, the committed work recognised by its key, the message deleted", l.once("key")
}

func crashRenewing(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "key"); err != nil {
		return "", err
	}
	var until time.Time
	longer := 2 * s.Lease
	err := s.crashed(ctx, func(m *queue.Message) error {
		if err := wait(ctx, s.Lease/2); err != nil {
			return err
		}
		err := m.Renew(ctx, longer)
		until = m.LeaseExpires()
		return err
	})
	if err != nil {
		return "", err
	}
	m, late, err := s.comesBack(ctx, until)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("back %v after the renewed lease of %v, its text unchanged", late.Round(10*time.Millisecond), longer),
		errors.Join(same(m, "key"), m.Complete(ctx))
}

func same(m *queue.Message, want string) error {
	if string(m.Body) != want {
		return errors.New("its text has changed")
	}
	return nil
}

func twoConsumers(ctx context.Context, s stage) (string, error) {
	var l ledger
	for range 2 { // the sender repeated itself, as it may
		if err := s.send(ctx, "key"); err != nil {
			return "", err
		}
	}
	if err := s.crashed(ctx, func(*queue.Message) error { return nil }); err != nil { // one of them is redelivered
		return "", err
	}
	other := make(chan error, 1)
	go func() { other <- s.process(ctx, l.handler(), processor.Config{}, s.emptied(ctx)) }()
	err := errors.Join(s.process(ctx, l.handler(), processor.Config{}, s.emptied(ctx)), <-other)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d deliveries to two consumers, the work done once", l.asked), l.once("key")
}

func unfinished(ctx context.Context, s stage) (string, error) {
	if err := s.send(ctx, "unfinished"); err != nil {
		return "", err
	}
	m, err := s.take(ctx)
	if err != nil {
		return "", err
	}
	p, err := s.q.Properties(ctx)
	if err != nil {
		return "", err
	}
	if p.ApproximateMessages != 1 {
		return "", fmt.Errorf("the queue's depth is %d while its only message is hidden, want 1", p.ApproximateMessages)
	}
	again, _, err := s.comesBack(ctx, m.LeaseExpires())
	if err != nil {
		return "", err
	}
	if !again.InsertedAt.Equal(m.InsertedAt) || again.Age() < s.Lease-time.Second {
		return "", fmt.Errorf("its age is %v: it began anew", again.Age())
	}
	return fmt.Sprintf("counted while hidden, %v old when it was back", again.Age()), again.Complete(ctx)
}

package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

const (
	// canaryMark is what every canary message begins with.
	canaryMark = "qwatch canary "
	// canaryLife is when the service drops a canary message that was lost on its way.
	canaryLife = 5 * time.Minute
	// canaryLease hides a canary message that was received until it is deleted.
	canaryLease = 30 * time.Second
	// canaryTime bounds a round trip.
	canaryTime = 20 * time.Second
	// canaryPause is how long to wait before looking for a message again that is not there yet.
	canaryPause = 200 * time.Millisecond
	// canaryLook is how often a replica that lets none fly looks whether it should.
	canaryLook = 2 * time.Second
)

var errForeign = errors.New("it holds messages that are no canaries: give the canary a queue of its own")

// canary sends a message to a private queue, receives it and deletes it, again and again, as the configuration in use has
// it. What was lost on the way is deleted when it is met, and expires otherwise, so that the queue never
// holds more than a few messages.
type canary struct {
	service *service
	metrics *metric.Canary

	failing bool
	left    string // the queue that discovery was told to leave out
}

// leaveOut says once that discovery leaves the canary's queue out, though its globs ask for it. It is called with each
// state that is put in use.
func (c *canary) leaveOut(st *state) {
	left := ""
	if own := st.config.Watch.Canary; own != nil {
		for _, a := range st.config.Accounts {
			if d := a.Discovery; d != nil && a.Name == own.Account && (&collector.Discovery{Include: d.Include, Exclude: d.Exclude}).Wants(own.Queue) {
				left = fullName(own.Account, own.Queue)
			}
		}
		if left != "" && left != c.left {
			c.service.log.Info("discovery leaves the canary's queue out: the canary looks after it", "component", "canary", "account", own.Account, "queue", own.Queue)
		}
	}
	c.left = left
}

// canaryOperations are what a canary asks of an account, whose series exist from the first scrape.
func canaryOperations(c *config.Canary, account string) []string {
	if c == nil || c.Account != account {
		return nil
	}
	return []string{
		string(queue.OpPeek), string(queue.OpCreate), string(queue.OpSend), string(queue.OpReceive), string(queue.OpDelete), string(queue.OpUpdate),
	}
}

// run lets the canary fly, where this replica is the one that does, until the context ends.
func (c *canary) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		cfg, wait := c.service.state().config.Watch.Canary, canaryLook
		if cfg == nil {
			c.metrics.Rest()
		} else if _, self := c.service.router.Owner(cfg.Account, cfg.Queue); !self {
			c.metrics.Rest()
		} else {
			c.fly(ctx, cfg)
			wait = time.Duration((1 - 0.1*mathrand.Float64()) * float64(cfg.Interval))
		}
		timer.Reset(wait)
	}
}

// fly makes one round trip and tells how it went.
func (c *canary) fly(ctx context.Context, cfg *config.Canary) {
	limited, cancel := context.WithTimeout(ctx, min(canaryTime, cfg.Interval))
	defer cancel()
	log := c.service.log.With("component", "canary", "account", cfg.Account, "queue", cfg.Queue)
	var took time.Duration
	q, err := c.service.canaryQueue(cfg)
	if err == nil {
		took, err = roundTrip(limited, q)
	}
	switch {
	case ctx.Err() != nil: // the end
	case err != nil:
		c.metrics.Failed()
		if !c.failing {
			log.Warn("the canary did not return", "error", err)
		}
		c.failing = true
	default:
		c.metrics.Returned(took)
		if c.failing {
			log.Info("the canary returns again")
		}
		c.failing = false
	}
}

// canaryQueue opens the canary's queue in the account that is in use.
func (s *service) canaryQueue(cfg *config.Canary) (*queue.Queue, error) {
	acct, err := s.state().fleet.Account(cfg.Account)
	if err != nil {
		return nil, err
	}
	return acct.Queue(cfg.Queue, queue.Config{NoPoison: true, CreateIfMissing: true})
}

// roundTrip sends a message, receives it and deletes it, and returns how long that took.
func roundTrip(ctx context.Context, q *queue.Queue) (time.Duration, error) {
	seen, err := q.PeekPacked(ctx, 32)
	if err != nil && !errors.Is(err, queue.ErrQueueNotFound) {
		return 0, err
	}
	for _, m := range seen.Messages { // receiving would count a delivery of what belongs to others
		if !strings.HasPrefix(m.Text, canaryMark) {
			return 0, fmt.Errorf("queue %s: %w", q, errForeign)
		}
	}
	text, start := canaryMark+rand.Text(), time.Now()
	if _, err := q.SendText(ctx, text, queue.SendOptions{TimeToLive: canaryLife, AllowDuplicates: true}); err != nil {
		return 0, err
	}
	for {
		messages, err := q.ReceivePacked(ctx, 32, canaryLease)
		if err != nil {
			return 0, err
		}
		var took time.Duration
		for _, m := range messages {
			switch err := settle(ctx, m); {
			case err != nil:
				return 0, err
			case m.Text == text:
				took = max(1, time.Since(start))
			}
		}
		if took > 0 {
			return took, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for a message of queue %s: %w", q, ctx.Err())
		case <-time.After(canaryPause):
		}
	}
}

// settle deletes a canary message, this one's or one that was lost, and gives back what is none.
func settle(ctx context.Context, m *queue.Message) error {
	if !strings.HasPrefix(m.Text, canaryMark) {
		return m.Abandon(ctx, 0)
	}
	return m.Complete(ctx)
}

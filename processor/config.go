package processor

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/queue"
)

// MaxConcurrency is the largest Config.Concurrency.
const MaxConcurrency = 10_000

// Config describes how a queue is consumed. The zero value is usable; each field tells its default.
// A duration of 0 is the default, and −1 turns off what can be turned off.
type Config struct {
	// Concurrency is how many handlers may run at once. Default 1, which is one handler at a
	// time; a finished message's deletion may still be under way when the next handler starts.
	Concurrency int
	// VisibilityTimeout is the lease taken with each message: how long a crash hides it.
	// 1 s to 7 days, whole seconds. Default 1 m. It has nothing to do with Retry.
	VisibilityTimeout time.Duration
	// NoRenew turns lease renewal off: a handler that runs longer than VisibilityTimeout is
	// cancelled. Default false: renewed at half the timeout, from receipt on.
	NoRenew bool
	// MaxRenewal stops renewing a message's lease this long after its receipt, so that a hung
	// handler's message is delivered again; the handler is cancelled when the lease lapses.
	// Default none.
	MaxRenewal time.Duration
	// LongRunningWarning logs once a handler that still runs after this long. Default 10 m, −1 off.
	LongRunningWarning time.Duration
	// ManualSettle leaves settling to the handler altogether, whatever it returns. A message that
	// the handler has not settled when it returns is no longer renewed: it is delivered again once
	// its lease lapses. Default false: complete on nil, retry or dead-letter on an error, unless
	// the handler has settled the message itself.
	ManualSettle bool
	// MaxDequeueCount is how often a message is handed to the handler before it is dead-lettered.
	// Default 5; −1 for ever, for queues without a poison queue. What an outage has cost a message is
	// not counted: see BreakerConfig.
	MaxDequeueCount int
	// MaxAge dead-letters messages older than this when they are delivered, counted from when they
	// could first be received. Default off.
	MaxAge time.Duration
	// KeepUnreadable hands messages whose Err is set to the handler. Default false: they are
	// dead-lettered without calling it.
	KeepUnreadable bool
	// Retry is the delay before the next attempt.
	Retry RetryConfig
	// Breaker stops receiving while handlers fail as a whole. On unless Breaker.Off.
	Breaker BreakerConfig
	// RateLimit takes one permit for each message before it is asked for. What was taken for messages
	// that did not come, up to 32, is kept for the next. Processors may share a limiter. It needs a
	// burst of at least 1. Default none.
	RateLimit *rate.Limiter
	// Middleware is put around the handler, the first outermost. Handlers of batches are not wrapped.
	Middleware []Middleware
	// Policy decides what becomes of a message whose handler failed. Default: it is retried.
	Policy ErrorPolicy
	// BusinessKey tells a message's business key for its poison record. An error or a panic means that
	// there is none, as does a message that cannot be read, or a call that takes longer than fifteen
	// seconds. Default none.
	BusinessKey func(*Message) (string, error)
	// Failures hears of messages that fail. Default none.
	Failures FailureHook
	// EmptyBackoffMin and EmptyBackoffMax bound the wait after an empty receive, which doubles
	// until a message arrives. Default 1 s and 30 s.
	EmptyBackoffMin time.Duration
	EmptyBackoffMax time.Duration
	// ErrorBackoffMax is the longest wait after a failed receive; the first is 1 s. Default 1 m.
	ErrorBackoffMax time.Duration
	// DrainTimeout is how long shutdown waits for handlers before it cancels them, and how long
	// it waits again after that. Default 30 s; −1 cancels at once and waits one second.
	DrainTimeout time.Duration
	// Objective is the longest a message should wait for its first handler; later ones are counted
	// as late. Default none.
	Objective time.Duration
	// Ready holds the first receive back until it is closed, so that nothing is leased before the
	// whole process is up. Default nil: at once.
	Ready <-chan struct{}
	// Beat is called on each turn of the receive loop, and at least every ten seconds while it waits,
	// be it for messages, for a free handler or for storage to come back. A loop that no longer calls
	// it is wedged. It must be fast. Default none.
	Beat func()
	// Logger gets everything worth telling. Default: discard.
	Logger *slog.Logger
	// Metrics counts. Default: none.
	Metrics *Metrics
	// Tracer follows each message, for spans. Default: none.
	Tracer Tracer
}

// RetryConfig is the delay before a failed message is delivered again: Initial·2ⁿ up to Max, where n
// is the number of earlier failures. It is rounded to whole seconds.
type RetryConfig struct {
	Initial time.Duration // default 5 s
	Max     time.Duration // default 5 m, or Initial if that is longer
	Jitter  float64       // part of the delay that is random, up and down: default 0.1; −1 off
}

// Off turns off what Config can turn off.
const Off = -1

// WithDefaults returns the configuration with every default filled in.
func (c Config) WithDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.VisibilityTimeout == 0 {
		c.VisibilityTimeout = time.Minute
	}
	if c.LongRunningWarning == 0 {
		c.LongRunningWarning = 10 * time.Minute
	}
	if c.MaxDequeueCount == 0 {
		c.MaxDequeueCount = 5
	}
	c.Retry = c.Retry.withDefaults()
	c.Breaker = c.Breaker.withDefaults()
	if c.EmptyBackoffMin == 0 {
		c.EmptyBackoffMin = time.Second
	}
	if c.EmptyBackoffMax == 0 {
		c.EmptyBackoffMax = max(30*time.Second, c.EmptyBackoffMin)
	}
	if c.ErrorBackoffMax == 0 {
		c.ErrorBackoffMax = time.Minute
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.Beat == nil {
		c.Beat = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (r RetryConfig) withDefaults() RetryConfig {
	if r.Initial == 0 {
		r.Initial = 5 * time.Second
		if r.Max > 0 {
			r.Initial = min(r.Initial, r.Max)
		}
	}
	if r.Max == 0 {
		r.Max = max(5*time.Minute, r.Initial)
	}
	if r.Jitter == 0 {
		r.Jitter = 0.1
	}
	return r
}

// validate checks a configuration that has its defaults. Every fault is told.
func (c Config) validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(c.Concurrency < 1 || c.Concurrency > MaxConcurrency, "concurrency %d is not 1 to %d", c.Concurrency, MaxConcurrency)
	switch v := c.VisibilityTimeout; {
	case v < queue.MinVisibility || v > queue.MaxVisibility:
		add(true, "visibility timeout %v is outside 1s to 7 days", v)
	case v%time.Second != 0:
		add(true, "visibility timeout %v is not in whole seconds", v)
	}
	add(c.MaxRenewal < 0, "longest renewal %v is negative", c.MaxRenewal)
	add(c.NoRenew && c.MaxRenewal > 0, "a longest renewal of %v makes no sense with renewal off", c.MaxRenewal)
	add(c.LongRunningWarning < 0 && c.LongRunningWarning != Off, "long-running warning %v is neither positive nor -1 for off", c.LongRunningWarning)
	add(c.MaxDequeueCount < 1 && c.MaxDequeueCount != Off, "maximum dequeue count %d is neither at least 1 nor -1 for off", c.MaxDequeueCount)
	add(c.MaxAge < 0, "maximum age %v is negative", c.MaxAge)
	add(c.Objective < 0, "objective %v is negative", c.Objective)
	add(c.DrainTimeout < 0 && c.DrainTimeout != Off, "drain timeout %v is neither positive nor -1 for off", c.DrainTimeout)
	add(c.EmptyBackoffMin < time.Millisecond, "shortest wait on an empty queue %v is under 1ms", c.EmptyBackoffMin)
	add(c.EmptyBackoffMax < c.EmptyBackoffMin, "longest wait on an empty queue %v is shorter than the shortest, %v", c.EmptyBackoffMax, c.EmptyBackoffMin)
	add(c.ErrorBackoffMax < time.Millisecond, "longest wait after a failed receive %v is under 1ms", c.ErrorBackoffMax)
	r := c.Retry
	add(r.Initial < time.Second || r.Initial > queue.MaxVisibility, "first retry delay %v is outside 1s to 7 days", r.Initial)
	add(r.Max < r.Initial, "longest retry delay %v is shorter than the first, %v", r.Max, r.Initial)
	add(r.Max > queue.MaxVisibility, "longest retry delay %v is over 7 days", r.Max)
	add(r.Jitter != Off && (r.Jitter < 0 || r.Jitter > 1), "retry jitter %v is neither 0 to 1 nor -1 for off", r.Jitter)
	if err := c.Breaker.validate(); err != nil {
		errs = append(errs, err)
	}
	if l := c.RateLimit; l != nil {
		add(l.Limit() <= 0, "rate limit %v a second lets nothing through", float64(l.Limit()))
		add(l.Burst() < 1 && l.Limit() != rate.Inf, "rate limit's burst %d is not at least 1", l.Burst())
	}
	for i, m := range c.Middleware {
		add(m == nil, "middleware %d is nil", i)
	}
	for i, rule := range c.Policy.DeadLetter {
		add(rule == nil, "dead-letter rule %d is nil", i)
	}
	return errors.Join(errs...)
}

// validateFor checks what depends on the queue.
func (c Config) validateFor(q *queue.Queue) error {
	if q.Poison() == nil && c.MaxDequeueCount != Off {
		return fmt.Errorf("the queue has no poison queue to put messages on after %d deliveries: set one, or a maximum dequeue count of -1", c.MaxDequeueCount)
	}
	return nil
}

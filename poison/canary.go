package poison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// ErrCanary is that the canaries of a replay do not speak for going on. The result says more.
var ErrCanary = errors.New("stopped after the canaries")

// CanaryOutcome is what became of the canaries.
type CanaryOutcome string

// The outcomes.
const (
	CanaryPassed    CanaryOutcome = "passed"    // none was seen to fail
	CanaryFailed    CanaryOutcome = "failed"    // one is on the poison queue again, or the poison queue grew
	CanaryUnhandled CanaryOutcome = "unhandled" // one still waits on its queue, or may: does anybody consume it?
)

// Canary is the trial that goes before a replay.
type Canary struct {
	Messages int           `json:"messages"`
	Outcome  CanaryOutcome `json:"outcome,omitempty"` // "": it was not seen to the end
	// Failed are the original ids of those that are on the poison queue again, as far as they were seen.
	Failed []string `json:"failed,omitempty"`
	// Grown is by how much the poison queue grew meanwhile.
	Grown int64 `json:"grown,omitempty"`
}

// canary watches the first messages of a replay.
type canary struct {
	Canary
	q      *queue.Queue
	wait   time.Duration
	byID   map[string]string   // the new id → the original's
	byText map[identity]string // for poison copies without a record, as Azure Functions makes them
}

func newCanary(q *queue.Queue, wait time.Duration) *canary {
	return &canary{q: q, wait: wait, byID: map[string]string{}, byText: map[identity]string{}}
}

func (c *canary) sent(id, newID string, o *queue.Original) {
	c.Messages++
	c.byID[newID] = id
	c.byText[identify(o.Text())] = id
}

const canaryPoll = time.Second

// watch returns nil when the canaries passed. Tend is called meanwhile.
func (c *canary) watch(ctx context.Context, tend func(context.Context) error) error {
	before, err := c.q.Poison().Properties(ctx)
	if err != nil && !errors.Is(err, queue.ErrQueueNotFound) {
		return err
	}
	for waited := time.Duration(0); ; waited += canaryPoll {
		main, err := c.q.Properties(ctx) // before the poison queue: a message is there before it leaves here
		if err != nil {
			return err
		}
		if err := c.look(ctx, before.ApproximateMessages); err != nil {
			return err
		}
		if main.ApproximateMessages == 0 {
			c.Outcome = CanaryPassed
			return nil
		}
		if waited >= c.wait {
			return c.overdue(ctx)
		}
		if err := errors.Join(pause(ctx, canaryPoll), tend(ctx)); err != nil {
			return err
		}
	}
}

// look looks for canaries on the poison queue.
func (c *canary) look(ctx context.Context, before int64) error {
	p := c.q.Poison()
	props, err := p.Properties(ctx)
	if err != nil {
		return err
	}
	peeked, err := p.Peek(ctx, queue.MaxReceive)
	if err != nil {
		return err
	}
	for _, m := range peeked.Messages {
		id, ours := c.byText[identify(m.Text)]
		if m.Record != nil {
			id, ours = c.byID[m.Record.MessageID]
		}
		if ours {
			c.Failed = append(c.Failed, id)
		}
	}
	c.Grown = max(0, props.ApproximateMessages-before)
	switch {
	case len(c.Failed) > 0:
		c.Outcome = CanaryFailed
		return fmt.Errorf("%w: %d of %d failed again", ErrCanary, len(c.Failed), c.Messages)
	case c.Grown > 0 && (len(peeked.Messages) == queue.MaxReceive || props.ApproximateMessages > int64(len(peeked.Messages))):
		c.Outcome = CanaryFailed // it cannot be told whose they are
		return fmt.Errorf("%w: the poison queue grew by %d", ErrCanary, c.Grown)
	}
	return nil
}

// overdue decides when the wait is over and there are messages on the source queue still.
func (c *canary) overdue(ctx context.Context) error {
	peeked, err := c.q.Peek(ctx, queue.MaxReceive)
	if err != nil {
		return err
	}
	for _, m := range peeked.Messages {
		if _, ours := c.byID[m.ID]; ours {
			c.Outcome = CanaryUnhandled
			return fmt.Errorf("%w: after %v they still wait on %s", ErrCanary, c.wait, c.q)
		}
	}
	if len(peeked.Messages) == queue.MaxReceive { // they may lie behind these
		c.Outcome = CanaryUnhandled
		return fmt.Errorf("%w: after %v it cannot be told whether they were handled: others wait on %s before them", ErrCanary, c.wait, c.q)
	}
	c.Outcome = CanaryPassed
	return nil
}

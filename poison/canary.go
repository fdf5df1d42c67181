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
	before map[identity]struct{} // what was on the poison queue before them, as far as it was seen
	since  time.Time             // when the first was sent, by the service
	byID   map[string]string     // the new id → the original's
	byText map[identity][]string // for poison copies without a record, as Azure Functions makes them
	failed map[string]struct{}   // originals' ids
}

func newCanary(q *queue.Queue, wait time.Duration, before map[identity]struct{}) *canary {
	return &canary{
		q: q, wait: wait, before: before,
		byID: map[string]string{}, byText: map[identity][]string{}, failed: map[string]struct{}{},
	}
}

func (c *canary) sent(id string, r queue.SendResult, o *queue.Original) {
	c.Messages++
	c.byID[r.ID] = id
	text := identify(o.Text())
	c.byText[text] = append(c.byText[text], id)
	if c.since.IsZero() {
		c.since = r.InsertedAt
	}
}

const canaryPoll = time.Second

// watch returns nil when the canaries passed. Before is how many messages would be on the poison queue
// had none come since the first was sent. Tend is called meanwhile.
func (c *canary) watch(ctx context.Context, before int64, tend func(context.Context) error) error {
	for waited := time.Duration(0); ; waited += canaryPoll {
		main, err := c.q.Properties(ctx) // before the poison queue: a message is there before it leaves here
		if err != nil {
			return err
		}
		if err := c.look(ctx, before); err != nil {
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
	peeked, err := p.PeekPacked(ctx, queue.MaxReceive)
	if err != nil {
		return err
	}
	for _, m := range peeked.Messages {
		if id, ours := c.origin(m); ours {
			c.failed[id] = struct{}{}
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

// origin returns the original's id of a canary that is on the poison queue again, once for each.
func (c *canary) origin(m *queue.Message) (id string, ours bool) {
	if m.Record != nil {
		id, ours = c.byID[m.Record.MessageID]
		_, told := c.failed[id]
		return id, ours && !told
	}
	// Texts may be equal: what was there before the canaries is none of them.
	if _, old := c.before[identify(m.ID)]; old || m.InsertedAt.Before(c.since) {
		return "", false
	}
	for _, id := range c.byText[identify(m.Text)] {
		if _, told := c.failed[id]; !told {
			return id, true
		}
	}
	return "", false
}

// overdue decides when the wait is over and there are messages on the source queue still.
func (c *canary) overdue(ctx context.Context) error {
	peeked, err := c.q.PeekPacked(ctx, queue.MaxReceive)
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

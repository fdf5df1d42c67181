package demo

import (
	"context"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// troubles says whether a character has its trouble now: what makes it worth looking at, such as messages that its
// handlers refuse. Nil: always.
type troubles func(name string) bool

// now is the character as it is now.
func (t troubles) now(c character) character {
	if t == nil || t(c.name) {
		return c
	}
	return c.calm()
}

// calm is the character without its trouble.
func (c character) calm() character {
	c.mangled, c.permanent, c.transient = 0, 0, min(c.transient, 0.01)
	return c
}

// consumeOutside consumes a queue until ctx ends, as a program that qwatch does not know would, but for the times of
// its trouble.
func (t troubles) consumeOutside(ctx context.Context, q *queue.Queue) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if t(q.Name()) {
			continue
		}
		messages, err := q.Receive(ctx, queue.MaxReceive, 30*time.Second)
		if err != nil {
			continue // the next turn is near
		}
		for _, m := range messages {
			_ = m.Complete(ctx) // it comes back
		}
	}
}

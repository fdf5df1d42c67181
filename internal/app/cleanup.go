package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// cleanup is the named steps that undo what was set up. They run in reverse order, all of
// them, whatever becomes of the others.
type cleanup struct {
	log   *slog.Logger
	steps []step
}

type step struct {
	name string
	do   func(context.Context) error
}

func (c *cleanup) add(name string, do func(context.Context) error) {
	c.steps = append(c.steps, step{name, do})
}

func (c *cleanup) run(ctx context.Context) error {
	var errs []error
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		c.log.Debug("clean up", "component", s.name)
		if err := s.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("clean up %s: %w", s.name, err))
		}
	}
	c.steps = nil
	return errors.Join(errs...)
}

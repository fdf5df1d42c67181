package cluster

import "context"

// Counted returns a Router that tells count of every question that was passed on, and whether there was an answer.
func Counted(r Router, count func(ok bool)) Router { return counted{r, count} }

type counted struct {
	Router

	count func(ok bool)
}

// Forward implements Router.
func (c counted) Forward(ctx context.Context, account, queue, target string) (*Answer, error) {
	a, err := c.Router.Forward(ctx, account, queue, target)
	c.count(err == nil)
	return a, err
}

// Ask implements Router.
func (c counted) Ask(ctx context.Context, addr, target string) (*Answer, error) {
	a, err := c.Router.Ask(ctx, addr, target)
	c.count(err == nil)
	return a, err
}

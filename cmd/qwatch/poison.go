package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/poison"
)

// poisonEntry is one dead-lettered message as the commands print it.
type poisonEntry struct {
	poison.Entry
	payload
}

func (c *cli) poisonCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "poison",
		Short: "See what was dead-lettered and why",
		Long: `See what was dead-lettered and why. QUEUE is always the main queue's name.

What is shown comes from one peek at the poison queue, which changes nothing and sees up
to 32 messages.`,
	}, c.poisonListCommand(), c.poisonShowCommand())
}

// poisonOf lists the poison of the queue called name.
func (c *cli) poisonOf(ctx context.Context, name string, f func(app.FleetQueue, poison.Listing) error) error {
	return c.onFleet(ctx, name, func(ctx context.Context, fleet *app.Fleet, q app.FleetQueue) error {
		if q.Poison() == nil {
			if of := fleet.PoisonOf(q); len(of) > 0 {
				return usagef("%s is the poison queue of %s; name that", q, of[0])
			}
			return usagef("%s has no poison queue: the configuration says noPoison", q)
		}
		ctx, cancel := c.patiently(ctx)
		defer cancel()
		l, err := poison.List(ctx, q.Queue)
		if err != nil {
			return err
		}
		return f(q, l)
	})
}

// partial says on standard error what a look could not reach.
func (c *cli) partial(q app.FleetQueue, l poison.Listing) {
	if l.Partial {
		fmt.Fprintf(c.stderr, "qwatch: %s/%s holds %s; one peek sees %d of them\n",
			q.Config.Account, q.Poison().Name(), about(l.Total), l.Peeked)
	}
	if l.Others > 0 {
		fmt.Fprintf(c.stderr, "qwatch: %s/%s is shared: of the messages seen, %d belong to other queues\n",
			q.Config.Account, q.Poison().Name(), l.Others)
	}
}

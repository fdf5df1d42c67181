package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/queue"
)

func (c *cli) queueCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "queue",
		Short: "List, show, peek at, send to and clear queues",
	}, c.queueListCommand(), c.queueShowCommand(), c.queuePeekCommand(), c.queueSendCommand(), c.queueClearCommand())
}

// missingHint is what to do about a queue that is not there.
const missingHint = "the queue is not there; create it, or set createIfMissing and send to it"

// onQueue runs f with the queue a command's first argument names.
func (c *cli) onQueue(ctx context.Context, name string, f func(context.Context, app.FleetQueue) error) error {
	return c.onFleet(ctx, name, func(ctx context.Context, _ *app.Fleet, q app.FleetQueue) error { return f(ctx, q) })
}

// onQueueOrServer is onQueue, or with --server what asks that.
func (c *cli) onQueueOrServer(ctx context.Context, name string, f func(context.Context, app.FleetQueue) error,
	remote func(ctx context.Context, cl *client.Client, account, queue string) error,
) error {
	asked, err := c.onServer(ctx, func(ctx context.Context, cl *client.Client) error {
		account, queue, err := names(name)
		if err != nil {
			return err
		}
		return remote(ctx, cl, account, queue)
	})
	if asked {
		return err
	}
	return c.onQueue(ctx, name, f)
}

// onFleet is onQueue, for those who look at the fleet as well.
func (c *cli) onFleet(ctx context.Context, name string, f func(context.Context, *app.Fleet, app.FleetQueue) error) error {
	fleet, err := c.openFleet()
	if err != nil {
		return err
	}
	defer fleet.Close()
	q, err := fleet.Find(name)
	if err != nil {
		return usageError{err}
	}
	err = f(ctx, fleet, q)
	switch {
	case errors.Is(err, queue.ErrQueueNotFound):
		return fmt.Errorf("%w: %s", err, missingHint)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %v are over; give more with --timeout", err, c.timeout)
	}
	return err
}

// logger is what libraries log to while a command works: warnings, to people.
func (c *cli) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// completeQueue offers the configured queues for the first argument.
func (c *cli) completeQueue(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	fleet, err := c.openFleet()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer fleet.Close()
	var names []string
	for _, name := range fleet.Names() {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
)

// consent is what commands that move or delete messages need.
type consent struct{ yes, dryRun bool }

func (k *consent) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&k.yes, "yes", "y", false, "do it without asking")
	cmd.Flags().BoolVar(&k.dryRun, "dry-run", false, "only show what would be done")
}

func (k consent) check() error {
	if k.yes && k.dryRun {
		return usagef("--yes and --dry-run contradict each other: give one")
	}
	return nil
}

func (c *cli) queueClearCommand() *cobra.Command {
	var k consent
	cmd := &cobra.Command{
		Use:   "clear ACCOUNT/QUEUE",
		Short: "Delete every message of a queue",
		Long: `Delete every message of a queue, hidden ones included. It cannot be undone.

On a terminal it asks first; elsewhere it needs --yes.`,
		Example:           "  qwatch queue clear orders/orders --dry-run\n  qwatch queue clear orders/orders --yes",
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := k.check(); err != nil {
				return err
			}
			return c.onQueueOrServer(cmd.Context(), args[0], func(ctx context.Context, q app.FleetQueue) error {
				return c.queueClear(ctx, onQueue{q}, k)
			}, func(ctx context.Context, cl *client.Client, account, queue string) error {
				return c.queueClear(ctx, queueOnServer{cl, account, queue}, k)
			})
		},
	}
	k.flags(cmd)
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

// clearable is a queue that can be cleared: on storage, or through a running qwatch.
type clearable interface {
	fmt.Stringer
	clear(ctx context.Context, dryRun bool) (triage.Cleared, error)
}

type onQueue struct{ app.FleetQueue }

func (q onQueue) clear(ctx context.Context, dryRun bool) (triage.Cleared, error) {
	props, err := q.Properties(ctx)
	if err == nil && !dryRun {
		err = q.Clear(ctx)
	}
	return triage.Cleared{Account: q.Config.Account, Queue: q.Name(), ApproximateMessages: props.ApproximateMessages, Cleared: !dryRun && err == nil}, err
}

type queueOnServer struct {
	*client.Client
	account, queue string
}

// String returns "account/queue".
func (q queueOnServer) String() string { return q.account + "/" + q.queue }

func (q queueOnServer) clear(ctx context.Context, dryRun bool) (triage.Cleared, error) {
	return q.Clear(ctx, q.account, q.queue, dryRun)
}

func (c *cli) queueClear(ctx context.Context, q clearable, k consent) error {
	asking, cancel := c.patiently(ctx)
	defer cancel()
	done, err := q.clear(asking, true)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("delete %s of %s", about(done.ApproximateMessages), q)
	if !k.dryRun {
		if err := c.ask(ctx, k, what); err != nil {
			return err
		}
		clearing, cancel := c.patiently(ctx) // the answer took a person's time
		defer cancel()
		if done, err = q.clear(clearing, false); err != nil {
			return err
		}
	}
	return c.printOne(done, func(w io.Writer) {
		if done.Cleared {
			fmt.Fprintf(w, "deleted %s of %s\n", about(done.ApproximateMessages), q)
		} else {
			fmt.Fprintf(w, "would %s\n", what)
		}
	})
}

// about writes an approximate number of messages.
func about(n int64) string {
	if n == 1 {
		return "about 1 message"
	}
	return fmt.Sprintf("about %d messages", n)
}

var errNotAgreed = errors.New("not agreed to: nothing was done")

// ask gets consent to what, or returns an error.
func (c *cli) ask(ctx context.Context, k consent, what string) error {
	if k.yes {
		return nil
	}
	if !c.stdinTerminal || !c.stderrTerminal {
		return usagef("this would %s: add --yes to do it, or --dry-run to only see", what)
	}
	fmt.Fprintf(c.stderr, "%s? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.stdin).ReadString('\n') // no line is a no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.stderr)
		return ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errNotAgreed
	}
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/triage"
)

func (c *cli) poisonReplayCommand() *cobra.Command {
	var s selection
	var k consent
	cmd := &cobra.Command{
		Use:   "replay ACCOUNT/QUEUE [ID...]",
		Short: "Put dead-lettered messages back on their queue",
		Long: `Put dead-lettered messages back on their queue, exactly as they were first sent: the same
text, headers and trace context, without the record of why. They get a new id, and live for
7 days. IDs are those "poison list" shows; without any, and without other filters, it is
everything a peek sees, or everything with --all.

Each message is marked on the poison queue, then sent, then deleted there, one at a time.
Whenever that is interrupted nothing is lost, and running it again finishes it. At most one
message is sent twice, and named the next time as one that "may have been sent".

--canary replays that many first, and stops if one of them fails again, or if nobody
handles them; it watches for --canary-wait, less when the queue is empty before. Messages that
fail while it works are left for the next time. All copies of a message are removed.

On a terminal it asks first; elsewhere it needs --yes.`,
		Example: `  qwatch poison replay orders/orders --dry-run
  qwatch poison replay orders/orders 4b0a2f6c-1d7e-4f57-9d3c-0f6f0f1f2a3b
  qwatch poison replay orders/orders --all --category handler --reason timeout --canary 5 --rate 50 --yes`,
		Args: someIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := s.command(triage.Replay, args[1:])
			if err != nil {
				return err
			}
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.perform(ctx, t, command, k, "replay", "replayed")
			})
		},
	}
	s.flags(cmd)
	f := cmd.Flags()
	f.Float64Var(&s.Rate, "rate", 0, "at most this `number` of messages a second (default as fast as it goes)")
	f.IntVar(&s.Canary, "canary", 0, "replay this `number` first, and stop if one fails again")
	f.Var((*duration)(&s.canaryWait), "canary-wait", "how long to watch the canaries at most (default 1m)")
	k.flags(cmd)
	c.triageFlags(cmd)
	return cmd
}

// someIDs checks ACCOUNT/QUEUE with any number of ids behind it.
func someIDs(cmd *cobra.Command, args []string) error {
	return exact("ACCOUNT/QUEUE")(cmd, args[:min(len(args), 1)])
}

func (c *cli) poisonDeleteCommand() *cobra.Command {
	var s selection
	var k consent
	cmd := &cobra.Command{
		Use:   "delete ACCOUNT/QUEUE [ID...]",
		Short: "Delete dead-lettered messages for good",
		Long: `Delete dead-lettered messages for good: those named by their ids, or those that the filters
choose. It cannot be undone; "poison export" keeps them. To delete everything, use
"poison purge". All copies of a message are deleted.

On a terminal it asks first; elsewhere it needs --yes.`,
		Example: `  qwatch poison delete orders/orders 4b0a2f6c-1d7e-4f57-9d3c-0f6f0f1f2a3b
  qwatch poison delete orders/orders --all --older-than 90d --dry-run`,
		Args: someIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := s.command(triage.Delete, args[1:])
			if err != nil {
				return err
			}
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.perform(ctx, t, command, k, "delete", "deleted")
			})
		},
	}
	s.flags(cmd)
	k.flags(cmd)
	c.triageFlags(cmd)
	return cmd
}

func (c *cli) poisonPurgeCommand() *cobra.Command {
	var k consent
	cmd := &cobra.Command{
		Use:   "purge ACCOUNT/QUEUE",
		Short: "Delete everything that was dead-lettered from a queue",
		Long: `Delete everything that was dead-lettered from a queue, for good. Where several queues share
the poison queue, the others' messages stay.

On a terminal it asks first; elsewhere it needs --yes.`,
		Example: "  qwatch poison purge orders/orders --dry-run\n  qwatch poison purge orders/orders --yes",
		Args:    exact("ACCOUNT/QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.perform(ctx, t, triage.Command{Operation: triage.Purge}, k, "delete", "deleted")
			})
		},
	}
	// Interface: every command about poison takes --all; a purge is about everything anyway.
	cmd.Flags().Bool("all", false, "everything, which a purge is about in any case")
	k.flags(cmd)
	c.triageFlags(cmd)
	return cmd
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
)

func (c *cli) poisonShowCommand() *cobra.Command {
	var look triage.Command
	cmd := &cobra.Command{
		Use:   "show ACCOUNT/QUEUE ID",
		Short: "Show one dead-lettered message",
		Long: `Show one dead-lettered message: why, when, and after how many deliveries. ID is the
original message's id, as "poison list" shows it, or that of its copy on the poison queue.
Messages of different contents whose records name one original are shown one after the other.

"copy inserted" (insertedAt in JSON) is when the copy was put on the poison queue; no record
tells when the original was sent. The body is left out unless --body asks for it.

Where the queue's consumer keeps failure records, a message that was replayed and failed again
is shown with what it was before: "replay of" (history in JSON), the latest first.`,
		Example: "  qwatch poison show orders/orders 4b0a2f6c-1d7e-4f57-9d3c-0f6f0f1f2a3b --body",
		Args:    exact("ACCOUNT/QUEUE", "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			look.Operation, look.IDs, look.History = triage.List, args[1:], true
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				return c.poisonShow(ctx, t, look)
			})
		},
	}
	cmd.Flags().BoolVar(&look.Body, "body", false, "show the body")
	cmd.Flags().BoolVar(&look.All, "all", false, "look through the whole poison queue, not only what one peek sees")
	c.triageFlags(cmd)
	return cmd
}

func (c *cli) poisonShow(ctx context.Context, t triager, look triage.Command) error {
	g, err := c.gather(ctx, t, look)
	if err != nil {
		return err
	}
	if len(g.entries) == 0 {
		c.partial(t, look.All, g.summary)
		return fmt.Errorf("no message %q is in sight on the poison queue of %s; qwatch poison list %s shows what is", look.IDs[0], t, t)
	}
	if n := len(g.entries); n > 1 {
		fmt.Fprintf(c.stderr, "qwatch: %d messages of different contents say they are %s: name one by its poison message id\n", n, clean(look.IDs[0]))
	}
	for i, e := range g.entries {
		describe := e.describe
		if i > 0 {
			describe = func(w io.Writer) { fmt.Fprintln(w); e.describe(w) }
		}
		if err := c.printOne(e, describe); err != nil {
			return err
		}
	}
	return nil
}

// attempt writes what is known of a failed attempt.
func attempt(a queue.Attempt) string {
	parts := []string{a.At.UTC().Format(time.RFC3339)}
	for _, more := range []string{a.Category, a.Error, a.Worker} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(parts, "  ")
}

// earlier writes what a message was before it was replayed.
func earlier(h triage.Earlier) string {
	parts := []string{h.MessageID}
	if h.DeadLetteredAt != nil {
		parts = append(parts, "dead-lettered "+h.DeadLetteredAt.UTC().Format(time.RFC3339))
	}
	for _, more := range []string{string(h.Category), h.Reason} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	return strings.Join(append(parts, "replayed "+h.ReplayedAt.UTC().Format(time.RFC3339)), "  ")
}

func (e poisonEntry) describe(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(tw, "%s\t%s\n", name, clean(fmt.Sprint(value))) }
	line("message id", e.MessageID)
	line("poison message id", e.PoisonMessageID)
	line("copies", e.Copies)
	line("category", e.Category)
	line("reason", orUnknown(e.Reason))
	line("queue", e.Queue)
	if e.BusinessKey != "" {
		line("business key", e.BusinessKey)
	}
	line("deliveries", deliveries(e.Entry))
	for _, a := range e.Attempts {
		line(fmt.Sprintf("attempt %d", a.Number), attempt(a))
	}
	line("dead-lettered", e.Time().UTC().Format(time.RFC3339))
	line("copy inserted", expires(&e.InsertedAt))
	line("copy expires", expires(e.ExpiresAt))
	if at := e.MayHaveBeenSent; at != nil {
		line("may have been sent", at.UTC().Format(time.RFC3339))
	}
	for _, h := range e.History {
		line("replay of", earlier(h))
		for _, a := range h.Attempts {
			line(fmt.Sprintf("  attempt %d", a.Number), attempt(a))
		}
	}
	if e.HistoryError != "" {
		line("history unknown", e.HistoryError)
	}
	line("bytes", e.SizeBytes)
	line("headers", headers(e.Headers))
	if e.Body != nil || e.Body64 != nil {
		line("body", e.Text())
	}
	_ = tw.Flush() // into memory
}

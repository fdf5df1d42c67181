package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/story"
)

func (c *cli) tuneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune [ACCOUNT/QUEUE]",
		Short: "Say which visibility timeout, retry delay and dequeue count fit, and why",
		Long: `Say which visibility timeout, retry delay and maximum dequeue count fit each queue that is consumed,
and why: from how long its handler takes, at which attempt messages succeed, and how long those
that fail first take to succeed. Where too little was seen, it says so and advises nothing.

It asks a running qwatch what that process measured since it started. It changes nothing.`,
		Example: "  qwatch tune\n  qwatch tune orders/orders -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var account, queue string
			if len(args) > 0 {
				var err error
				if account, queue, err = names(args[0]); err != nil {
					return err
				}
			}
			return c.onRunning(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				all := make([]story.Advice, 1)
				var err error
				if len(args) > 0 {
					err = cl.Tune(ctx, account, queue, &all[0])
				} else {
					all = nil
					err = cl.TuneAll(ctx, &all)
				}
				if err != nil {
					return err
				}
				return c.printAdvice(all)
			})
		},
	}
	c.runningFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) printAdvice(all []story.Advice) error {
	if c.output != formatTable {
		return printList(c, all, func([]story.Advice) *table { return nil })
	}
	var b strings.Builder
	if len(all) == 0 {
		b.WriteString("no queue is consumed by that qwatch: nothing was measured\n")
	}
	for i := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		c.tellAdvice(&b, &all[i])
	}
	return c.write([]byte(b.String()))
}

// tellAdvice writes the advice for one queue.
func (c *cli) tellAdvice(w io.Writer, a *story.Advice) {
	fmt.Fprintf(w, "%s/%s: %s since %s", clean(a.Account), clean(a.Queue), story.Count(a.Handled, "handler call"), clock(a.Since))
	if a.Handled > 0 {
		fmt.Fprintf(w, ", half within %s, 99 of 100 within %s, the longest %s",
			story.Duration(asDuration(a.P50Seconds)), story.Duration(asDuration(a.P99Seconds)), story.Duration(asDuration(a.LongestSeconds)))
	}
	fmt.Fprintln(w)
	for _, r := range a.Settings {
		verdict, t := string(r.Verdict)+" to "+r.Advised, warn
		switch r.Verdict {
		case story.VerdictKeep:
			verdict, t = "keep", good
		case story.VerdictTooFew:
			verdict, t = "too few samples", faint
		}
		fmt.Fprintf(w, "  %-18s %-9s %s\n", clean(r.Setting), clean(r.Now), c.painted(verdict, t))
		fmt.Fprintf(w, "      %s\n", clean(r.Why))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/queue"
)

func (c *cli) queueListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list [ACCOUNT]",
		Aliases: []string{"ls"},
		Short:   "List the configured queues and how deep they are",
		Long: `List the configured queues and how deep they are, main and poison.

It counts and peeks, which changes nothing. MESSAGES is the service's approximate count,
hidden messages included; VISIBLE is exact below 32 and a floor at "32+".
A "+" marks what is at least so because the peek was full.
TREND, DRAINED IN and LOSS IN (the first message to expire unhandled, main or poison) are what a
running qwatch with this configuration says; "-" where none runs or nothing is foretold.
A poison queue that several queues share is told once, with the first of them; the others say "shared".
With --server all of it comes from what that qwatch saw last; "--server off" asks nobody for trends.
Exit status 1 when a queue is missing or could not be read; the others are listed all the
same. A poison queue that is missing is empty.`,
		Example: `  qwatch queue list
  qwatch queue list orders -o json | jq '.[] | select(.poisonMessages > 0)'`,
		Args: between(0, "ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			off := c.noTrends()
			asked, err := c.onServer(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				return c.listOnServer(ctx, cl, args)
			})
			if asked {
				return err
			}
			return c.queueList(cmd.Context(), args, off)
		},
	}
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queueList(ctx context.Context, args []string, off bool) error {
	fleet, err := c.openFleet()
	if err != nil {
		return err
	}
	defer fleet.Close()
	queues := fleet.Queues
	if len(args) > 0 {
		if _, err := fleet.Account(args[0]); err != nil {
			return usageError{err}
		}
		queues = slices.DeleteFunc(slices.Clone(queues), func(q app.FleetQueue) bool { return q.Config.Account != args[0] })
	}
	known := trends(ctx, off, "", fleet)
	depths := app.Depths(ctx, queues, c.timeout)
	if err := ctx.Err(); err != nil {
		return err
	}
	list := make([]judged, len(depths))
	for i, d := range depths {
		list[i] = judged{d, trendOf(known, queues[i])}
	}
	if err := printList(c, list, depthTable); err != nil {
		return err
	}
	return c.unread(depths)
}

// unread says on standard error what could not be read: a line for each queue, but one for all of an
// account that did not answer.
func (c *cli) unread(depths []app.Depth) error {
	var err error
	silent := map[string]int{}
	for _, d := range depths {
		if errors.Is(d.Err(), app.ErrNoAnswer) {
			silent[d.Account]++
		}
	}
	for _, d := range depths {
		switch n := silent[d.Account]; {
		case d.Err() == nil:
			continue
		case errors.Is(d.Err(), queue.ErrQueueNotFound):
			fmt.Fprintf(c.stderr, "qwatch: %s/%s: %s\n", d.Account, d.Queue, missingHint)
		case !errors.Is(d.Err(), app.ErrNoAnswer):
			fmt.Fprintf(c.stderr, "qwatch: %s/%s: %s\n", d.Account, d.Queue, clean(d.Error))
		case n > 0:
			fmt.Fprintf(c.stderr, "qwatch: %s: no answer within %v, queues not read: %d; give more with --timeout\n", d.Account, c.timeout, n)
			silent[d.Account] = 0
		}
		err = errReported
	}
	return err
}

func depthTable(list []judged) *table {
	t := newTable("no queues are configured", "ACCOUNT", "QUEUE", "STATUS", ">MESSAGES", ">VISIBLE", ">OLDEST", ">POISON", ">OLDEST POISON", "TREND", ">DRAINED IN", ">LOSS IN")
	for _, d := range list {
		t.add(d.Account, d.Queue, statusCell(d.Status), number(d.ApproximateMessages), visible(d.Depth), age(d.OldestVisibleSeconds, d.VisibleSaturated),
			poisonCell(d.Depth), age(d.OldestPoisonSeconds, d.PoisonSaturated),
			d.Trend.cell(), d.Trend.drain(), d.Trend.loss())
	}
	return t
}

func statusCell(status string) cell {
	switch status {
	case app.DepthOK:
		return cell{status, good}
	case app.DepthMissing:
		return cell{status, warn}
	default:
		return cell{status, bad}
	}
}

// unknown is how tables write what is not known.
const unknown = "-"

func number(n *int64) string {
	if n == nil {
		return unknown
	}
	return strconv.FormatInt(*n, 10)
}

func visible(d app.Depth) string {
	switch {
	case d.Visible == nil:
		return unknown
	case d.VisibleSaturated:
		return strconv.Itoa(*d.Visible) + "+"
	default:
		return strconv.Itoa(*d.Visible)
	}
}

func poisonCell(d app.Depth) cell {
	if d.PoisonSharedWith != "" {
		return cell{"shared", plain}
	}
	n := d.PoisonMessages
	if n != nil && *n > 0 {
		return cell{number(n), bad}
	}
	return cell{number(n), plain}
}

// age writes an age; saturated, there may be something older.
func age(seconds *float64, saturated bool) string {
	if seconds == nil {
		return unknown
	}
	text := brief(time.Duration(*seconds * float64(time.Second)))
	if saturated {
		text += "+"
	}
	return text
}

// brief writes a duration in the two units that matter.
func brief(d time.Duration) string {
	d = d.Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}

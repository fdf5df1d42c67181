package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
)

// queueDescription is what `queue show` prints.
type queueDescription struct {
	judged

	Mode           string            `json:"mode"` // consume or watch
	StorageAccount string            `json:"storageAccount"`
	Endpoint       string            `json:"endpoint"`
	Encoding       string            `json:"encoding"`
	Team           string            `json:"team,omitempty"`
	Tier           int               `json:"tier,omitempty"`
	Settings       map[string]any    `json:"settings"` // as in the configuration file, with every default
	Metadata       map[string]string `json:"metadata,omitempty"`

	settings []byte // the same as YAML
}

func (c *cli) queueShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ACCOUNT/QUEUE",
		Short: "Show one queue: depth, poison, settings, metadata",
		Long: `Show one queue: how deep it and its poison queue are, its settings and its consumer's with
every default filled in, and its metadata. It counts and peeks, which changes nothing. A running
qwatch with this configuration adds the queue's trend and forecasts. With --server all of it
comes from what that qwatch saw last, without the settings; "--server off" asks nobody for trends.
Exit status 1 when the queue is missing or could not be read.`,
		Example:           "  qwatch queue show orders/orders\n  qwatch queue show orders/orders -o json",
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			off := c.noTrends()
			asked, err := c.onServer(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				account, queue, err := names(args[0])
				if err != nil {
					return err
				}
				return c.showOnServer(ctx, cl, account, queue)
			})
			if asked {
				return err
			}
			return c.onFleet(cmd.Context(), args[0], func(ctx context.Context, fleet *app.Fleet, q app.FleetQueue) error {
				return c.queueShow(ctx, fleet, q, off)
			})
		},
	}
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queueShow(ctx context.Context, fleet *app.Fleet, q app.FleetQueue, off bool) error {
	known := trends(ctx, off, q.String(), fleet)
	settings, err := fleet.Settings(q)
	if err != nil {
		return err
	}
	asking, cancel := c.patiently(ctx)
	defer cancel()
	d := queueDescription{
		settings: settings,
		judged:   judged{app.DepthOf(asking, q), trendOf(known, q)}, Mode: "watch", StorageAccount: q.Account().StorageAccount(), Endpoint: q.Account().URL(),
		Encoding: q.Config.Encoding.String(), Team: q.Config.Team, Tier: q.Config.Tier,
	}
	if q.Config.Consumer != nil {
		d.Mode = "consume"
	}
	if err := yaml.Unmarshal(settings, &d.Settings); err != nil {
		return fmt.Errorf("show the settings of %s: %w", q, err)
	}
	if d.Status == app.DepthOK {
		props, err := q.Properties(asking)
		if err != nil {
			return err
		}
		d.Metadata = props.Metadata
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.printOne(d, d.text); err != nil {
		return err
	}
	return d.Err()
}

// queueLines begins the table of one queue with what is known of it from anywhere.
func queueLines(w io.Writer, q judged, mode, storageAccount string) (tw *tabwriter.Writer, line func(name string, value any)) {
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line = func(name string, value any) { fmt.Fprintf(tw, "%s\t%s\n", name, clean(fmt.Sprint(value))) }
	line("queue", q.Account+"/"+q.Queue)
	line("status", q.Status)
	line("mode", mode)
	line("messages", number(q.ApproximateMessages))
	line("visible", visible(q.Depth))
	line("oldest visible", age(q.OldestVisibleSeconds, q.VisibleSaturated))
	if q.PoisonQueue != "" {
		line("poison queue", q.PoisonQueue)
		line("poison messages", number(q.PoisonMessages))
		line("oldest poison", age(q.OldestPoisonSeconds, q.PoisonSaturated))
	}
	q.Trend.lines(line)
	line("storage account", storageAccount)
	return tw, line
}

func (d queueDescription) text(w io.Writer) {
	tw, line := queueLines(w, d.judged, d.Mode, d.StorageAccount)
	line("endpoint", d.Endpoint)
	for _, k := range slices.Sorted(maps.Keys(d.Metadata)) {
		line("metadata "+clean(k), d.Metadata[k])
	}
	_ = tw.Flush() // into memory
	fmt.Fprintln(w, "settings")
	for text := range strings.Lines(string(d.settings)) {
		fmt.Fprintf(w, "  %s\n", clean(strings.TrimRight(text, "\n")))
	}
}

// trendText is a status with the rule that found it, and since when.
func trendText(status, rule, since string) string {
	text := status
	if rule != "" {
		text += " (" + rule + ")"
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		text += " since " + at.Format(time.RFC3339)
	}
	return text
}

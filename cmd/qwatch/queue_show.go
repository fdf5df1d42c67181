package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/internal/app"
)

// queueDescription is what `queue show` prints.
type queueDescription struct {
	app.Depth

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
every default filled in, and its metadata. It counts and peeks, which changes nothing.
Exit status 1 when the queue is missing or could not be read.`,
		Example:           "  qwatch queue show orders/orders\n  qwatch queue show orders/orders -o json",
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onFleet(cmd.Context(), args[0], c.queueShow)
		},
	}
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queueShow(ctx context.Context, fleet *app.Fleet, q app.FleetQueue) error {
	settings, err := fleet.Settings(q)
	if err != nil {
		return err
	}
	asking, cancel := c.patiently(ctx)
	defer cancel()
	d := queueDescription{
		settings: settings,
		Depth:    app.DepthOf(asking, q), Mode: "watch", StorageAccount: q.Account().StorageAccount(), Endpoint: q.Account().URL(),
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

func (d queueDescription) text(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(tw, "%s\t%s\n", name, clean(fmt.Sprint(value))) }
	line("queue", d.Account+"/"+d.Queue)
	line("status", d.Status)
	line("mode", d.Mode)
	line("messages", number(d.ApproximateMessages))
	line("visible", visible(d.Depth))
	line("oldest visible", age(d.OldestVisibleSeconds, d.VisibleSaturated))
	if d.PoisonQueue != "" {
		line("poison queue", d.PoisonQueue)
		line("poison messages", number(d.PoisonMessages))
		line("oldest poison", age(d.OldestPoisonSeconds, d.PoisonSaturated))
	}
	line("storage account", d.StorageAccount)
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

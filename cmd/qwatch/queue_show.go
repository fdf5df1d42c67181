package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/queue"
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
	Metadata       map[string]string `json:"metadata,omitempty"`
}

func (c *cli) queueShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ACCOUNT/QUEUE",
		Short: "Show one queue: depth, poison, settings, metadata",
		Long: `Show one queue: how deep it and its poison queue are, how it is configured, and its
metadata. It counts and peeks, which changes nothing.`,
		Example:           "  qwatch queue show orders/orders\n  qwatch queue show orders/orders -o json",
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onQueue(cmd.Context(), args[0], c.queueShow)
		},
	}
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queueShow(ctx context.Context, q app.FleetQueue) error {
	d := queueDescription{
		Depth: app.DepthOf(ctx, q), Mode: "watch", StorageAccount: q.Account().StorageAccount(), Endpoint: q.Account().URL(),
		Encoding: q.Config.Encoding.String(), Team: q.Config.Team, Tier: q.Config.Tier,
	}
	if q.Config.Consumer != nil {
		d.Mode = "consume"
	}
	props, err := q.Properties(ctx)
	if err == nil {
		d.Metadata = props.Metadata
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.printOne(d, d.text); err != nil {
		return err
	}
	switch {
	case d.Error != "":
		return errors.New(d.Error)
	case err != nil && !errors.Is(err, queue.ErrQueueNotFound):
		return err
	}
	return nil
}

func (d queueDescription) text(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value any) { fmt.Fprintf(tw, "%s\t%s\n", name, clean(fmt.Sprint(value))) }
	line("queue", d.Account+"/"+d.Queue)
	line("status", d.Status)
	line("mode", d.Mode)
	line("messages", number(d.ApproximateMessages))
	line("visible", visible(d.Depth))
	line("oldest visible", age(d.OldestVisibleSeconds))
	if d.PoisonQueue != "" {
		line("poison queue", d.PoisonQueue)
		line("poison messages", number(d.PoisonMessages))
		line("oldest poison", age(d.OldestPoisonSeconds))
	}
	line("storage account", d.StorageAccount)
	line("endpoint", d.Endpoint)
	line("encoding", d.Encoding)
	if d.Team != "" {
		line("team", d.Team)
	}
	if d.Tier != 0 {
		line("tier", d.Tier)
	}
	for _, k := range slices.Sorted(maps.Keys(d.Metadata)) {
		line("metadata "+clean(k), d.Metadata[k])
	}
	_ = tw.Flush() // into memory
}

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/config"
)

// duration is a flag that takes what durations in the configuration file do: Go's, and days.
type duration time.Duration

// String, Set and Type make it a flag. Zero is no text: help then names no default, or that which the usage tells.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(s string) error {
	v, err := config.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = duration(v)
	return nil
}

// defaultTimeout is how long commands wait for storage: somebody sits before them.
const defaultTimeout = 15 * time.Second

// timeoutFlag adds --timeout to a command that asks storage.
func (c *cli) timeoutFlag(cmd *cobra.Command) {
	c.timeout = defaultTimeout
	cmd.Flags().Var((*duration)(&c.timeout), "timeout", "how long to wait for storage to answer")
}

// patiently bounds what a command asks of storage.
func (c *cli) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app/demo"
)

func (c *cli) emulatorCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "emulator",
		Short: "Run the embedded queue service alone, for development",
		Long: `Run the embedded queue service alone, for development and tests.

It speaks the Queue REST protocol strictly and keeps everything in memory. The account
and key are the well-known ones of the storage emulators, so at the default address the
connection string "UseDevelopmentStorage=true" works too. The connection string is
printed on standard output.`,
		Example: "  qwatch emulator\n  qwatch emulator --listen 127.0.0.1:0",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.emulator(cmd.Context(), listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", demo.DevelopmentAddress, "`address` to listen at; port 0 takes a free one")
	return cmd
}

func (c *cli) emulator(ctx context.Context, listen string) error {
	if err := checkAddress("--listen", listen); err != nil {
		return err
	}
	s, err := demo.NewService(ctx, listen, slog.New(slog.NewTextHandler(c.stderr, nil)))
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	fmt.Fprintf(c.stderr, "queue service at %s; everything is in memory; stop with Ctrl-C\n", s.URL())
	if err := c.write([]byte(s.ConnectionString() + "\n")); err != nil {
		return err
	}
	return s.Serve(ctx)
}

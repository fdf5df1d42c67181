package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
)

func (c *cli) runCommand() *cobra.Command {
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the service: consumers, watcher, endpoints",
		Long: `Run the service: consumers, watcher and endpoints, as the configuration file says.

It starts whether or not storage can be reached, and runs until SIGINT or SIGTERM: then
/readyz answers 503, consumers finish what they hold within their drain timeout, and the
exit status is 0. Another signal, more than a second after the first, ends it at once.
SIGHUP, and POST /-/reload by an operator, read the configuration again: what was added,
changed or removed takes effect, and a faulty file changes nothing. Logs go to standard error.`,
		Example: "  qwatch run -c qwatch.yaml\n  qwatch run -c qwatch.yaml --log-format json --log-level debug",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := logs.logger(c.stderr)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), logger)
		},
	}
	logs.flags(cmd, "info")
	c.configFlag(cmd)
	return cmd
}

func (c *cli) run(ctx context.Context, logger *slog.Logger) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before anything that takes time: until then SIGHUP kills
	defer signal.Stop(hangup)
	cfg, warnings, err := c.explainConfig()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		logger.Warn("a setting may not do what is meant", "reason", w.String())
	}
	b := build()
	return configError(app.Run(ctx, app.Options{
		Config: cfg, Logger: logger, Version: b.Version, Revision: b.Commit,
		Load: func() (*config.Config, []config.Warning, error) { return config.LoadSettled(c.configFile(), nil) }, Reload: hangup,
	}))
}

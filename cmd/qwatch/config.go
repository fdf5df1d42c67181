package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
)

func (c *cli) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Check and show the configuration",
	}, c.configValidateCommand(), c.configShowCommand())
}

func (c *cli) configValidateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration file",
		Long: `Check a configuration file, without connecting to anything.

Every fault is reported at once with its file, line, path and cure, and the exit status
is 2. Warnings go to standard error and do not change the exit status.`,
		Example: "  qwatch config validate -c qwatch.yaml",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			cfg, warnings, err := c.explainConfig()
			if err != nil {
				return err
			}
			more, err := app.Check(cfg)
			if err != nil {
				return configError(err)
			}
			for _, w := range warnings {
				c.warn(w.String())
			}
			for _, w := range more {
				c.warn(w)
			}
			return c.write([]byte(c.configFile() + ": ok\n"))
		},
	}
	c.configFlag(cmd)
	return cmd
}

func (c *cli) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration, secrets masked",
		Long: `Print the effective configuration as YAML: every default filled in, every variable
replaced, secrets masked.`,
		Example: "  qwatch config show -c qwatch.yaml",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			cfg, _, err := c.loadConfig()
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return fmt.Errorf("show the configuration: %w", err)
			}
			return c.write(text)
		},
	}
	c.configFlag(cmd)
	return cmd
}

// loadConfig reads the configuration file. Its warnings are for the commands that look after it.
func (c *cli) loadConfig() (*config.Config, []config.Warning, error) {
	cfg, warnings, err := config.Load(c.configFile(), nil)
	if err != nil {
		return nil, nil, configError(err)
	}
	return cfg, warnings, nil
}

// explainConfig is loadConfig, but tells what is wrong with the files it names as well.
func (c *cli) explainConfig() (*config.Config, []config.Warning, error) {
	cfg, warnings, err := config.Load(c.configFile(), nil)
	if err != nil {
		return nil, nil, configError(app.Explain(err))
	}
	return cfg, warnings, nil
}

func (c *cli) warn(s string) { fmt.Fprintf(c.stderr, "qwatch: warning: %s\n", clean(s)) }

// configError gives errors of the configuration exit status 2.
func configError(err error) error {
	var file *config.Errors
	var built *app.ConfigError
	if errors.As(err, &file) || errors.As(err, &built) {
		return usageError{err}
	}
	return err
}

// openFleet reads the configuration and opens what it describes. It makes no request.
func (c *cli) openFleet() (*app.Fleet, error) {
	if c.timeout <= 0 {
		return nil, usagef("--timeout %v must be above zero", c.timeout)
	}
	cfg, _, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	fleet, err := app.OpenFleet(cfg, app.FleetOptions{Logger: c.logger(), Timeout: c.timeout})
	if err != nil {
		return nil, configError(err)
	}
	return fleet, nil
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// defaultConfig is the configuration file read when neither -c nor QWATCH_CONFIG says.
const defaultConfig = "qwatch.yaml"

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "qwatch",
		Short: "Watch, consume and look after Azure Storage queues",
		Long: `qwatch watches, consumes and looks after Azure Storage queues.

Start with the demo: it needs no account, no configuration and no other program.

  qwatch demo

Exit status: 0 done, 1 failed, 2 bad usage or configuration.
Results go to standard output, everything else to standard error.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { c.started = true },
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(c.stderr)
			if err := cmd.Help(); err != nil {
				return fmt.Errorf("write help: %w", err)
			}
			return errNoCommand
		},
	}
	root.AddGroup(
		&cobra.Group{ID: "serve", Title: "Run it:"},
		&cobra.Group{ID: "operate", Title: "Look after queues:"},
		&cobra.Group{ID: "generate", Title: "Generate what goes with it:"},
		&cobra.Group{ID: "other", Title: "Everything else:"},
	)
	add := func(groupID string, cmds ...*cobra.Command) {
		for _, cmd := range cmds {
			cmd.GroupID = groupID
			root.AddCommand(cmd)
		}
	}
	add("serve", c.demoCommand(), c.runCommand(), c.configCommand(), c.doctorCommand(), c.verifyCommand(), c.emulatorCommand())
	add("operate", c.topCommand(), c.whyCommand(), c.tuneCommand(), c.queueCommand(), c.poisonCommand())
	add("generate", c.alertsCommand(), c.dashboardsCommand(), c.kedaCommand())
	add("other", c.healthcheckCommand(), c.versionCommand(), c.completionCommand())
	root.SetHelpCommandGroupID("other")
	return root
}

// configFlag adds -c to cmd.
func (c *cli) configFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.config, "config", "c", "", "configuration `file` (default $QWATCH_CONFIG, or "+defaultConfig+")")
	if err := cmd.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // no such flag: a mistake in this file
	}
}

// configFile is the file -c names, or the environment, or the default.
func (c *cli) configFile() string {
	if c.config != "" {
		return c.config
	}
	if f := c.getenv("QWATCH_CONFIG"); f != "" {
		return f
	}
	return defaultConfig
}

// outputFlag adds -o to cmd.
func (c *cli) outputFlag(cmd *cobra.Command) {
	c.output = formatTable
	cmd.Flags().VarP(&c.output, "output", "o", "output `format`: table, json or jsonl")
	err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{string(formatTable), string(formatJSON), string(formatJSONL)}, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // no such flag: a mistake in this file
	}
}

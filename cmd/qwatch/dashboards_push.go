package main

import "github.com/spf13/cobra"

func (c *cli) dashboardsPushCommand() *cobra.Command {
	return &cobra.Command{Use: "push", Hidden: true, Args: none, RunE: func(*cobra.Command, []string) error { return usagef("not available yet") }}
}

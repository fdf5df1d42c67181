package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (c *cli) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion {bash|zsh|fish|powershell}",
		Short: "Print a completion script for your shell",
		Long: `Print a script that completes commands, flags and the queues of your configuration.

  bash        source <(qwatch completion bash)
  zsh         qwatch completion zsh > "${fpath[1]}/_qwatch"
  fish        qwatch completion fish > ~/.config/fish/completions/qwatch.fish
  powershell  qwatch completion powershell | Out-String | Invoke-Expression`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args:                  exact("SHELL (bash, zsh, fish or powershell)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			root := cmd.Root()
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(c.stdout, true)
			case "zsh":
				err = root.GenZshCompletion(c.stdout)
			case "fish":
				err = root.GenFishCompletion(c.stdout, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(c.stdout)
			default:
				return usagef("no completion for %q; there are bash, zsh, fish and powershell", args[0])
			}
			if err != nil {
				return fmt.Errorf("write the completion script: %w", err)
			}
			return nil
		},
	}
}

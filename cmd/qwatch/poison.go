package main

import (
	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// poisonEntry is one dead-lettered message as the commands print it.
type poisonEntry struct {
	poison.Entry
	payload

	History      []triage.Earlier `json:"history,omitempty"`
	HistoryError string           `json:"historyError,omitempty"`
}

func (c *cli) poisonCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "poison",
		Short: "See what was dead-lettered and why; replay, delete, export and import it",
		Long: `See what was dead-lettered and why, bring it back once the cause is mended, or get rid of
it. QUEUE is always the main queue's name.

Without --all, what one peek at the poison queue sees is all there is: up to 32 messages.
With --all the whole poison queue is gone through, of any depth, by receiving messages and
releasing them at once, in the order received: each one's dequeue count rises by one, and
it goes to the back of the queue. That can be interrupted at any point; a killed walk
hides what it held for half a minute at most.`,
	}, c.poisonListCommand(), c.poisonShowCommand(), c.poisonReplayCommand(), c.poisonDeleteCommand(), c.poisonPurgeCommand(),
		c.poisonExportCommand(), c.poisonImportCommand())
}

// triageFlags are what every command about poison has.
func (c *cli) triageFlags(cmd *cobra.Command) {
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	cmd.ValidArgsFunction = c.completeQueue
}

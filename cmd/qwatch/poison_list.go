package main

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/poison"
)

func (c *cli) poisonListCommand() *cobra.Command {
	var body bool
	cmd := &cobra.Command{
		Use:     "list ACCOUNT/QUEUE",
		Aliases: []string{"ls"},
		Short:   "List what was dead-lettered, grouped by category and reason",
		Long: `List what was dead-lettered, grouped by category and reason, the oldest of each group
first. One peek at the poison queue sees up to 32 messages and changes nothing; how many
there are in all is told on standard error.

Several copies of one message, as a crash may leave them, are one entry. In JSON,
insertedAt is when the copy was put on the poison queue; no record tells when the original
was sent.`,
		Example: `  qwatch poison list orders/orders
  qwatch poison list orders/orders -o json | jq 'group_by(.reason) | map({reason: .[0].reason, n: length})'`,
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.poisonOf(cmd.Context(), args[0], func(q app.FleetQueue, l poison.Listing) error {
				return c.poisonList(q, l, body)
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "show the bodies")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) poisonList(q app.FleetQueue, l poison.Listing, body bool) error {
	slices.SortStableFunc(l.Entries, func(a, b poison.Entry) int {
		return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Reason, b.Reason), died(a).Compare(died(b)))
	})
	entries := make([]poisonEntry, 0, len(l.Entries))
	for _, e := range l.Entries {
		pe := poisonEntry{Entry: e}
		if body {
			pe.payload = payloadOf(e.Message())
		}
		entries = append(entries, pe)
	}
	err := printList(c, entries, func(entries []poisonEntry) *table { return poisonTable(q, entries, body) })
	c.partial(q, l)
	return err
}

// died is when a message was dead-lettered, as well as is known.
func died(e poison.Entry) time.Time {
	if e.DeadLetteredAt != nil {
		return *e.DeadLetteredAt
	}
	return e.InsertedAt
}

func poisonTable(q app.FleetQueue, entries []poisonEntry, body bool) *table {
	heads := []string{"CATEGORY", "REASON", "MESSAGE ID", "DEAD-LETTERED", ">DELIVERIES", ">BYTES"}
	if body {
		heads = append(heads, "BODY")
	}
	t := newTable("nothing is poisoned in "+q.String(), heads...)
	for _, e := range entries {
		row := []any{cell{string(e.Category), bad}, orUnknown(e.Reason), e.MessageID, died(e.Entry).UTC().Format(time.RFC3339), deliveries(e.Entry), e.SizeBytes}
		if body {
			row = append(row, e.text())
		}
		t.add(row...)
	}
	return t
}

// deliveries is how often the original was delivered, where that was recorded.
func deliveries(e poison.Entry) string {
	if e.DequeueCount == 0 {
		return unknown
	}
	return strconv.Itoa(e.DequeueCount)
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

func (c *cli) poisonListCommand() *cobra.Command {
	var s selection
	var groups bool
	cmd := &cobra.Command{
		Use:     "list ACCOUNT/QUEUE",
		Aliases: []string{"ls"},
		Short:   "List what was dead-lettered, grouped by category and reason",
		Long: `List what was dead-lettered, grouped by category and reason, the oldest of each group
first. One peek at the poison queue sees up to 32 messages and changes nothing; how many
there are in all is told on standard error. --all goes through all of them: see
"qwatch poison --help". --groups counts them by category and reason instead.

Several copies of one message, as a crash may leave them, are one entry. In JSON,
insertedAt is when the copy was put on the poison queue; no record tells when the original
was sent. -o jsonl with --all prints entries as they come, in the order of the queue, and
remembers no more than their ids; other formats keep all entries in memory, about 1 KiB each.`,
		Example: `  qwatch poison list orders/orders
  qwatch poison list orders/orders --all --groups
  qwatch poison list orders/orders --category handler --reason timeout --newer-than 1d
  qwatch poison list orders/orders -o json | jq 'group_by(.reason) | map({reason: .[0].reason, n: length})'`,
		Args: exact("ACCOUNT/QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := s.command(triage.List, nil)
			if err != nil {
				return err
			}
			if groups && command.Body {
				return usagef("--groups counts messages: --body has no place in it")
			}
			return c.onPoison(cmd.Context(), args[0], func(ctx context.Context, t triager) error {
				switch {
				case groups:
					return c.poisonGroups(ctx, t, command)
				case command.All && c.output == formatJSONL:
					return c.poisonStream(ctx, t, command)
				}
				return c.poisonList(ctx, t, command)
			})
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.Body, "body", false, "show the bodies")
	cmd.Flags().BoolVar(&groups, "groups", false, "count the messages of each category and reason")
	c.triageFlags(cmd)
	return cmd
}

func (c *cli) poisonList(ctx context.Context, t triager, cmd triage.Command) error {
	g, err := c.gather(ctx, t, cmd)
	if err != nil {
		return err
	}
	err = c.printEntries(t, g.entries, cmd.Body)
	c.partial(t, cmd.All, g.summary)
	return err
}

// poisonStream prints entries as they come.
func (c *cli) poisonStream(ctx context.Context, t triager, cmd triage.Command) error {
	summary, err := c.eachEntry(ctx, t, cmd, func(e triage.Entry) error {
		return c.printJSON(poisonEntry{Entry: e.Entry, payload: e.Payload}, "")
	})
	c.partial(t, true, summary)
	return err
}

// eachEntry calls see with every entry once, and shows how far it is. The summary is what came until an error.
func (c *cli) eachEntry(ctx context.Context, t triager, cmd triage.Command, see func(triage.Entry) error) (triage.Summary, error) {
	seen := map[string]struct{}{}
	var summary triage.Summary
	bar := c.progress()
	defer bar.end()
	err := t.run(ctx, cmd, func(e triage.Event) error {
		bar.event(e)
		switch {
		case e.Summary != nil:
			summary = *e.Summary
		case e.Entry != nil:
			id := e.Entry.Key()
			if _, again := seen[id]; again {
				return nil
			}
			seen[id] = struct{}{}
			return see(*e.Entry)
		}
		return nil
	})
	return summary, err
}

// poisonGroup is what `poison list --groups` prints for a category and a reason.
type poisonGroup struct {
	Category poison.Category `json:"category"`
	Reason   string          `json:"reason,omitempty"`
	Messages int             `json:"messages"`
	Oldest   time.Time       `json:"oldest"` // dead-lettered
	Newest   time.Time       `json:"newest"`
}

// maxGroups bounds how many reasons are told apart.
const maxGroups = 10_000

func (c *cli) poisonGroups(ctx context.Context, t triager, cmd triage.Command) error {
	type key struct {
		category poison.Category
		reason   string
	}
	groups := map[key]*poisonGroup{}
	ctx, cancel := c.bounded(ctx, cmd)
	defer cancel()
	summary, err := c.eachEntry(ctx, t, cmd, func(e triage.Entry) error {
		k, at := key{e.Category, e.Reason}, e.Time()
		if groups[k] == nil && len(groups) >= maxGroups {
			k.reason = "(other reasons)"
		}
		g := groups[k]
		if g == nil {
			g = &poisonGroup{Category: k.category, Reason: k.reason, Oldest: at, Newest: at}
			groups[k] = g
		}
		g.Messages++
		if at.Before(g.Oldest) {
			g.Oldest = at
		}
		if at.After(g.Newest) {
			g.Newest = at
		}
		return nil
	})
	if err != nil {
		return err
	}
	list := make([]poisonGroup, 0, len(groups))
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b poisonGroup) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Category, b.Category), cmp.Compare(a.Reason, b.Reason))
	})
	err = printList(c, list, func(list []poisonGroup) *table {
		tb := newTable("nothing is poisoned in "+t.String(), "CATEGORY", "REASON", ">MESSAGES", "OLDEST", "NEWEST")
		for _, g := range list {
			tb.add(cell{string(g.Category), bad}, orUnknown(g.Reason), g.Messages, g.Oldest.UTC().Format(time.RFC3339), g.Newest.UTC().Format(time.RFC3339))
		}
		return tb
	})
	c.partial(t, cmd.All, summary)
	return err
}

// byReason groups entries, the oldest of each group first.
func byReason(a, b poisonEntry) int {
	return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Reason, b.Reason), a.Time().Compare(b.Time()))
}

func poisonTable(queue string, entries []poisonEntry, body bool) *table {
	heads := []string{"CATEGORY", "REASON", "MESSAGE ID", "DEAD-LETTERED", ">DELIVERIES", ">BYTES"}
	if body {
		heads = append(heads, "BODY")
	}
	t := newTable("nothing is poisoned in "+queue, heads...)
	for _, e := range entries {
		row := []any{cell{string(e.Category), bad}, orUnknown(e.Reason), e.MessageID, e.Time().UTC().Format(time.RFC3339), deliveries(e.Entry), e.SizeBytes}
		if body {
			row = append(row, e.Text())
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

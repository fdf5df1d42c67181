package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
)

// What commands print and the API answers are the same.
type (
	message = triage.Message
	payload = triage.Payload
)

func (c *cli) queuePeekCommand() *cobra.Command {
	var limit int
	var body bool
	cmd := &cobra.Command{
		Use:   "peek ACCOUNT/QUEUE",
		Short: "Look at the next messages without taking them",
		Long: `Look at the next visible messages without taking them: nothing changes, no dequeue
count rises. One peek sees up to 32 messages.

Bodies are left out unless --body asks for them. In tables whatever a terminal might act
upon is written as an escape; -o json has the exact body (as "body64" when it is not text).`,
		Example: `  qwatch queue peek orders/orders
  qwatch queue peek orders/orders-poison --max 1 --body
  qwatch queue peek orders/orders --body -o jsonl | jq -r .body`,
		Args:              exact("ACCOUNT/QUEUE"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > queue.MaxReceive {
				return usagef("--max %d must be 1 to %d, the most one peek returns", limit, queue.MaxReceive)
			}
			return c.onQueueOrServer(cmd.Context(), args[0], func(ctx context.Context, q app.FleetQueue) error {
				return c.queuePeek(ctx, q, limit, body)
			}, func(ctx context.Context, cl *client.Client, account, queue string) error {
				messages, err := cl.Peek(ctx, account, queue, limit, body)
				if err != nil {
					return err
				}
				return c.printMessages(messages, body)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "max", "n", 10, "how many messages to look at, 1 to 32")
	cmd.Flags().BoolVar(&body, "body", false, "show the bodies")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.serverFlags(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queuePeek(ctx context.Context, q app.FleetQueue, limit int, body bool) error {
	ctx, cancel := c.patiently(ctx)
	defer cancel()
	peeked, err := q.PeekPacked(ctx, limit)
	if err != nil {
		return err
	}
	messages, err := triage.DescribeAll(ctx, peeked.Messages, body, triage.Room{})
	if err != nil {
		return err
	}
	return c.printMessages(messages, body)
}

func (c *cli) printMessages(messages []message, body bool) error {
	return printList(c, messages, func(messages []message) *table { return messageTable(messages, body) })
}

func messageTable(messages []message, body bool) *table {
	heads := []string{"MESSAGE ID", ">AGE", ">DELIVERIES", ">BYTES", "EXPIRES", "HEADERS", "NOTE"}
	if body {
		heads = append(heads, "BODY")
	}
	t := newTable("no message is visible", heads...)
	for _, m := range messages {
		if m.Partial && m.Error == "" {
			m.Error = "its body was left out, the answer is full: ask for fewer with --max"
		}
		row := []any{m.MessageID, brief(seconds(m.AgeSeconds)), m.DequeueCount, m.SizeBytes, expires(m.ExpiresAt), headers(m.Headers), cell{m.Error, bad}}
		if body {
			row = append(row, m.Text())
		}
		t.add(row...)
	}
	return t
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func expires(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

func headers(h map[string]string) string {
	pairs := make([]string, 0, len(h))
	for _, k := range slices.Sorted(maps.Keys(h)) {
		pairs = append(pairs, fmt.Sprintf("%s=%s", k, h[k]))
	}
	if len(pairs) == 0 {
		return unknown
	}
	return strings.Join(pairs, " ")
}

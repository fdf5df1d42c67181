package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/queue"
)

// message is one message as the commands print it.
type message struct {
	MessageID    string            `json:"messageId"`
	DequeueCount int               `json:"dequeueCount"`
	InsertedAt   time.Time         `json:"insertedAt"`
	ExpiresAt    *time.Time        `json:"expiresAt,omitempty"` // absent: never
	AgeSeconds   float64           `json:"ageSeconds"`
	SizeBytes    int               `json:"sizeBytes"`
	Headers      map[string]string `json:"headers,omitempty"`
	Error        string            `json:"error,omitempty"` // why the body cannot be read
	payload
}

// payload is a message's body, where it was asked for.
type payload struct {
	Body   *string `json:"body,omitempty"`
	Body64 []byte  `json:"body64,omitempty"` // instead, when it is not text
}

// payloadOf is the body of a message, or its exact wire text when the body cannot be read.
func payloadOf(m *queue.Message) payload {
	b := m.Body
	if m.Err != nil {
		b = []byte(m.Text)
	}
	if !utf8.Valid(b) {
		return payload{Body64: b}
	}
	s := string(b)
	return payload{Body: &s}
}

// text is a body for a cell of a table.
func (p payload) text() string {
	switch {
	case p.Body != nil:
		return *p.Body
	case p.Body64 != nil:
		return string(p.Body64)
	default:
		return ""
	}
}

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
			return c.onQueue(cmd.Context(), args[0], func(ctx context.Context, q app.FleetQueue) error {
				return c.queuePeek(ctx, q, limit, body)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "max", "n", 10, "how many messages to look at, 1 to 32")
	cmd.Flags().BoolVar(&body, "body", false, "show the bodies")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) queuePeek(ctx context.Context, q app.FleetQueue, limit int, body bool) error {
	ctx, cancel := c.patiently(ctx)
	defer cancel()
	peeked, err := q.Peek(ctx, limit)
	if err != nil {
		return err
	}
	messages := make([]message, 0, len(peeked.Messages))
	for _, m := range peeked.Messages {
		messages = append(messages, describe(m, body))
	}
	return printList(c, messages, func(messages []message) *table { return messageTable(messages, body) })
}

func describe(m *queue.Message, body bool) message {
	d := message{
		MessageID: m.ID, DequeueCount: m.DequeueCount, InsertedAt: m.InsertedAt, ExpiresAt: expiry(m.ExpiresAt),
		AgeSeconds: m.Age().Seconds(), SizeBytes: len(m.Body), Headers: m.Headers,
	}
	if m.Err != nil {
		d.SizeBytes, d.Error = len(m.Text), m.Err.Error()
	}
	if body {
		d.payload = payloadOf(m)
	}
	return d
}

// expiry is nil for a message that never expires: the service says so by the year 9999.
func expiry(t time.Time) *time.Time {
	if t.IsZero() || t.Year() >= 9999 {
		return nil
	}
	return &t
}

func messageTable(messages []message, body bool) *table {
	heads := []string{"MESSAGE ID", ">AGE", ">DELIVERIES", ">BYTES", "EXPIRES", "HEADERS", "NOTE"}
	if body {
		heads = append(heads, "BODY")
	}
	t := newTable("no message is visible", heads...)
	for _, m := range messages {
		row := []any{m.MessageID, brief(seconds(m.AgeSeconds)), m.DequeueCount, m.SizeBytes, expires(m.ExpiresAt), headers(m.Headers), cell{m.Error, bad}}
		if body {
			row = append(row, m.text())
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

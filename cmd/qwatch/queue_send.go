package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// sent is what `queue send` prints.
type sent struct {
	MessageID     string     `json:"messageId"`
	InsertedAt    time.Time  `json:"insertedAt"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty"` // absent: never
	NextVisibleAt time.Time  `json:"nextVisibleAt"`
}

func (c *cli) queueSendCommand() *cobra.Command {
	var headers []string
	var delay, ttl, kind string
	var raw bool
	cmd := &cobra.Command{
		Use:   "send ACCOUNT/QUEUE {BODY|-}",
		Short: "Send one message",
		Long: `Send one message: the body as it is given, or with - what standard input holds, byte for
byte. The queue's encoding and, where headers travel along, the envelope are put around it.

Durations are Go durations, plus d for days.`,
		Example: `  qwatch queue send orders/orders '{"orderId":7}'
  qwatch queue send orders/orders - < order.json
  qwatch queue send orders/orders '{"orderId":7}' --header tenant=north --delay 10m --ttl never`,
		Args:              exact("ACCOUNT/QUEUE", "BODY (or - for standard input)"),
		ValidArgsFunction: c.completeQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := sendOptions(headers, delay, ttl, kind)
			if err != nil {
				return err
			}
			if raw && (len(opts.Headers) > 0 || kind != "") {
				return usagef("--raw sends the text as it is: --header and --type have no place in it")
			}
			return c.onQueue(cmd.Context(), args[0], func(ctx context.Context, q app.FleetQueue) error {
				return c.queueSend(ctx, q, args[1], opts, raw)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&headers, "header", nil, "a header, as `NAME=VALUE`; may be repeated")
	f.StringVar(&delay, "delay", "", "hide the message for a `duration`, up to 7d")
	f.StringVar(&ttl, "ttl", "", "the message's time to live: a `duration`, or never (default the service's 7d)")
	f.StringVar(&kind, "type", "", "the message's type, sent in the queue's type header")
	f.BoolVar(&raw, "raw", false, "send the exact wire text: no encoding, no envelope")
	c.timeoutFlag(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func sendOptions(headers []string, delay, ttl, kind string) (queue.SendOptions, error) {
	opts := queue.SendOptions{MessageType: kind}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return opts, usagef("--header %q must be NAME=VALUE", h)
		}
		if opts.Headers == nil {
			opts.Headers = map[string]string{}
		}
		if _, twice := opts.Headers[name]; twice {
			return opts, usagef("--header %s is given twice", name)
		}
		opts.Headers[name] = value
	}
	var err error
	if delay != "" {
		if opts.Delay, err = config.ParseDuration(delay); err != nil || opts.Delay < 0 || opts.Delay > queue.MaxVisibility {
			return opts, usagef("--delay %q must be a duration of 0 to 7d, like 10m", delay)
		}
	}
	switch {
	case ttl == "never":
		opts.TimeToLive = queue.Never
	case ttl != "":
		if opts.TimeToLive, err = config.ParseDuration(ttl); err != nil || opts.TimeToLive <= 0 {
			return opts, usagef("--ttl %q must be a duration above zero, like 12h, or never", ttl)
		}
	}
	return opts, nil
}

// maxInput bounds what is read of standard input: far above what any queue takes, so
// that the queue's own error tells the size.
const maxInput = 1 << 20

func (c *cli) queueSend(ctx context.Context, q app.FleetQueue, body string, opts queue.SendOptions, raw bool) error {
	if body == "-" {
		b, err := io.ReadAll(io.LimitReader(c.stdin, maxInput+1))
		if err != nil {
			return fmt.Errorf("read the body from standard input: %w", err)
		}
		if len(b) > maxInput {
			return fmt.Errorf("the body on standard input is over 1 MiB; a queue takes 64 KiB")
		}
		body = string(b)
	}
	ctx, cancel := c.patiently(ctx)
	defer cancel()
	var r queue.SendResult
	var err error
	if raw {
		r, err = q.SendText(ctx, body, opts)
	} else {
		r, err = q.Send(ctx, []byte(body), opts)
	}
	if err != nil {
		return err
	}
	s := sent{MessageID: r.ID, InsertedAt: r.InsertedAt, ExpiresAt: expiry(r.ExpiresAt), NextVisibleAt: r.NextVisibleAt}
	return c.printOne(s, func(w io.Writer) {
		fmt.Fprintf(w, "%s sent to %s, visible from %s, expires %s\n", s.MessageID, q, s.NextVisibleAt.UTC().Format(time.RFC3339), expires(s.ExpiresAt))
	})
}

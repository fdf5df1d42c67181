package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue"
)

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
			m, err := c.outgoing(args[1], opts, raw)
			if err != nil {
				return err
			}
			return c.onQueueOrServer(cmd.Context(), args[0], func(ctx context.Context, q app.FleetQueue) error {
				ctx, cancel := c.patiently(ctx)
				defer cancel()
				s, err := m.Send(ctx, q.Queue)
				return c.printSent(q, s, err)
			}, func(ctx context.Context, cl *client.Client, account, queue string) error {
				s, err := cl.Send(ctx, account, queue, m)
				return c.printSent(queueOnServer{cl, account, queue}, s, err)
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
	c.serverFlags(cmd)
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

// outgoing is the message that the arguments say.
func (c *cli) outgoing(body string, opts queue.SendOptions, raw bool) (triage.Outgoing, error) {
	if body == "-" {
		b, err := io.ReadAll(io.LimitReader(c.stdin, maxInput+1))
		if err != nil {
			return triage.Outgoing{}, fmt.Errorf("read the body from standard input: %w", err)
		}
		if len(b) > maxInput {
			return triage.Outgoing{}, fmt.Errorf("the body on standard input is over 1 MiB; a queue takes 64 KiB")
		}
		body = string(b)
	}
	m := triage.Outgoing{Headers: opts.Headers, Type: opts.MessageType, Delay: triage.Duration(opts.Delay), Raw: raw}
	if opts.TimeToLive == queue.Never {
		m.Never = true
	} else {
		m.TTL = triage.Duration(opts.TimeToLive)
	}
	if raw || utf8.ValidString(body) {
		m.Body = &body
	} else {
		m.Body64 = []byte(body)
	}
	return m, nil
}

func (c *cli) printSent(q fmt.Stringer, s triage.Sent, err error) error {
	if err != nil {
		return err
	}
	return c.printOne(s, func(w io.Writer) {
		fmt.Fprintf(w, "%s sent to %s, visible from %s, expires %s\n", s.MessageID, q, s.NextVisibleAt.UTC().Format(time.RFC3339), expires(s.ExpiresAt))
	})
}

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// Triage carries a command out through the server, and tells its events to sink as triage.Run does. An
// end of ctx ends it there too; what changes something then still tells its result, and the error is ctx's.
func (c *Client) Triage(ctx context.Context, account, queue string, cmd triage.Command, sink func(triage.Event) error) error {
	r := request{method: http.MethodGet, path: []string{"api", "v1", "poison", account, queue}, accept: eventStream, slow: true}
	switch cmd.Operation {
	case triage.List:
		r.query = query(cmd)
	case triage.Export:
		r.query, r.path = query(cmd), append(r.path, string(cmd.Operation))
	default:
		body, err := jsonBody(cmd)
		if err != nil {
			return err
		}
		r.method, r.path, r.body, r.kind = http.MethodPost, append(r.path, string(cmd.Operation)), body, "application/json"
	}
	if cmd.Operation == triage.List || cmd.Operation == triage.Export {
		resp, err := c.do(ctx, r)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // it was only read
		return c.events(ctx, resp.Body, sink)
	}
	until := c.stoppedWith(ctx, account, queue)
	defer until.end()
	resp, err := c.do(until, r)
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // it was only read
		until.begun(resp)
		err = c.events(ctx, resp.Body, sink)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, poison.ErrCanary) {
		return ctx.Err()
	}
	return err
}

func query(cmd triage.Command) url.Values {
	v := url.Values{}
	set := func(name string, ok bool, value string) {
		if ok {
			v.Add(name, value)
		}
	}
	for _, k := range cmd.Categories {
		v.Add("category", string(k))
	}
	for _, id := range cmd.IDs {
		v.Add("id", id)
	}
	set("all", cmd.All, "true")
	set("body", cmd.Body, "true")
	set("history", cmd.History, "true")
	set("reason", cmd.Reason != "", cmd.Reason)
	set("olderThan", cmd.OlderThan != 0, time.Duration(cmd.OlderThan).String())
	set("newerThan", cmd.NewerThan != 0, time.Duration(cmd.NewerThan).String())
	set("lease", cmd.Lease != 0, time.Duration(cmd.Lease).String())
	set("limit", cmd.Limit != 0, strconv.Itoa(cmd.Limit))
	return v
}

// events reads a stream to its end.
func (c *Client) events(ctx context.Context, r io.Reader, sink func(triage.Event) error) error {
	return stream(ctx, c, r, func(e triage.Event) (ended bool, err error) {
		ended = e.Summary != nil || e.Result != nil
		if e.Error != "" && e.Result == nil {
			return true, errors.New(e.Error)
		}
		if err := sink(e); err != nil {
			return ended, err
		}
		if e.Error != "" {
			if e.Result.Canary != nil && e.Result.Canary.Outcome != "" && e.Result.Canary.Outcome != poison.CanaryPassed {
				return true, fmt.Errorf("%w%s", poison.ErrCanary, strings.TrimPrefix(e.Error, poison.ErrCanary.Error()))
			}
			return true, errors.New(e.Error)
		}
		return ended, nil
	})
}

// Peek looks at up to max messages of a queue.
func (c *Client) Peek(ctx context.Context, account, queue string, max int, body bool) (ms []triage.Message, err error) {
	v := url.Values{"max": {strconv.Itoa(max)}}
	if body {
		v.Set("body", "true")
	}
	err = c.whole(ctx, request{method: http.MethodGet, path: messages(account, queue), query: v, bodies: body}, &ms)
	return ms, err
}

// Send puts a message on a queue.
func (c *Client) Send(ctx context.Context, account, queue string, m triage.Outgoing) (s triage.Sent, err error) {
	if m.Body != nil && !utf8.ValidString(*m.Body) {
		return s, errors.New("the body is not UTF-8, which the wire cannot carry as it is")
	}
	body, err := jsonBody(m)
	if err != nil {
		return s, err
	}
	err = c.whole(ctx, request{method: http.MethodPost, path: messages(account, queue), body: body, kind: "application/json"}, &s)
	return s, err
}

// Clear deletes every message of a queue, or only counts them.
func (c *Client) Clear(ctx context.Context, account, queue string, dryRun bool) (d triage.Cleared, err error) {
	v := url.Values{}
	if dryRun {
		v.Set("dryRun", "true")
	}
	err = c.whole(ctx, request{method: http.MethodDelete, path: messages(account, queue), query: v}, &d)
	return d, err
}

func messages(account, queue string) []string {
	return []string{"api", "v1", "queues", account, queue, "messages"}
}

// Queues reads what the server knows of every queue into v, whose JSON is that of GET /api/v1/queues.
func (c *Client) Queues(ctx context.Context, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "queues"}}, v)
}

// Queue reads what the server knows of one queue into v, whose JSON is that of GET /api/v1/queues/….
func (c *Client) Queue(ctx context.Context, account, queue string, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "queues", account, queue}}, v)
}

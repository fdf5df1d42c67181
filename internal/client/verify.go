package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/verify"
)

// Verify has the server rehearse on the account of that name, or on all of its accounts for "", with that
// visibility timeout, 0 for the default, and tells the events to sink as verify.Rehearse does. An end of ctx ends
// it there too, and its queues are removed.
func (c *Client) Verify(ctx context.Context, account string, lease time.Duration, sink func(verify.Event) error) error {
	body, err := jsonBody(struct {
		Account string          `json:"account,omitempty"`
		Lease   triage.Duration `json:"lease,omitempty"`
	}{account, triage.Duration(lease)})
	if err != nil {
		return err
	}
	resp, err := c.do(ctx, request{
		method: http.MethodPost, path: []string{"api", "v1", "verify"}, body: body, kind: "application/json",
		accept: eventStream, slow: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	return stream(ctx, c, resp.Body, func(e verify.Event) (last bool, err error) {
		if e.Error != "" && e.Account == "" {
			return true, errors.New(e.Error)
		}
		return e.Over, sink(e)
	})
}

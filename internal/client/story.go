package client

import (
	"context"
	"net/http"
	"net/url"
)

// Fleet reads the worst of the fleet, or what the query asks for, into v.
func (c *Client) Fleet(ctx context.Context, query url.Values, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "fleet"}, query: query}, v)
}

// Why reads one queue's story into v.
func (c *Client) Why(ctx context.Context, account, queue string, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "why", account, queue}}, v)
}

// Tune reads the advice for one queue into v.
func (c *Client) Tune(ctx context.Context, account, queue string, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "tune", account, queue}}, v)
}

// TuneAll reads the advice for every queue that has a consumer in that process into v, a pointer to a slice.
func (c *Client) TuneAll(ctx context.Context, v any) error {
	return c.whole(ctx, request{method: http.MethodGet, path: []string{"api", "v1", "tune"}}, v)
}

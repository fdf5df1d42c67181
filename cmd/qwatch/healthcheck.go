package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (c *cli) healthcheckCommand() *cobra.Command {
	var address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running qwatch whether it is ready",
		Long: `Ask a running qwatch whether it is ready, for images that have no curl.

Exit status 0: it answered 200; 1: it answered something else, or not at all.
The answer's body says why and is printed.`,
		Example: `  qwatch healthcheck
  qwatch healthcheck --url http://127.0.0.1:9781/livez
  HEALTHCHECK CMD ["/qwatch", "healthcheck"]   # in a Dockerfile`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(address)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return usagef("--url must be an http or https address, like http://127.0.0.1:9781/readyz")
			}
			if timeout <= 0 {
				return usagef("--timeout must be above zero")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return c.healthcheck(ctx, u)
		},
	}
	cmd.Flags().StringVar(&address, "url", "http://127.0.0.1:9781/readyz", "the probe to ask, an `address`")
	timeout = 3 * time.Second
	cmd.Flags().Var((*duration)(&timeout), "timeout", "how long to wait for the answer")
	return cmd
}

func (c *cli) healthcheck(ctx context.Context, u *url.URL) error {
	// Container engines keep what a health check prints: no password, no query.
	address := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	// A probe is asked directly: no proxy from the environment, no redirect.
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the rest of it is told here
		}
		return fmt.Errorf("healthcheck: ask %s: %w; is qwatch running, and is this its server.probes address?", address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("healthcheck: read the answer of %s: %w", address, err)
	}
	var text strings.Builder
	for line := range strings.Lines(strings.TrimSpace(string(body))) {
		text.WriteString(clean(strings.TrimRight(line, "\r\n")) + "\n")
	}
	if err := c.write([]byte(text.String())); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s answered %d", address, resp.StatusCode)
	}
	return nil
}

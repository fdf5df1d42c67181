package grafana

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 32 << 20

// Config says which Grafana, and how to reach it.
type Config struct {
	// URL is Grafana's address, with the path it is served at, if any. Required; http or https.
	URL string
	// Token of a service account. Required; it is sent to URL and nowhere else, and never written anywhere.
	Token string
	// CA holds certificates in PEM to trust instead of the system's. Default: the system's.
	CA []byte
	// Timeout of a request. Default 30s.
	Timeout time.Duration
	// Agent is the User-Agent. Default "qwatch".
	Agent string
}

// A Client talks to a Grafana. It may be used by several goroutines at once.
type Client struct {
	base  *url.URL
	token string
	agent string
	http  *http.Client
}

// New returns a client. It makes no request.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	var faults []error
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		faults = append(faults, errors.New("the URL is not an absolute http or https one"))
	case base.User != nil:
		faults = append(faults, errors.New("the URL holds a user: sign in with a token"))
	case base.RawQuery != "" || base.Fragment != "":
		faults = append(faults, errors.New("the URL has a query or a fragment: give the address only"))
	}
	if strings.TrimSpace(c.Token) == "" || strings.ContainsAny(strings.TrimSpace(c.Token), " \t\r\n") {
		faults = append(faults, errors.New("the token is empty or has blanks in it"))
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if len(c.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c.CA) {
			faults = append(faults, errors.New("the CA holds no certificate in PEM"))
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("reach grafana: %w", err)
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Agent == "" {
		c.Agent = "qwatch"
	}
	return &Client{base: base, token: strings.TrimSpace(c.Token), agent: c.Agent, http: &http.Client{
		Transport: transport, Timeout: c.Timeout,
		// Another address would be sent what is meant for this one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A StatusError is an answer that is no success.
type StatusError struct {
	Status  int    // HTTP's
	Message string // Grafana's own words; may be empty
}

// Error says what the status means for the one who pushes.
func (e *StatusError) Error() string {
	cure := map[int]string{
		http.StatusUnauthorized:       "the token is not accepted: it may be wrong, expired or of another Grafana",
		http.StatusForbidden:          "the token may not do this: its service account needs the role Editor",
		http.StatusNotFound:           "there is no such thing: is the URL Grafana's, with the path it is served at?",
		http.StatusPreconditionFailed: "it changed meanwhile, or something else has its name: run again",
	}[e.Status]
	if cure == "" && e.Status >= 300 && e.Status < 400 {
		cure = "it redirects: use the address it redirects to"
	}
	parts := []string{fmt.Sprintf("grafana answered %d", e.Status)}
	for _, s := range []string{e.Message, cure} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// isMissing says that the thing asked for is not there.
func isMissing(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status == http.StatusNotFound
}

// call sends body, if any, as JSON and reads the answer into result, if any.
func (c *Client) call(ctx context.Context, method, path string, body, result any, headers ...string) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write the request: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base.String(), "/")+path, sent)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end below, or given up
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return &StatusError{resp.StatusCode, message(text)}
	case len(text) > maxAnswer:
		return fmt.Errorf("read the answer: it has more than %d bytes", maxAnswer)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("read the answer: it is not Grafana's JSON: %w", err)
	}
	return nil
}

// message is what an answer says for people, in one short line.
func message(text []byte) string {
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil {
		return ""
	}
	s := strings.Join(strings.Fields(said.Message), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

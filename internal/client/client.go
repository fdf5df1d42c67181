// Package client asks a running qwatch for what would otherwise need a way to the storage account.
//
// It is the other side of package web's requests that call storage, and speaks in package triage's words.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config says where qwatch is, and who asks. Its zero value is not usable.
type Config struct {
	// URL of the main listener: http:// or https://, perhaps with user:password@ for its basic
	// authentication, perhaps with a path a proxy puts before it. Required.
	URL string
	// Token of server.tokensFile. "" sends none.
	Token string
	// CAFile holds the certificates that sign the server's, as PEM. Default: the system's.
	CAFile string
	// CertFile and KeyFile are a client certificate, as PEM.
	CertFile, KeyFile string
	// Timeout bounds how long to wait for the beginning of an answer. Default 15 s.
	Timeout time.Duration
	// UserAgent names the program. Default "qwatch".
	UserAgent string
}

// Client asks one qwatch. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	cfg   Config
	http  *http.Client
	basic *url.Userinfo
}

// New returns a client. It makes no request. The error joins every fault of the configuration, without
// showing its secrets.
func New(cfg Config) (*Client, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "qwatch"
	}
	var errs []error
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the server is not a URL like http://localhost:9780")
	case u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, errors.New("the server's URL has a query or a fragment: end it before them"))
	}
	t, err := cfg.transport()
	errs = append(errs, err)
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, errors.New("the token has characters that no token has"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c := &Client{base: u, cfg: cfg, basic: u.User}
	u.User = nil
	u.Path = strings.TrimRight(u.Path, "/")
	c.http = &http.Client{
		Transport: t,
		// A redirect could carry the token elsewhere, and turns a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// String returns the server's URL, without a password.
func (c *Client) String() string { return c.base.String() }

func (cfg Config) transport() (*http.Transport, error) {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
		TLSHandshakeTimeout: cfg.Timeout, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	var errs []error
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s holds no certificate", cfg.CAFile)
		}
		errs = append(errs, err)
		t.TLSClientConfig.RootCAs = pool
	}
	switch {
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		errs = append(errs, errors.New("a client certificate and its key go together: give both"))
	case cfg.CertFile != "":
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		errs = append(errs, err)
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, errors.Join(errs...)
}

// Close releases connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Bounds of an answer that is read as a whole.
const (
	maxAnswer = 64 << 20
	maxBodies = 512 << 20 // with the bodies of messages, of which each may be unpacked and escaped
)

// request is one to make.
type request struct {
	method string
	path   []string // segments
	query  url.Values
	body   io.Reader
	kind   string // the body's media type
	accept string
	slow   bool // the answer may begin late
	bodies bool // the answer has messages' bodies in it
	kept   bool // an answer that is JSON says what was done, whatever its status
}

// do makes a request; the caller closes the answer's body. Errors: *Error, and what keeps qwatch from
// being asked.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	u := *c.base
	for _, s := range r.path {
		u.RawPath = u.EscapedPath() + "/" + url.PathEscape(s)
		u.Path += "/" + s
	}
	u.RawQuery = r.query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	if !r.slow {
		t := time.AfterFunc(c.cfg.Timeout, func() {
			cancel(fmt.Errorf("no answer within %v; give it more with --timeout, or see whether it is well", c.cfg.Timeout))
		})
		defer t.Stop()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), r.body)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("ask %s: %w", c, err)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Qwatch-Token", c.cfg.Token)
	}
	if c.basic != nil {
		password, _ := c.basic.Password()
		req.SetBasicAuth(c.basic.Username(), password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		cause := context.Cause(ctx)
		cancel(nil)
		if cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("ask %s: %w", c, unasked(err))
	}
	resp.Body = cancelling{resp.Body, cancel}
	if r.kept && resp.Header.Get("Qwatch-Result") != "" {
		return resp, nil
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }() // it was only read
		return nil, fmt.Errorf("ask %s: %w", c, readError(resp))
	}
	return resp, nil
}

type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close ends the request.
func (c cancelling) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}

// whole makes a request and reads its answer, JSON, into v.
func (c *Client) whole(ctx context.Context, r request, v any) error {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	most := maxAnswer
	if r.bodies {
		most = maxBodies
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case err != nil:
		return c.cut(ctx)
	case len(b) > most:
		return fmt.Errorf("read the answer of %s: it is larger than %d MiB; is it qwatch's main listener?", c, most>>20)
	case json.Unmarshal(b, v) != nil:
		return c.strange()
	}
	return nil
}

func jsonBody(v any) (io.Reader, error) {
	b, err := json.Marshal(v)
	return bytes.NewReader(b), err
}

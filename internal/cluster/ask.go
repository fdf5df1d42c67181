package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// ForwardTimeout bounds Router.Forward, so that whoever asked has an answer within half a second.
	ForwardTimeout = 450 * time.Millisecond
	// HopHeader is what a request from one replica to another carries: it is never passed on.
	HopHeader = "Qwatch-Hop"
	// maxAnswer bounds what another replica may answer, in bytes.
	maxAnswer = 32 << 20
	// maxAsked is how many questions to other replicas are under way at once; more wait for their turn.
	maxAsked = 128
	// maxSecretFile bounds the files of credentials, in bytes.
	maxSecretFile = 64 << 10
)

// PeersConfig says how other replicas are talked to. The zero value suits replicas whose main listener is plain HTTP.
type PeersConfig struct {
	// CAFile holds the authorities, in PEM, that sign the replicas' certificates. Default: the system's.
	CAFile string
	// ServerName is the name the replicas' certificates are checked against. Default: the host that is asked.
	ServerName string
	// TokenFile holds a reader's token, sent as "Authorization: Bearer". Read again for every request. Default: none.
	TokenFile string
	// Username and PasswordFile are the basic authentication of the replicas' main listener. The file is read again
	// for every request. Default: none.
	Username, PasswordFile string
	// Transport replaces the HTTP client, as tests need. Default: one of its own.
	Transport http.RoundTripper
}

// asker asks other replicas.
type asker struct {
	cfg    PeersConfig
	client *http.Client
	slots  *semaphore.Weighted
	close  func()
}

func newAsker(cfg PeersConfig) (*asker, error) {
	a := &asker{cfg: cfg, slots: semaphore.NewWeighted(maxAsked), close: func() {}}
	transport := cfg.Transport
	if transport == nil {
		conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
		if cfg.CAFile != "" {
			pem, err := os.ReadFile(cfg.CAFile)
			if err != nil {
				return nil, fmt.Errorf("read the authorities of the replicas: %w", err)
			}
			conf.RootCAs = x509.NewCertPool()
			if !conf.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%s holds no certificate in PEM", cfg.CAFile)
			}
		}
		t := &http.Transport{ // no proxy: replicas are neighbours
			DialContext:         (&net.Dialer{Timeout: ForwardTimeout, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:     conf,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     time.Minute,
			ForceAttemptHTTP2:   true,
		}
		transport, a.close = t, t.CloseIdleConnections
	}
	a.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a, nil
}

// ask makes one GET of a path at a replica's base URL. The error does not name credentials.
func (a *asker) ask(ctx context.Context, base, target string) (*Answer, error) {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil, fmt.Errorf("ask %s: %q is not an absolute path", base, target)
	}
	ctx, cancel := context.WithTimeout(ctx, ForwardTimeout)
	defer cancel()
	if err := a.slots.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("ask %s: too many questions are under way: %w", base, err)
	}
	defer a.slots.Release(1)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+target, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", base, err)
	}
	r.Header.Set(HopHeader, "1")
	r.Header.Set("User-Agent", "qwatch")
	if err := a.sign(r); err != nil {
		return nil, fmt.Errorf("ask %s: %w", base, err)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL: it is named already
		}
		return nil, fmt.Errorf("ask %s: %w", base, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask %s: read the answer: %w", base, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("ask %s: the answer is larger than %d bytes", base, maxAnswer)
	}
	return &Answer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: body, From: base}, nil
}

// about is ask for a question about a queue: what only says that the question went wrong is no answer.
func (a *asker) about(ctx context.Context, base, target string) (*Answer, error) {
	if base == "" {
		return nil, fmt.Errorf("%w: it is not known yet", ErrUnavailable)
	}
	answer, err := a.ask(ctx, base, target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	why := ""
	switch s := answer.Status; {
	case s == http.StatusMisdirectedRequest:
		why = "it does not watch the queue any more"
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		why = "it refuses this replica's credentials"
	case s >= 300 && s < 400, s == http.StatusTooManyRequests, s >= 500 && s != http.StatusServiceUnavailable:
		why = "it answers " + http.StatusText(s)
	default:
		return answer, nil
	}
	return nil, fmt.Errorf("%w: ask %s: %s", ErrUnavailable, base, why)
}

// sign adds the credentials of a reader.
func (a *asker) sign(r *http.Request) error {
	switch {
	case a.cfg.TokenFile != "":
		token, err := secretFile(a.cfg.TokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case a.cfg.Username != "":
		password, err := secretFile(a.cfg.PasswordFile)
		if err != nil {
			return err
		}
		r.SetBasicAuth(a.cfg.Username, password)
	}
	return nil
}

// secretFile reads a secret, without the line end that editors leave. The error shows nothing of it.
func secretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || len(text) > maxSecretFile || strings.ContainsAny(secret, "\r\n\x00") {
		return "", fmt.Errorf("%s does not hold one secret on one line", path)
	}
	return secret, nil
}

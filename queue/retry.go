package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	retries       = 3
	retryDelay    = 200 * time.Millisecond
	maxRetryDelay = 5 * time.Second // a longer Retry-After ends the call with the refusal
)

// once starts a call of a single try. The call, its tries and the time between them end with
// AccountConfig.Timeout; each try with TryTimeout. Call cancel when the call is over.
func (a *Account) once(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	ctx, t := withTrace(ctx)
	return ctx, t, cancel
}

// idempotent starts a call that may be tried again after any failure that may pass.
func (a *Account) idempotent(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	ctx, t, cancel := a.once(ctx)
	return a.retrying(ctx, passing), t, cancel
}

// unambiguous starts a call that is tried again only when the service certainly did not act on the last try.
func (a *Account) unambiguous(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	ctx, t, cancel := a.once(ctx)
	return a.retrying(ctx, undone), t, cancel
}

func (a *Account) retrying(ctx context.Context, should func(*http.Response, error) bool) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{
		MaxRetries:    retries,
		TryTimeout:    a.cfg.TryTimeout,
		RetryDelay:    retryDelay,
		MaxRetryDelay: maxRetryDelay,
		ShouldRetry:   should,
	})
}

// passing says whether a failure may pass by itself.
func passing(resp *http.Response, err error) bool {
	if err != nil {
		return true
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// undone says whether a try failed passingly and certainly without effect.
func undone(resp *http.Response, err error) bool {
	if err != nil {
		return unsent(err)
	}
	return refusedBusy(resp)
}

// uncertain says whether a try failed in a way that leaves open what the service did.
func uncertain(resp *http.Response, err error) bool {
	if err != nil {
		return !unsent(err)
	}
	return resp.StatusCode >= 500 && !refusedBusy(resp) || resp.StatusCode == http.StatusRequestTimeout
}

func refusedBusy(resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(headerCode) == codeServerBusy
}

// Texts of net/http's errors that have no exported value. All of them mean that no byte of the request left.
var unsentTexts = []string{
	"http: server closed idle connection",
	"net/http: TLS handshake timeout",
	"http: server gave HTTP response to HTTPS client",
}

// unsent says whether an error proves that no request reached the service.
func unsent(err error) bool {
	var (
		op     *net.OpError
		dns    *net.DNSError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		auth   *signInError
	)
	switch {
	case errors.As(err, &auth), errors.As(err, &dns), errors.As(err, &cert), errors.As(err, &record):
		return true
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return true
	}
	return slices.Contains(unsentTexts, innermost(err).Error())
}

func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

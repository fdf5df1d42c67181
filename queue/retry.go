package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	retries       = 3
	retryDelay    = 200 * time.Millisecond // threefold each time
	maxRetryDelay = 5 * time.Second        // a longer Retry-After ends the call with the refusal
)

// again says whether a failed try may be repeated.
type again func(*http.Response, error) bool

// once starts a call of a single try. Call cancel when the call is over.
func (a *Account) once(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	return a.call(ctx, nil)
}

// idempotent starts a call that may be tried again after any failure that may pass.
func (a *Account) idempotent(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	return a.call(ctx, passing)
}

// unambiguous starts a call that is tried again only when the service certainly did not act on the last try.
func (a *Account) unambiguous(ctx context.Context) (context.Context, *callTrace, context.CancelFunc) {
	return a.call(ctx, undone)
}

func (a *Account) call(ctx context.Context, may again) (context.Context, *callTrace, context.CancelFunc) {
	ctx, t := withTrace(ctx)
	t.again = may
	return ctx, t, func() {}
}

// retrier is the policy that repeats tries, and bounds them and the call. It stands in for the SDK's,
// which takes two timers and two contexts for what nearly always is one try, turns a success into an
// error when the caller's context has just ended, and cannot be told what a failed try left open.
type retrier struct {
	try, whole time.Duration
}

// Do implements policy.Policy.
func (r retrier) Do(req *policy.Request) (*http.Response, error) {
	caller := req.Raw().Context()
	t := traceFrom(caller)
	if t == nil {
		_, t = withTrace(caller)
	}
	end := time.Now().Add(r.whole)
	patience := end // no try begins after
	if deadline, ok := caller.Deadline(); ok && deadline.Before(end) {
		patience = deadline
	}
	var (
		resp *http.Response
		err  error
	)
	for n := 1; ; n++ {
		if passed := pass(caller); passed != nil {
			return given(resp, err, passed)
		}
		ctx, cancel := context.WithTimeout(caller, min(r.try, time.Until(end)))
		resp, err = req.WithContext(ctx).Next()
		cancel() // the answer has been read
		if t.done != nil {
			return t.done, nil // whatever the SDK's own retry policy makes of a context that ended since
		}
		if t.again == nil || n > retries || final(err) || !t.again(resp, err) {
			return resp, err
		}
		delay, ok := retryPause(n, resp)
		if !ok || time.Until(patience) <= delay {
			return resp, err
		}
		if waited := retryWait(caller, delay); waited != nil {
			return given(resp, err, waited)
		}
	}
}

// given returns how a call ended that was stopped between two tries: with what the last try brought, which says more
// than that there was no time for another, unless there was none or the caller took the call back.
func given(resp *http.Response, err, stopped error) (*http.Response, error) {
	if resp == nil && err == nil || errors.Is(stopped, context.Canceled) {
		return nil, stopped
	}
	return resp, err
}

// final says whether an error declares itself beyond retrying, as a credential's does.
func final(err error) bool {
	var f interface{ NonRetriable() }
	return err != nil && errors.As(err, &f)
}

// retryPause returns how long to wait after the nth try: as the service asks, or growing; false when it
// asks for longer than a call waits.
func retryPause(n int, resp *http.Response) (time.Duration, bool) {
	if resp != nil {
		if d := retryAfter(resp.Header); d > 0 {
			return d, d <= maxRetryDelay
		}
	}
	d := retryDelay
	for range n - 1 {
		d *= 3
	}
	return time.Duration(float64(min(d, maxRetryDelay)) * (0.8 + 0.4*rand.Float64())), true
}

func retryWait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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

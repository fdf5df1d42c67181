package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

const (
	defaultTimeout = 30 * time.Second
	// maxAnswer is how much of an answer's body is read, to keep its connection.
	maxAnswer = 64 << 10
	// idleTimeout is shorter than the 5 s after which common servers close an idle connection: a
	// request that meets the closing would fail and cost the message an attempt.
	idleTimeout = 4 * time.Second
)

// CloudEvents is a form of CloudEvent.
type CloudEvents string

// The forms of a CloudEvent over HTTP.
const (
	CloudEventsOff        CloudEvents = ""           // the bare body
	CloudEventsBinary     CloudEvents = "binary"     // attributes as ce- headers, the body as data
	CloudEventsStructured CloudEvents = "structured" // one JSON document
)

// HTTPConfig describes an HTTP handler.
type HTTPConfig struct {
	// URL to post to, http or https. Its user and password go into an Authorization header. Required.
	URL queue.Secret
	// Timeout of one call, from connecting to the end of the answer. Default 30 s.
	Timeout time.Duration
	// Concurrency is how many idle connections are kept. Default: as many as calls ran at once.
	Concurrency int
	// CloudEvents sends each message as a CloudEvent. Default CloudEventsOff.
	CloudEvents CloudEvents
	// TLS of https calls. Default: the system's authorities.
	TLS *tls.Config
	// Dial makes the connections. Default: a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// HTTPHandler posts each message to a URL. It is safe for concurrent use.
type HTTPHandler struct {
	url       *url.URL
	timeout   time.Duration
	events    CloudEvents
	transport *http.Transport
}

// HTTP returns a handler that posts each message to a URL, without connecting. The error joins
// every fault of the configuration and shows nothing of the URL.
//
// The answer decides: Qwatch-Outcome, whatever the status; else 2xx completes, 400, 413, 415, 422 and 431
// dead-letter, 429 and 503 retry after Retry-After (seconds or a date, at most 7 days), anything else
// retries, redirects included. A Retry-After that asks for no delay is not obeyed, nor is an outcome
// that is not known: both retry with the configured delay. When no connection can be made the error
// is processor.Unavailable; when there is no answer in time it is context.DeadlineExceeded.
func HTTP(cfg HTTPConfig) (*HTTPHandler, error) {
	var errs []error
	u, err := url.Parse(cfg.URL.Reveal())
	switch {
	case err != nil:
		errs = append(errs, errors.New("the handler's URL cannot be parsed"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		errs = append(errs, errors.New("the handler's URL is not an absolute http or https URL"))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the handler's timeout %v is negative", cfg.Timeout))
	}
	if cfg.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("the handler's concurrency %d is negative", cfg.Concurrency))
	}
	switch cfg.CloudEvents {
	case CloudEventsOff, CloudEventsBinary, CloudEventsStructured:
	default:
		errs = append(errs, errors.New("the handler's form of CloudEvents is neither binary nor structured"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = processor.MaxConcurrency
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	return &HTTPHandler{
		url:     u,
		timeout: cfg.Timeout,
		events:  cfg.CloudEvents,
		transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            cfg.Dial,
			TLSClientConfig:        cfg.TLS.Clone(),
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    cfg.Concurrency,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}, nil
}

// Close closes the idle connections. Calls under way are not disturbed.
func (h *HTTPHandler) Close() { h.transport.CloseIdleConnections() }

// Handle implements processor.Handler.
func (h *HTTPHandler) Handle(ctx context.Context, m *processor.Message) error {
	call, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	// RoundTrip and not a Client, which reads redirects before it can be told not to follow them.
	resp, err := h.transport.RoundTrip(h.request(httptrace.WithClientTrace(call, trace), m))
	if err != nil {
		return h.failed(ctx, call, err, connected.Load())
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		// An answer that breaks off is none: its writer may have died half-way.
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
			return h.failed(ctx, call, err, true)
		}
	}
	return judge(resp)
}

func (h *HTTPHandler) request(ctx context.Context, m *processor.Message) *http.Request {
	header := facts(ctx, m)
	body := m.Body
	if h.events != CloudEventsOff {
		body = asCloudEvent(m, header, h.events)
	}
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           h.url,
		Host:          h.url.Host,
		Header:        header,
		Body:          http.NoBody,
		ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		// GetBody lets the transport start again on a kept connection that turns out closed before
		// anything was written.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	if user := h.url.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	return req.WithContext(ctx)
}

// failed tells why a call has no answer.
func (h *HTTPHandler) failed(ctx, call context.Context, err error, connected bool) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("call handler at %s: %w", h.url.Host, context.Cause(ctx))
	case call.Err() != nil:
		return &saidError{fmt.Sprintf("handler at %s gave no answer within %v", h.url.Host, h.timeout), context.DeadlineExceeded}
	case !connected:
		return processor.Unavailable(&saidError{fmt.Sprintf("connect to handler at %s: %s", h.url.Host, whyNotConnected(err)), err})
	default:
		return &saidError{fmt.Sprintf("handler at %s: %s", h.url.Host, whyNoAnswer(err)), err}
	}
}

// whyNotConnected tells the cause in words that quote nothing received.
func whyNotConnected(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "name not found"
	case errors.As(err, &dns):
		return "name lookup failed"
	case errors.As(err, &certificate):
		return "TLS: the certificate is not trusted: " + oneLine(certificate.Err.Error())
	case errors.As(err, &record):
		return "TLS: the server does not speak TLS"
	case errors.As(err, &alert):
		return "TLS: the server refused: " + alert.Error()
	case errors.As(err, &op) && op.Op == "remote error":
		return "TLS: the server refused: " + oneLine(op.Err.Error())
	case errors.As(err, &op) && op.Op == "dial":
		return oneLine(op.Err.Error())
	default:
		return "no connection"
	}
}

func whyNoAnswer(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle connection"):
		return "the connection was closed before the answer was complete"
	case errors.As(err, &op) && (op.Op == "read" || op.Op == "write"):
		return oneLine(op.Err.Error())
	default:
		return "the answer is not HTTP that can be read"
	}
}

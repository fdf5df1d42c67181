package queue

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// newHTTPClient returns a client that keeps as many idle connections as asked. The default
// transport keeps 10 a host, so that more handlers than that would dial for every request.
func newHTTPClient(connections int) *http.Client {
	var p http.Protocols
	p.SetHTTP1(true) // the service speaks no other, and one broken connection then fails one request
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   5 * time.Second,
			Protocols:             &p,
			DisableCompression:    true,
			MaxIdleConnsPerHost:   connections,
			IdleConnTimeout:       90 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
		// The service never redirects; whoever does must not be handed a signed request.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// signer is the last step before the transport. It adds the SAS, which so is never in a URL that
// anything above could print, and strips URLs from the transport's errors.
type signer struct {
	next   policy.Transporter
	signIn *signIn
	base   string // path of the account, before the queue's name
	http   bool   // next is net/http's client
}

// Do implements policy.Transporter.
func (s signer) Do(req *http.Request) (*http.Response, error) {
	sas := s.signIn.sas.Load()
	once := s.http && s.receives(req)
	sent := req
	if sas != nil || once {
		c := *req
		sent = &c
	}
	if sas != nil {
		u := *req.URL
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += sas.query
		sent.URL = &u
	}
	if once {
		// net/http silently repeats a GET whose kept-alive connection broke before the answer.
		// A repeated receive hides other messages and counts a delivery nobody sees. A request
		// whose body cannot be read again is not repeated.
		sent.Body = io.NopCloser(eof{})
	}
	resp, err := s.next.Do(sent)
	if err != nil {
		var u *url.Error
		for errors.As(err, &u) {
			err = u.Err
		}
		return nil, quiet(err)
	}
	if resp != nil {
		resp.Request = req
	}
	return resp, nil
}

func (s signer) receives(req *http.Request) bool {
	if req.Method != http.MethodGet || req.Body != nil {
		return false
	}
	op, _ := operationOf(req.Method, strings.TrimPrefix(req.URL.Path, s.base), req.URL.RawQuery)
	return op == OpReceive
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// quietError is a transport's error without the signature in its text.
type quietError struct {
	text  string
	cause error
}

// quiet returns an error whose text shows no signature; most do not anyway.
func quiet(err error) error {
	text := err.Error()
	if hidden := hideSignatures(text); hidden != text {
		return &quietError{text: hidden, cause: err}
	}
	return err
}

func (e *quietError) Error() string { return e.text }

// Is and As reach the cause, which Unwrap must not: it would be printed.
func (e *quietError) Is(target error) bool { return errors.Is(e.cause, target) }
func (e *quietError) As(target any) bool   { return errors.As(e.cause, target) }

// signInError says that no token could be had; the request was not sent.
type signInError struct{ cause error }

func (e *signInError) Error() string { return "sign in: " + e.cause.Error() }
func (e *signInError) Unwrap() error { return e.cause }

// NonRetriable tells the SDK's retry policy that the credential has tried for itself.
func (*signInError) NonRetriable() {}

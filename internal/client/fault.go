package client

import (
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
	"strings"
	"syscall"
)

// Error is an answer that is not a success.
type Error struct {
	Status  int
	Message string // what qwatch said; "" when that was not for us
	Cure    string // what to do about it; "" when Message says it, or nobody knows
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = fmt.Sprintf("it answered %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Cure != "" {
		text += "; " + e.Cure
	}
	return text
}

// What to do about answers, by their status: to those of qwatch itself, and to those of something else that is
// there, or in between.
var (
	ourCures = map[int]string{
		http.StatusUnauthorized: "the token comes from --token-file, QWATCH_TOKEN_FILE or QWATCH_TOKEN",
	}
	theirCures = map[int]string{
		http.StatusUnauthorized:        "it asks for a user and a password: write https://user:password@… in --server",
		http.StatusForbidden:           "something in front of qwatch refuses it: look at the proxy there",
		http.StatusNotFound:            "it has no such address: is it qwatch's main listener, and of this version?",
		http.StatusMethodNotAllowed:    "is it qwatch's main listener, and of this version?",
		http.StatusRequestTimeout:      "what is in front of qwatch did not wait: try again",
		http.StatusTooManyRequests:     "try again in a moment",
		http.StatusInternalServerError: "its log says why",
		http.StatusBadGateway:          "what is in front of qwatch cannot reach it: is it running? try again when it is",
		http.StatusServiceUnavailable:  "qwatch is starting or ending, or what is in front cannot reach it: try again in a moment",
		http.StatusGatewayTimeout:      "what is in front of qwatch did not wait for it: try again, or raise its timeout",
	}
)

// readError reads what an answer says that is not a success.
func readError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said struct {
		Error string `json:"error"`
	}
	if err == nil && json.Unmarshal(b, &said) == nil {
		e.Message = said.Error
	}
	switch {
	case strings.HasPrefix(e.Message, "there is no /"), strings.HasPrefix(e.Message, "method "), strings.Contains(e.Message, "unknown field"):
		e.Cure = "is it a qwatch of this version?"
	case e.Message != "":
		e.Cure = ourCures[e.Status]
	case e.Status == http.StatusBadRequest && strings.Contains(string(b), "HTTP request to an HTTPS server"):
		e.Message, e.Cure = "it speaks TLS", "write https:// in --server"
	case e.Status/100 == 3:
		e.Cure = "it is elsewhere, and a token is not sent on: name that address with --server" + whither(resp)
	default:
		e.Cure = theirCures[e.Status]
		if resp.StatusCode == http.StatusUnauthorized && signedIn(resp.Request) {
			e.Cure = "it refuses the user and password that --server gives: is the password right, and the user known there?"
		}
	}
	return e
}

// signedIn says whether a request gave a user and a password.
func signedIn(r *http.Request) bool {
	if r == nil {
		return false
	}
	_, _, ok := r.BasicAuth()
	return ok
}

// whither is the host a redirect leads to, in brackets.
func whither(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil || u.Host == "" {
		return ""
	}
	return " (" + (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() + ")"
}

// unasked tells why qwatch could not be asked: err without the URL, which may hold a queue's name or more, and the cure.
func unasked(err error) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if cure := unaskedCure(err); cure != "" {
		return fmt.Errorf("%w; %s", err, cure)
	}
	return err
}

func unaskedCure(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		name      *net.DNSError
	)
	switch text := err.Error(); {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &authority):
		return "if it is the right server, name the certificates that sign its own with --server-ca"
	case errors.As(err, &hostname):
		return "name it in --server as its certificate does"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "its certificate has to be renewed, or this machine's clock to be set"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "it speaks no TLS: write http:// in --server"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"), strings.Contains(text, "unknown certificate authority"):
		return "it wants a certificate of a client: give one that it knows with --server-cert and --server-key"
	case strings.Contains(text, "client conn could not be established"): // HTTP/2's words for any of these
		return "it refused this client: if it wants a certificate of it, give one that it knows with --server-cert and --server-key"
	case strings.Contains(text, "protocol version not supported"):
		return "it speaks TLS older than 1.2: it has to be renewed"
	case errors.As(err, &name):
		return "is the name in --server right, and known here?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is it running? --server has to name its main listener"
	case strings.Contains(text, "server closed idle connection"), strings.Contains(text, "malformed HTTP"), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it ended, or speaks no HTTP: is it qwatch's main listener? run it again when it is back"
	}
	return ""
}

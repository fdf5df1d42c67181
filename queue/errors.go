package queue

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// What a caller may match with errors.Is. Context errors can be matched as well.
var (
	// ErrLeaseLost: another receiver owns the message, or it is gone; nothing more can be done with it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrSettled: the message was completed, abandoned or dead-lettered before.
	ErrSettled = errors.New("message is settled already")
	// ErrNotLeased: the message was peeked, not received.
	ErrNotLeased = errors.New("message was peeked at, not received: there is no lease")
	// ErrQueueNotFound: the queue does not exist, or is being deleted.
	ErrQueueNotFound = errors.New("queue not found")
	// ErrTooLarge: the text is over the service's 64 KiB.
	ErrTooLarge = errors.New("message too large")
	// ErrUnreadable: the message's text cannot be decoded.
	ErrUnreadable = errors.New("unreadable message")
	// ErrNoKey: the message is encrypted, and the queue was opened without a key. It says nothing about
	// the message, which others may read; errors that wrap it wrap ErrUnreadable too.
	ErrNoKey = errors.New("the message is encrypted, and this queue has no key")
)

var (
	errNoCount   = errors.New("the answer has no message count")
	errNoReceipt = errors.New("the answer has no pop receipt")
)

// Codes of the service that decide something.
const (
	codeServerBusy      = "ServerBusy"
	codeTimedOut        = "OperationTimedOut"
	codeMessageNotFound = "MessageNotFound"
	codeReceiptMismatch = "PopReceiptMismatch"
	codeQueueNotFound   = "QueueNotFound"
	codeBeingDeleted    = "QueueBeingDeleted"
	codeBodyTooLarge    = "RequestBodyTooLarge"
	codeMessageTooLarge = "MessageTooLarge"
	codeAuthFailed      = "AuthenticationFailed"
	codeKeysDisabled    = "KeyBasedAuthenticationNotPermitted"
	codeFirewall        = "AuthorizationFailure"
	codeNoPermission    = "AuthorizationPermissionMismatch"
	codeNoResourceType  = "AuthorizationResourceTypeMismatch"
)

// StorageError is a failed operation on an account or a queue. Its text is one line and holds no secret.
//
// errors.Is matches ErrQueueNotFound, ErrLeaseLost (of OpUpdate and OpDelete) and ErrTooLarge by the
// service's code, and the context's errors. A try or a call that ran out of time matches
// context.DeadlineExceeded although the caller's own context may still be live.
type StorageError struct {
	Operation  Operation
	Account    string
	Queue      string        // "" for operations on the account
	Status     int           // HTTP status; 0 without an answer
	Code       string        // the service's error code, such as "QueueNotFound"; "" when it gave none
	Result     Result        // the class of the failure
	RetryAfter time.Duration // how long the service asked to wait; 0 when it did not

	hint  string
	cause error
}

// Error tells operation, object and cause: "receive from acct/orders: 404 QueueNotFound".
func (e *StorageError) Error() string {
	on := e.Account
	if e.Queue != "" {
		on += "/" + e.Queue
	}
	s := phrase(e.Operation) + " " + on + ": " + e.reason()
	if e.hint != "" {
		s += ": " + e.hint
	}
	return s
}

func (e *StorageError) reason() string {
	switch {
	case e.Status != 0 && e.Code != "":
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	case e.Status != 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	case errors.Is(e.cause, context.DeadlineExceeded):
		return "no answer in time"
	default:
		return oneLine(e.cause.Error())
	}
}

// Is matches the sentinels by the service's code.
func (e *StorageError) Is(target error) bool {
	settling := e.Operation == OpUpdate || e.Operation == OpDelete
	switch target {
	case ErrQueueNotFound:
		return e.Code == codeQueueNotFound || e.Code == codeBeingDeleted && e.Operation != OpCreate
	case ErrLeaseLost:
		return settling && (e.Code == codeMessageNotFound || e.Code == codeReceiptMismatch)
	case ErrTooLarge:
		return e.Code == codeBodyTooLarge || e.Code == codeMessageTooLarge || e.Status == http.StatusRequestEntityTooLarge
	}
	return false
}

// Unwrap returns the cause of a failure without an answer. Of an answer it returns nothing: the
// SDK's error would print all of it.
func (e *StorageError) Unwrap() error {
	if e.Status != 0 {
		return nil
	}
	return e.cause
}

func phrase(op Operation) string {
	switch op {
	case OpReceive:
		return "receive from"
	case OpPeek:
		return "peek at"
	case OpSend:
		return "send to"
	case OpUpdate:
		return "update message of"
	case OpDelete:
		return "delete message of"
	case OpClear:
		return "clear"
	case OpProperties:
		return "read properties of"
	case OpCreate:
		return "create queue"
	case OpDeleteQueue:
		return "delete queue"
	case OpList:
		return "list queues of"
	case OpSetMetadata:
		return "write metadata of"
	default:
		return "call"
	}
}

// wrap turns what the SDK returned for an operation into a *StorageError; nil stays nil.
func wrap(op Operation, account, queue string, err error) error {
	if err == nil {
		return nil
	}
	var done *StorageError
	if errors.As(err, &done) {
		return err
	}
	e := &StorageError{Operation: op, Account: account, Queue: queue, Result: Classify(err), cause: err}
	var resp *azcore.ResponseError
	if !errors.As(err, &resp) {
		return e
	}
	e.Status, e.Code = resp.StatusCode, resp.ErrorCode
	if raw := resp.RawResponse; raw != nil {
		e.RetryAfter = retryAfter(raw.Header)
		if raw.Request != nil {
			if t := traceFrom(raw.Request.Context()); t != nil {
				e.hint = t.hint
			}
		}
	}
	return e
}

// hasCode says whether the service answered with one of the codes.
func hasCode(err error, codes ...string) bool {
	var e *StorageError
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains(codes, e.Code)
}

// Classify tells how a storage call ended, from its error; nil is ResultOK.
func Classify(err error) Result {
	var (
		storage *StorageError
		resp    *azcore.ResponseError
		auth    *signInError
	)
	switch {
	case err == nil:
		return ResultOK
	case errors.As(err, &storage):
		return storage.Result
	case errors.As(err, &resp):
		return resultOfStatus(resp.StatusCode, resp.ErrorCode)
	case errors.Is(err, context.Canceled):
		return ResultOther
	case errors.Is(err, context.DeadlineExceeded):
		return ResultTimeout
	case errors.As(err, &auth):
		return ResultAuth
	case unsent(err): // before timeouts: who cannot even be dialed in time is not reachable
		return ResultNetwork
	case isTimeout(err):
		return ResultTimeout
	case isNetwork(err):
		return ResultNetwork
	}
	return ResultOther
}

func isTimeout(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.As(err, &timed) && timed.Timeout()
}

func isNetwork(err error) bool {
	var (
		op     net.Error
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
		host   x509.HostnameError
		errno  syscall.Errno
	)
	return errors.As(err, &op) || errors.As(err, &cert) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &host) || errors.As(err, &errno) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

func resultOf(resp *http.Response, err error) Result {
	if err != nil {
		return Classify(err)
	}
	return resultOfStatus(resp.StatusCode, resp.Header.Get(headerCode))
}

func resultOfStatus(status int, code string) Result {
	switch {
	case status >= 200 && status < 300:
		return ResultOK
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		return ResultAuth
	case status == http.StatusNotFound || status == http.StatusGone:
		return ResultNotFound
	case status == http.StatusConflict || status == http.StatusPreconditionFailed || code == codeReceiptMismatch:
		return ResultConflict
	case status == http.StatusTooManyRequests || code == codeServerBusy:
		return ResultThrottled
	case status == http.StatusRequestTimeout || code == codeTimedOut:
		return ResultTimeout
	case status >= 500:
		return ResultServer
	default:
		return ResultOther
	}
}

// retryAfter reads how long the service asks to wait.
func retryAfter(h http.Header) time.Duration {
	for _, name := range []string{"x-ms-retry-after-ms", "retry-after-ms", "Retry-After"} {
		unit := time.Millisecond
		if name == "Retry-After" {
			unit = time.Second
		}
		if n, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && n > 0 {
			return time.Duration(min(n, int64(24*time.Hour/unit))) * unit
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			return max(0, at.Sub(date))
		}
	}
	return 0
}

// oneLine makes a foreign error's text fit for a log line: one line, bounded, without a signature.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)), " ")
	return clip(hideSignatures(s), 300)
}

// hideSignatures blanks what follows a "?" and any sig= in a text: transports like to print URLs.
func hideSignatures(s string) string {
	lower := asciiLower(s)
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '?')
		if j := strings.Index(lower, "sig="); j >= 0 && (i < 0 || j < i) {
			i = j + len("sig") // keep the name
		}
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := strings.IndexAny(s[i+1:], " \"'")
		if end == 0 || strings.TrimSpace(s[i+1:]) == "" { // a plain question mark
			b.WriteString(s[:i+1])
			s, lower = s[i+1:], lower[i+1:]
			continue
		}
		b.WriteString(s[:i+1])
		b.WriteString(redacted)
		if end < 0 {
			return b.String()
		}
		s, lower = s[i+1+end:], lower[i+1+end:]
	}
}

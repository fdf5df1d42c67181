// Package forward holds the handlers that need no Go code: it gives each message to an HTTP
// endpoint or to a command, and reads what becomes of the message from the answer.
//
// Leases, retries and poison are package processor's. Nothing here logs, and no error holds a
// message's body, an answer's body, or more of a URL than its host.
package forward

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxReason bounds the reason that a handler gives, in bytes.
const maxReason = 1 << 10

// oneLine makes what a handler said fit for logs and poison records: one line of printable
// characters, bounded.
func oneLine(s string) string {
	if len(s) > 2*maxReason {
		s = s[:2*maxReason]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		case r == utf8.RuneError:
			return r
		default:
			return -1
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxReason {
		return s
	}
	n := maxReason - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// saidError is a failure in the handler's own words, or in ours for what it did. Its text never
// holds its cause's, which may quote what was sent or received.
type saidError struct {
	text  string
	cause error // may be nil
}

func (e *saidError) Error() string { return e.text }

func (e *saidError) Unwrap() error { return e.cause }

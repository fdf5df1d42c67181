package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

const (
	userAgent     = "qwatch"
	maxTraceState = 512 // what W3C has everyone carry
)

// facts are the headers that tell about a message. What a sender put into the message's own headers
// cannot reach outside of its Qwatch-Header- line, whatever it is.
func facts(ctx context.Context, m *processor.Message) http.Header {
	q := m.Queue()
	h := http.Header{
		"User-Agent":           {userAgent},
		"Content-Type":         {contentType(m)},
		"Qwatch-Account":       {escapeValue(q.Account().Name())},
		"Qwatch-Queue":         {q.Name()},
		"Qwatch-Message-Id":    {escapeValue(m.ID)},
		"Qwatch-Dequeue-Count": {strconv.Itoa(m.DequeueCount)},
		"Qwatch-Last-Attempt":  {strconv.FormatBool(m.LastAttempt())},
		"Qwatch-Inserted-At":   {m.InsertedAt.UTC().Format(time.RFC3339)},
	}
	if t := traceOf(ctx, m); t.Parent != "" {
		h["Traceparent"] = []string{t.Parent}
		if t.State != "" {
			h["Tracestate"] = []string{t.State}
		}
	}
	for _, name := range names(m.Headers) {
		key := textproto.CanonicalMIMEHeaderKey("Qwatch-Header-" + escapeName(name))
		h[key] = append(h[key], escapeValue(m.Headers[name]))
	}
	return h
}

// traceOf is the trace context that the handler goes on with: that of the span the message is processed
// in, or else the message's own. What is not well-formed is left out.
func traceOf(ctx context.Context, m *processor.Message) queue.TraceContext {
	t := queue.TraceFromContext(ctx)
	if t.Parent == "" {
		t = queue.TraceContext{Parent: m.TraceParent, State: m.TraceState}
	}
	if !traceparent.MatchString(t.Parent) {
		return queue.TraceContext{}
	}
	if len(t.State) > maxTraceState || escapeValue(t.State) != t.State {
		t.State = ""
	}
	return t
}

// names are those of the message's headers that have one, in order.
func names(headers map[string]string) []string {
	list := make([]string, 0, len(headers))
	for name := range headers {
		if name != "" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// traceparent is W3C trace context, version 00 and what later versions promise to keep.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// mediaType is a media type with its parameters, in the characters that they can have.
var mediaType = regexp.MustCompile(`^[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}( *;[ -~]{1,100})?$`)

// contentType is the message's own, else what its body looks like.
func contentType(m *processor.Message) string {
	for _, name := range names(m.Headers) {
		if v := m.Headers[name]; strings.EqualFold(name, "content-type") && mediaType.MatchString(v) {
			return v
		}
	}
	switch {
	case json.Valid(m.Body):
		return "application/json"
	case len(m.Body) > 0 && isText(m.Body):
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// isText says whether bytes are UTF-8 without control characters other than white space.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(b)
}

// escapeName percent-encodes what cannot stand in a header's name, and the percent sign.
func escapeName(s string) string {
	return escape(s, func(i int, c byte) bool {
		return c > ' ' && c < 0x7f && c != '%' && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", rune(c))
	})
}

// escapeValue percent-encodes what a header's value cannot carry unchanged: everything but printable
// ASCII, the percent sign, and space at either end.
func escapeValue(s string) string {
	return escape(s, func(i int, c byte) bool {
		return c > ' ' && c < 0x7f && c != '%' || c == ' ' && i > 0 && i < len(s)-1
	})
}

func escape(s string, plain func(i int, c byte) bool) string {
	for i := range len(s) {
		if !plain(i, s[i]) {
			var b strings.Builder
			for i := range len(s) {
				if c := s[i]; plain(i, c) {
					b.WriteByte(c)
				} else {
					fmt.Fprintf(&b, "%%%02X", c)
				}
			}
			return b.String()
		}
	}
	return s
}

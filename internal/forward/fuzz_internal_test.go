package forward

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qwatch/qwatch/queue"
)

// FuzzEscape checks that whatever a message's header holds becomes a name and a value that HTTP
// carries unchanged, and from which a reader gets the header back.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "tenant", "a\r\nX-Evil: 1", " x ", "100%", "é", "\x00\xff", "a:b", "%0D", `"q"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for what, escaped := range map[string]string{"name": escapeName(s), "value": escapeValue(s), "attribute": escapeAttribute(s)} {
			for _, c := range []byte(escaped) {
				if c < ' ' || c > '~' || what == "name" && strings.IndexByte(" \"(),/:;<=>?@[\\]{}", c) >= 0 || what == "attribute" && (c == ' ' || c == '"') {
					t.Errorf("%s %q of %q has %q", what, escaped, s, c)
				}
			}
			if strings.Trim(escaped, " ") != escaped {
				t.Errorf("%s %q of %q would be trimmed", what, escaped, s)
			}
			if back, err := url.PathUnescape(escaped); err != nil || back != s {
				t.Errorf("%s %q of %q reads back as %q, %v", what, escaped, s, back, err)
			}
		}
		if v := variable(s); strings.Trim(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			t.Errorf("variable %q of %q", v, s)
		}
	})
}

// FuzzAnswer checks that whatever a handler's answer holds, the reason is one bounded line and the
// delay one that a message can be hidden for.
func FuzzAnswer(f *testing.F) {
	f.Add("no such customer", "120", "")
	f.Add("a\r\nb\x1b[31m\u202e\xff", "Mon, 02 Jan 2006 15:14:05 GMT", "Mon, 02 Jan 2006 15:04:05 GMT")
	f.Add(strings.Repeat("é", 3000), "99999999999999999999999", "soon")
	f.Add("", "-1", "")
	f.Fuzz(func(t *testing.T, reason, after, date string) {
		line := oneLine(reason)
		if len(line) > maxReason || !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || strings.TrimSpace(line) != line {
			t.Errorf("reason %q of %q", line, reason)
		}
		delay, asked := retryAfter(http.Header{"Retry-After": {after}, "Date": {date}}, time.Now())
		if asked && (delay <= 0 || delay > queue.MaxVisibility) {
			t.Errorf("delay %v for %q at %q", delay, after, date)
		}
		var first firstLine
		for i := range len(reason) { // one byte at a time
			if n, err := first.Write([]byte{reason[i]}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		var whole firstLine
		_, _ = whole.Write([]byte(reason))
		if string(first.buf) != string(whole.buf) || len(whole.buf) > 2*maxReason {
			t.Errorf("the first line is %q byte by byte, and %q at once", first.buf, whole.buf)
		}
	})
}

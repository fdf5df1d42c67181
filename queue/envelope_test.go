package queue

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A time with an offset can lie in the year 10000 in UTC, which nobody reads.
func TestTimesAtTheEndOfTheCalendarCanBeReadAgain(t *testing.T) {
	for at, want := range map[string]string{
		"9999-12-31T23:59:59-08:00": "9999-12-31T23:59:59Z",
		"0000-01-01T00:00:00+08:00": "0000-01-01T00:00:00Z",
	} {
		text := func(at string) string {
			return `{"$azqs-envelope":1,"deadLetter":{"reason":"r","category":"handler","messageId":"m","dequeueCount":1,"queue":"orders","at":"` + at +
				`","attempts":[{"number":1,"at":"` + at + `"}]},"body":{}}`
		}
		e, err := parseEnvelope([]byte(text(at)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(want), string(e.encode())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
}

func gz(t testing.TB, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// tampered is gzip with one byte changed; a negative index counts from the end.
func tampered(t testing.TB, b []byte, at int, to byte) string {
	t.Helper()
	z, err := base64.StdEncoding.DecodeString(gz(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += len(z)
	}
	z[at] = to
	return base64.StdEncoding.EncodeToString(z)
}

// read runs a wire text through what a receive does with it.
func read(text string, cfg Config) *Message {
	m := &Message{Text: text, q: &Queue{cfg: cfg.WithDefaults("orders")}}
	m.read()
	m.Unpack()
	return m
}

// copyOf is the text of a message's poison copy.
func copyOf(t testing.TB, m *Message, rec Record, compress bool) string {
	t.Helper()
	d, err := m.Draft(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	size := d.Size(rec, compress)
	text, err := d.text(rec, compress)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != size {
		t.Fatalf("a copy of %d bytes was foretold as %d", len(text), size)
	}
	return text
}

func TestEnvelopeReadsWhatOthersWrite(t *testing.T) {
	tests := map[string]struct {
		text    string
		cfg     Config
		body    string
		headers map[string]string
		parent  string
		record  *Record
	}{
		"a plain body is no envelope":          {text: `{"orderId":42}`, body: `{"orderId":42}`},
		"the marker in second place is a body": {text: `{"a":1,"$azqs-envelope":1,"body":2}`, body: `{"a":1,"$azqs-envelope":1,"body":2}`},
		"the README's example": {
			text:    `{"$azqs-envelope":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","headers":{"tenant":"contoso"},"body":{"orderId":42}}`,
			body:    `{"orderId":42}`,
			headers: map[string]string{"tenant": "contoso"},
			parent:  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		"white space and any order": {text: " {\n \"$azqs-envelope\" : 1 , \"body\" : [1, 2] , \"headers\" : {} }", body: `[1, 2]`, headers: map[string]string{}},
		"the marker with escapes":   {text: `{"\u0024azqs-envelope":1,"body":7}`, body: `7`},
		"a body of JSON null":       {text: `{"$azqs-envelope":1,"body":null}`, body: `null`},
		"body64":                    {text: `{"$azqs-envelope":1,"body64":"aGVsbG8="}`, body: "hello"},
		"an empty body64":           {text: `{"$azqs-envelope":1,"body64":""}`, body: ""},
		"body64 with gzip":          {text: `{"$azqs-envelope":1,"encoding":"gzip","body64":"` + gz(t, []byte("hello")) + `"}`, body: "hello"},
		"properties of later releases are skipped": {
			text: `{"$azqs-envelope":1,"later":{"x":[1]},"body":1}`, body: `1`,
		},
		"a poison record": {
			text:   `{"$azqs-envelope":1,"deadLetter":{"reason":"boom","category":"handler","messageId":"m1","dequeueCount":3,"queue":"orders","at":"2026-03-01T12:00:00.1234567+00:00","later":1},"body":{}}`,
			body:   `{}`,
			record: &Record{Reason: "boom", Category: "handler", MessageID: "m1", DequeueCount: 3, Queue: "orders", At: time.Date(2026, 3, 1, 12, 0, 0, 123456700, time.UTC)},
		},
		"a poison record with its history": {
			text: `{"$azqs-envelope":1,"deadLetter":{"reason":"boom","category":"handler","messageId":"m1","dequeueCount":3,"queue":"orders","at":"2026-03-01T12:00:00Z",` +
				`"businessKey":"order-42","attempts":[{"number":2,"at":"2026-03-01T11:59:00Z","category":"timeout","error":"no answer","worker":"a/1","later":1},{"number":3,"at":"2026-03-01T12:00:00Z"}]},"body":{}}`,
			body: `{}`,
			record: &Record{
				Reason: "boom", Category: "handler", MessageID: "m1", DequeueCount: 3, Queue: "orders", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), BusinessKey: "order-42",
				Attempts: []Attempt{
					{Number: 2, At: time.Date(2026, 3, 1, 11, 59, 0, 0, time.UTC), Category: "timeout", Error: "no answer", Worker: "a/1"},
					{Number: 3, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
				},
			},
		},
		"a delay":                                {text: `{"$azqs-envelope":1,"delay":300,"body":1}`, body: `1`},
		"another writer's property called delay": {text: `{"$azqs-envelope":1,"delay":"soon","body":1}`, body: `1`},
		"Base64 around a whole envelope": {
			text: base64.StdEncoding.EncodeToString([]byte(`{"$azqs-envelope":1,"body":5}`)), cfg: Config{Encoding: EncodingBase64}, body: `5`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := read(tc.text, tc.cfg)
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			if string(m.Body) != tc.body || m.TraceParent != tc.parent {
				t.Errorf("body %q trace %q, want %q %q", m.Body, m.TraceParent, tc.body, tc.parent)
			}
			if d := cmp.Diff(tc.headers, m.Headers); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tc.record, m.Record); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEnvelopeThatBreaksTheRulesIsNotGuessedAt(t *testing.T) {
	bomb := gz(t, make([]byte, 2<<20))
	tests := map[string]struct{ text, want string }{
		"a later version":           {`{"$azqs-envelope":2,"body":1}`, "envelope version 2 is not known"},
		"a version that is text":    {`{"$azqs-envelope":"1","body":1}`, "version is not a whole number"},
		"a fractional version":      {`{"$azqs-envelope":1.5,"body":1}`, "version is not a whole number"},
		"an unknown encoding":       {`{"$azqs-envelope":1,"encoding":"br","body64":""}`, "encoding is not known"},
		"an encoding for a body":    {`{"$azqs-envelope":1,"encoding":"gzip","body":1}`, "applies to body64 or blob"},
		"no body":                   {`{"$azqs-envelope":1}`, "none of body, body64 and blob"},
		"two bodies":                {`{"$azqs-envelope":1,"body":1,"body64":""}`, "more than one of body"},
		"the same property twice":   {`{"$azqs-envelope":1,"body":1,"headers":{},"headers":{}}`, "a property twice"},
		"a body64 that is no text":  {`{"$azqs-envelope":1,"body64":5}`, "body64 is not a string"},
		"a body64 of other letters": {`{"$azqs-envelope":1,"body64":"!!"}`, "body64 is not Base64"},
		"headers of numbers":        {`{"$azqs-envelope":1,"headers":{"a":1},"body":1}`, "not an object of strings"},
		"a header of null":          {`{"$azqs-envelope":1,"headers":{"a":null},"body":1}`, "not an object of strings"},
		"headers of null":           {`{"$azqs-envelope":1,"headers":null,"body":1}`, "not an object of strings"},
		"a record that is a list":   {`{"$azqs-envelope":1,"deadLetter":[],"body":1}`, "not a poison record"},
		"a traceparent of null":     {`{"$azqs-envelope":1,"traceparent":null,"body":1}`, "traceparent is not a string"},
		"cut short":                 {`{"$azqs-envelope":1,"body":`, "not valid JSON"},
		"something after it":        {`{"$azqs-envelope":1,"body":1}{}`, "not valid JSON"},
		"text that is not UTF-8":    {"{\"$azqs-envelope\":1,\"body\":\"\xff\"}", "not UTF-8"},
		"a gzip bomb":               {`{"$azqs-envelope":1,"encoding":"gzip","body64":"` + bomb + `"}`, "larger than the limit of 1048576 bytes"},
		"gzip that is none":         {`{"$azqs-envelope":1,"encoding":"gzip","body64":"aGVsbG8="}`, "is not gzip"},
		"gzip that is broken":       {`{"$azqs-envelope":1,"encoding":"gzip","body64":"` + tampered(t, []byte("hello world"), -7, 0xff) + `"}`, "broken gzip"},
		"gzip that claims less":     {`{"$azqs-envelope":1,"encoding":"gzip","body64":"` + tampered(t, make([]byte, 1<<20), -2, 0) + `"}`, "larger than it claims"},
		"gzip cut short":            {`{"$azqs-envelope":1,"encoding":"gzip","body64":"` + gz(t, []byte("hello world"))[:24] + `"}`, "larger than the limit"},
		"a blob without a store":    {`{"$azqs-envelope":1,"blob":{"name":"x"}}`, "kept in a blob store"},
		"deep nesting":              {`{"$azqs-envelope":1,"body":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "not valid JSON"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := read(tc.text, Config{MaxBodyBytes: 1 << 20})
			if m.Err == nil || !strings.Contains(m.Err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", m.Err, tc.want)
			}
			if !errors.Is(m.Err, ErrUnreadable) {
				t.Errorf("%v is not ErrUnreadable", m.Err)
			}
			if m.Body != nil {
				t.Errorf("a body of %d bytes beside the error", len(m.Body))
			}
		})
	}
}

func TestEnvelopeRoundTrip(t *testing.T) {
	for name, body := range map[string][]byte{
		"JSON":                  []byte(`{"a":"é\u0001","b":[1,2,{"c":null}]}`),
		"text":                  []byte("hello"),
		"spaces around JSON":    []byte(" 1 "),
		"CRLF":                  []byte("{\r\n}"),
		"binary":                {0, 1, 2, 0xff, 0xfe},
		"nothing":               {},
		"JSON that is no UTF-8": []byte("\"\xff\""),
		"U+FFFE":                []byte("\"\uFFFE\""),
		"an envelope itself":    []byte(`{"$azqs-envelope":1,"body":1}`),
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvelope(body)
			env.Headers = map[string]string{"x\x01\r\n\"": "y\uFFFFz", "tenant": "contoso"}
			env.TraceParent, env.TraceState = "tp", "a=b"
			rec := Record{Reason: "r\x00\"", Category: "handler", MessageID: "m", DequeueCount: 2, Queue: "q", At: time.Unix(1e9, 0).UTC(), BusinessKey: "k\x01", Attempts: []Attempt{{Number: 1, At: time.Unix(1e9, 0).UTC(), Error: "e\r\n\uFFFE"}, {Number: 2, At: time.Unix(1e9, 0).UTC(), Category: "c", Worker: "w"}}}
			env.Record = &rec
			for _, e := range []*Envelope{env, env.compressed()} {
				text := string(e.encode())
				if err := checkXML(text); err != nil {
					t.Fatal(err)
				}
				m := read(text, Config{})
				if m.Err != nil {
					t.Fatal(m.Err)
				}
				if !bytes.Equal(m.Body, body) {
					t.Errorf("body %q, want %q", m.Body, body)
				}
				if d := cmp.Diff(env.Headers, m.Headers); d != "" {
					t.Error(d)
				}
				if d := cmp.Diff(&rec, m.Record); d != "" {
					t.Error(d)
				}
				if m.TraceParent != "tp" || m.TraceState != "a=b" {
					t.Errorf("trace %q %q", m.TraceParent, m.TraceState)
				}
			}
		})
	}
}

func TestEnvelopeCopyKeepsWhatItDoesNotKnow(t *testing.T) {
	m := read(`{"$azqs-envelope":1,"later":{"x":[1, 2]},"headers":{"a":"b"},"body":{"o": 1}}`, Config{})
	text := copyOf(t, m, Record{Reason: "r", Category: "handler", MessageID: "m", DequeueCount: 1, Queue: "orders", At: time.Unix(0, 0)}, false)
	want := `{"$azqs-envelope":1,"headers":{"a":"b"},"deadLetter":{"reason":"r","category":"handler","messageId":"m","dequeueCount":1,"queue":"orders","at":"1970-01-01T00:00:00Z"},"later":{"x":[1, 2]},"body":{"o": 1}}`
	if text != want {
		t.Errorf("copy %s\nwant %s", text, want)
	}
}

func TestUnreadableMessageIsCopiedUnchanged(t *testing.T) {
	for _, text := range []string{`{"$azqs-envelope":9,"body":1}`, "{\"$azqs-envelope\":1}"} {
		m := read(text, Config{})
		if got := copyOf(t, m, Record{Reason: "r"}, true); got != text {
			t.Errorf("copy %s, want %s", got, text)
		}
	}
}

// The service refuses such texts and Azurite does not. A bare copy would be refused for ever.
func TestUnreadableMessageThatTheWireCannotCarryIsWrapped(t *testing.T) {
	const text = "ctl\x01\x1b"
	m := read(text, Config{Encoding: EncodingBase64})
	again := read(copyOf(t, m, Record{Reason: "r"}, false), Config{Encoding: EncodingBase64})
	if m.Err == nil || again.Err != nil || string(again.Body) != text || again.Record == nil {
		t.Errorf("error %v; its copy: %q, %v", m.Err, again.Body, again.Err)
	}
}

func FuzzMessageRead(f *testing.F) {
	for _, s := range []string{
		`{"$azqs-envelope":1,"traceparent":"x","headers":{"a":"b"},"body":{"orderId":42}}`, `{"$azqs-envelope":2}`,
		`{"\u0024azqs-envelope":1,"body64":"aGk="}`, `aGVsbG8=`, "", "{", `{"$azqs-envelope":1,"deadLetter":{"at":"x"},"body":1}`, "\xff\xfe", `[[[[`,
	} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, enc int) {
		m := read(text, Config{Encoding: EncodingNone + Encoding(uint(enc)%3), MaxBodyBytes: 1 << 16})
		if m.Err != nil {
			if !errors.Is(m.Err, ErrUnreadable) || m.Body != nil {
				t.Fatalf("%v beside %d bytes", m.Err, len(m.Body))
			}
			if got := copyOf(t, m, Record{}, false); m.env == nil && CheckText(text) == nil && got != text {
				t.Fatal("an unreadable message was altered")
			}
			return
		}
		// What is read can be dead-lettered and read again, whole.
		again := read(copyOf(t, m, Record{Reason: "r"}, enc%2 == 0), Config{Encoding: m.q.cfg.Encoding})
		if again.Err != nil || !bytes.Equal(again.Body, m.Body) || again.Record == nil {
			t.Fatalf("read %q, its copy %q, error %v", m.Body, again.Body, again.Err)
		}
		if m.env != nil && !cmp.Equal(m.Headers, again.Headers) && utf8.ValidString(text) && len(m.Headers) > 0 {
			t.Fatal(cmp.Diff(m.Headers, again.Headers))
		}
	})
}

package queue

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// The wire format: a message is either what the serializer wrote, or an envelope, a JSON object
// whose first property is the marker with the version.
const (
	envelopeMarker  = "$azqs-envelope"
	envelopeVersion = 1
	encodingGzip    = "gzip"
)

// Record says why a message was dead-lettered: the envelope's "deadLetter".
type Record struct {
	Reason       string    `json:"reason"`
	Category     string    `json:"category"`
	MessageID    string    `json:"messageId"`    // the original's
	DequeueCount int       `json:"dequeueCount"` // deliveries of the original
	Queue        string    `json:"queue"`        // where it came from
	At           time.Time `json:"at"`           // service clock
	BusinessKey  string    `json:"businessKey"`  // "": none is known
	Attempts     []Attempt `json:"attempts"`     // that failed, in their order, as far as they are known

	// How the original lay on its queue, where the copy does not show it. Message.Original reads these.
	Packed   Packed    `json:"packed"`   // what the move packed the body of, to make the copy fit
	Base64   bool      `json:"base64"`   // the original's text was Base64, on a queue that reads either
	Verbatim bool      `json:"verbatim"` // the copy's body is the original's whole wire text
	Replayed time.Time `json:"replayed"` // when somebody set out to send the message again; zero: never
}

// Packed says what a move to the poison queue compressed, or put into a body store, to make the copy fit.
type Packed string

// What was packed. Otherwise nothing was.
const (
	PackedBody     Packed = "body"     // the original was its body alone
	PackedEnvelope Packed = "envelope" // the original was an envelope with the body as it is
)

// Attempt is one failed attempt at a message.
type Attempt struct {
	Number   int       `json:"number"` // the dequeue count
	At       time.Time `json:"at"`     // when the handler was called; service clock
	Category string    `json:"category,omitempty"`
	Error    string    `json:"error,omitempty"`
	Worker   string    `json:"worker,omitempty"` // which process
}

// Envelope carries what must travel with a body: trace context, headers, compression, a poison record.
// It keeps properties it does not know, so that a copy loses nothing.
type Envelope struct {
	TraceParent string
	TraceState  string
	Headers     map[string]string
	Delay       time.Duration // for which the sender hid the message; whole seconds
	Record      *Record

	encoding string // "" or "gzip"
	form     bodyForm
	payload  []byte  // by form: JSON as written; the decoded bytes; the blob reference's JSON
	unknown  []field // in their order
}

type bodyForm int

const (
	bodyJSON   bodyForm = iota + 1 // "body"
	bodyBase64                     // "body64"
	bodyBlob                       // "blob"
)

type field struct {
	name string
	raw  json.RawMessage
}

// newEnvelope wraps a body that needs company.
func newEnvelope(body []byte) *Envelope {
	if embeddable(body) {
		return &Envelope{form: bodyJSON, payload: body}
	}
	return &Envelope{form: bodyBase64, payload: body}
}

// embeddable is JSON that comes back byte for byte when it stands inside the envelope: no white
// space around it, nothing XML forbids or changes.
func embeddable(b []byte) bool {
	return len(b) > 0 && len(bytes.TrimSpace(b)) == len(b) && bytes.IndexByte(b, '\r') < 0 && utf8.Valid(b) && json.Valid(b) && checkXML(string(b)) == nil
}

// isEnvelope looks no further than the first property's name.
func isEnvelope(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	b = bytes.TrimLeft(b[1:], " \t\r\n")
	if len(b) < 2 || b[0] != '"' || b[1] != '$' && b[1] != '\\' {
		return false
	}
	if bytes.HasPrefix(b[1:], []byte(envelopeMarker+`"`)) {
		return true
	}
	for end := 1; end < len(b) && end < 8*len(envelopeMarker); end++ { // written with escapes
		if b[end] == '\\' {
			end++
		} else if b[end] == '"' {
			var name string
			return json.Unmarshal(b[:end+1], &name) == nil && name == envelopeMarker
		}
	}
	return false
}

// parseEnvelope reads an envelope by the rules of the wire format. Whatever breaks them is an
// error that wraps ErrUnreadable: the reader does not guess.
func parseEnvelope(b []byte) (*Envelope, error) {
	if !json.Valid(b) {
		return nil, fmt.Errorf("%w: the envelope is not valid JSON", ErrUnreadable)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%w: the envelope is not UTF-8", ErrUnreadable)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: the envelope is not a JSON object", ErrUnreadable)
	}
	env, seen := &Envelope{}, map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var raw json.RawMessage
		if err != nil || !ok || d.Decode(&raw) != nil {
			return nil, fmt.Errorf("%w: the envelope is not a JSON object", ErrUnreadable)
		}
		if seen[name] {
			return nil, fmt.Errorf("%w: the envelope has a property twice", ErrUnreadable)
		}
		seen[name] = true
		if err := env.set(name, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	return env, env.check()
}

func (e *Envelope) set(name string, raw json.RawMessage) error {
	switch name {
	case envelopeMarker:
		v, err := strconv.ParseUint(string(raw), 10, 32)
		if err != nil {
			return fmt.Errorf("the envelope's version is not a whole number")
		}
		if v != envelopeVersion {
			return fmt.Errorf("envelope version %d is not known to this reader, which knows version %d: upgrade, then replay", v, envelopeVersion)
		}
		return nil
	case "traceparent":
		return str(name, raw, &e.TraceParent)
	case "tracestate":
		return str(name, raw, &e.TraceState)
	case "encoding":
		if err := str(name, raw, &e.encoding); err != nil {
			return err
		}
		if e.encoding != encodingGzip {
			return errors.New("the envelope's encoding is not known to this reader, which knows gzip: upgrade, then replay")
		}
		return nil
	case "headers":
		var h map[string]*string
		if raw[0] != '{' || json.Unmarshal(raw, &h) != nil {
			return fmt.Errorf("the envelope's headers are not an object of strings")
		}
		e.Headers = make(map[string]string, len(h))
		for k, v := range h {
			if v == nil {
				return fmt.Errorf("the envelope's headers are not an object of strings")
			}
			e.Headers[k] = *v
		}
		return nil
	case "delay":
		s, err := strconv.ParseUint(string(raw), 10, 32)
		if d := time.Duration(s) * time.Second; err == nil && d <= MaxVisibility {
			e.Delay = d
		} else { // not what we write
			e.unknown = append(e.unknown, field{name, raw})
		}
		return nil
	case "deadLetter":
		e.Record = &Record{}
		if raw[0] != '{' || json.Unmarshal(raw, e.Record) != nil {
			return fmt.Errorf("the envelope's deadLetter is not a poison record")
		}
		return nil
	case "body", "body64", "blob":
		return e.setBody(name, raw)
	default:
		e.unknown = append(e.unknown, field{name, raw})
		return nil
	}
}

func (e *Envelope) setBody(name string, raw json.RawMessage) error {
	if e.form != 0 {
		return fmt.Errorf("the envelope has more than one of body, body64 and blob")
	}
	switch name {
	case "body":
		e.form, e.payload = bodyJSON, raw
	case "blob":
		e.form, e.payload = bodyBlob, raw
	default:
		var s string
		if err := str(name, raw, &s); err != nil {
			return err
		}
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if err != nil {
			return fmt.Errorf("the envelope's body64 is not Base64")
		}
		e.form, e.payload = bodyBase64, b
	}
	return nil
}

func (e *Envelope) check() error {
	switch {
	case e.form == 0:
		return fmt.Errorf("%w: the envelope has none of body, body64 and blob", ErrUnreadable)
	case e.form == bodyJSON && e.encoding != "":
		return fmt.Errorf("%w: the envelope's encoding applies to body64 or blob, but it has a body", ErrUnreadable)
	default:
		return nil
	}
}

func str(name string, raw json.RawMessage, into *string) error {
	if raw[0] != '"' || json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("the envelope's %s is not a string", name)
	}
	return nil
}

// body returns what the sender's serializer wrote, decompressing at most limit bytes.
func (e *Envelope) body(limit int) ([]byte, error) {
	switch {
	case e.form == bodyBlob:
		return nil, fmt.Errorf("%w: the body is kept in a blob store, and this queue has none configured", ErrUnreadable)
	case e.encoding == encodingGzip:
		return gunzip(e.payload, limit)
	default:
		return e.payload, nil
	}
}

// gunzip decompresses one gzip member, whose end claims its size (modulo 4 GiB): one that claims too
// much is refused unread, and none becomes larger than it claims.
func gunzip(b []byte, limit int) ([]byte, error) {
	var out bytes.Buffer
	if _, err := inflate(b, limit, func(size int) io.Writer {
		out.Grow(min(size, len(b)*maxDeflate) + bytes.MinRead)
		return &out
	}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// inflate decompresses like gunzip, into what into returns for the claimed size.
func inflate(b []byte, limit int, into func(size int) io.Writer) (int, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, fmt.Errorf("%w: the compressed body is not gzip", ErrUnreadable)
	}
	size := claimed(b)
	if size > limit {
		return 0, fmt.Errorf("%w: the compressed body is larger than the limit of %d bytes", ErrUnreadable, limit)
	}
	switch n, err := io.Copy(into(size), io.LimitReader(z, int64(size)+1)); {
	case n > int64(size):
		return 0, fmt.Errorf("%w: the compressed body is larger than it claims", ErrUnreadable)
	case err != nil:
		return 0, fmt.Errorf("%w: the compressed body is broken gzip", ErrUnreadable)
	default:
		return int(n), nil
	}
}

// maxDeflate is the most that deflate can shrink anything by.
const maxDeflate = 1032

// claimed is the size that a gzip member's end claims for its contents.
func claimed(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	return int(min(binary.LittleEndian.Uint32(b[len(b)-4:]), math.MaxInt32)) // an int may have 32 bits
}

// compressed returns a copy whose body is gzipped, or the envelope itself when that cannot be done.
func (e *Envelope) compressed() *Envelope {
	if e.encoding != "" || e.form == bodyBlob {
		return e
	}
	zipped, err := zip(e.payload, gzip.DefaultCompression)
	// The best level may take thirty times as long for a percent or two: it is for what hardly fits or hardly does not.
	if n := base64.StdEncoding.EncodedLen(len(zipped)); err == nil && n > MaxTextBytes*15/16 && n < MaxTextBytes*17/16 {
		zipped, err = zip(e.payload, gzip.BestCompression)
	}
	if err != nil {
		return e // writing to memory does not fail
	}
	c := *e
	c.form, c.encoding, c.payload = bodyBase64, encodingGzip, zipped
	return &c
}

func zip(b []byte, level int) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, level)
	if err == nil {
		_, err = z.Write(b)
	}
	if err == nil {
		err = z.Close()
	}
	return out.Bytes(), err
}

// encode writes the envelope. Properties it does not know follow those it knows.
func (e *Envelope) encode() []byte {
	b := make([]byte, 0, len(e.payload)*4/3+256)
	b = append(b, `{"`+envelopeMarker+`":`...)
	b = strconv.AppendInt(b, envelopeVersion, 10)
	if e.TraceParent != "" {
		b = appendString(append(b, `,"traceparent":`...), e.TraceParent)
	}
	if e.TraceState != "" {
		b = appendString(append(b, `,"tracestate":`...), e.TraceState)
	}
	if len(e.Headers) > 0 {
		b = append(b, `,"headers":{`...)
		for i, k := range slices.Sorted(maps.Keys(e.Headers)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			b = appendString(b, e.Headers[k])
		}
		b = append(b, '}')
	}
	if e.Delay > 0 {
		b = strconv.AppendInt(append(b, `,"delay":`...), int64(e.Delay/time.Second), 10)
	}
	if e.encoding != "" {
		b = appendString(append(b, `,"encoding":`...), e.encoding)
	}
	if e.Record != nil {
		b = append(append(b, `,"deadLetter":`...), e.Record.encode()...)
	}
	for _, f := range e.unknown {
		b = append(appendString(append(b, ','), f.name), ':')
		b = append(b, f.raw...)
	}
	switch e.form {
	case bodyJSON:
		b = append(append(b, `,"body":`...), e.payload...)
	case bodyBlob:
		b = append(append(b, `,"blob":`...), e.payload...)
	default:
		b = base64.StdEncoding.AppendEncode(append(b, `,"body64":"`...), e.payload)
		b = append(b, '"')
	}
	return append(b, '}')
}

func (r *Record) encode() []byte {
	b := appendString([]byte(`{"reason":`), r.Reason)
	b = appendString(append(b, `,"category":`...), r.Category)
	b = appendString(append(b, `,"messageId":`...), r.MessageID)
	b = strconv.AppendInt(append(b, `,"dequeueCount":`...), int64(r.DequeueCount), 10)
	b = appendString(append(b, `,"queue":`...), r.Queue)
	b = appendTime(append(b, `,"at":`...), r.At)
	if r.BusinessKey != "" {
		b = appendString(append(b, `,"businessKey":`...), r.BusinessKey)
	}
	for i, a := range r.Attempts {
		if i == 0 {
			b = append(b, `,"attempts":[`...)
		} else {
			b = append(b, ',')
		}
		b = a.append(b)
	}
	if len(r.Attempts) > 0 {
		b = append(b, ']')
	}
	if r.Packed != "" {
		b = appendString(append(b, `,"packed":`...), string(r.Packed))
	}
	if r.Base64 {
		b = append(b, `,"base64":true`...)
	}
	if r.Verbatim {
		b = append(b, `,"verbatim":true`...)
	}
	if !r.Replayed.IsZero() {
		b = appendString(append(b, `,"replayed":`...), r.Replayed.UTC().Format(time.RFC3339))
	}
	return append(b, '}')
}

func (a *Attempt) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"number":`...), int64(a.Number), 10)
	b = appendTime(append(b, `,"at":`...), a.At)
	for _, f := range [...]struct{ name, value string }{{"category", a.Category}, {"error", a.Error}, {"worker", a.Worker}} {
		if f.value != "" {
			b = appendString(append(b, `,"`+f.name+`":`...), f.value)
		}
	}
	return append(b, '}')
}

// The years that RFC 3339 can write.
var (
	firstTime = time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
)

// appendTime writes a time in UTC. What was read with an offset can lie a few hours beyond the years
// there are; it becomes the nearest that can be read again.
func appendTime(b []byte, t time.Time) []byte {
	switch t = t.UTC(); {
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return appendString(b, t.Format(time.RFC3339))
}

// appendString writes a JSON string that XML can carry: what it forbids is escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7F || r == 0xFFFE || r == 0xFFFF:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r) // invalid UTF-8 becomes U+FFFD
		}
	}
	return append(b, '"')
}

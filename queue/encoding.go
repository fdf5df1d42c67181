package queue

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Encoding is how a queue's wire text carries the body or envelope.
type Encoding int

// The encodings.
const (
	EncodingNone   Encoding = iota + 1 // the text is the body
	EncodingBase64                     // the text is the body in Base64, as Azure Functions and older SDKs write it
	EncodingAuto                       // reads either; writes plain text
)

// ParseEncoding reads "none", "base64" or "auto".
func ParseEncoding(s string) (Encoding, error) {
	for _, e := range []Encoding{EncodingNone, EncodingBase64, EncodingAuto} {
		if e.String() == s {
			return e, nil
		}
	}
	return 0, fmt.Errorf("%q is not an encoding; use none, base64 or auto", s)
}

// String returns the configuration's word for the encoding.
func (e Encoding) String() string {
	switch e {
	case EncodingNone:
		return "none"
	case EncodingBase64:
		return "base64"
	case EncodingAuto:
		return "auto"
	default:
		return fmt.Sprintf("Encoding(%d)", int(e))
	}
}

// decode returns what the wire text carries.
//
// Auto takes a text for Base64 only when nothing speaks against it: it is not JSON, it is
// canonical Base64, and it decodes to readable UTF-8. Binary bodies need EncodingBase64.
func (e Encoding) decode(text string) ([]byte, error) {
	switch e {
	case EncodingBase64:
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%w: the text is not Base64 but the queue's encoding is base64; set encoding auto if senders differ", ErrUnreadable)
		}
		return b, nil
	case EncodingAuto:
		if len(text) == 0 || len(text)%4 != 0 || strings.ContainsAny(text[:1], "{[\"") || json.Valid([]byte(text)) {
			return []byte(text), nil
		}
		if b, err := base64.StdEncoding.Strict().DecodeString(text); err == nil && readable(b) {
			return b, nil
		}
		return []byte(text), nil
	default:
		return []byte(text), nil
	}
}

func (e Encoding) encode(body []byte) string {
	if e == EncodingBase64 {
		return base64.StdEncoding.EncodeToString(body)
	}
	return string(body)
}

// readable is UTF-8 text without control characters other than white space.
func readable(b []byte) bool {
	return utf8.Valid(b) && checkXML(string(b)) == nil
}

// checkXML finds the first character that XML 1.0 cannot carry. The service would store
// U+FFFD in its place without an error.
func checkXML(text string) error {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return fmt.Errorf("byte %d of the text is not UTF-8, which the wire cannot carry with encoding none: use encoding base64", i)
			}
		}
		if !inXML(r) {
			return fmt.Errorf("character %U at byte %d is one XML forbids, which the wire cannot carry with encoding none: use encoding base64", r, i)
		}
	}
	return nil
}

func inXML(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' ||
		r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

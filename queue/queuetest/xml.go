package queuetest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// prolog starts every document, with the byte order mark that the service sends.
const prolog = "\ufeff" + `<?xml version="1.0" encoding="utf-8"?>`

// appendText appends s as character data. Everything a reader would change is written
// as a reference: a raw carriage return would be read as a line feed.
func appendText(b []byte, s string) []byte {
	from := 0
	for i := range len(s) {
		var ref string
		switch s[i] {
		case '<':
			ref = "&lt;"
		case '>':
			ref = "&gt;"
		case '&':
			ref = "&amp;"
		case '\r':
			ref = "&#xD;"
		default:
			continue
		}
		b = append(b, s[from:i]...)
		b = append(b, ref...)
		from = i + 1
	}
	return append(b, s[from:]...)
}

const (
	openText  = "<QueueMessage><MessageText>"
	closeText = "</MessageText></QueueMessage>"
)

// parseMessage returns the text of a QueueMessage document, and whether the document is
// one. The form that clients send is read directly, any other by encoding/xml.
func parseMessage(body []byte) (string, bool) {
	b := bytes.TrimPrefix(body, []byte("\ufeff"))
	if rest, ok := bytes.CutPrefix(b, []byte(openText)); ok {
		if inner, ok := bytes.CutSuffix(rest, []byte(closeText)); ok {
			if text, ok := plainText(inner); ok {
				return text, true
			}
		}
	}
	return parseDocument(b)
}

// plainText decodes character data without markup. It gives up, rather than judge, on
// whatever is rare.
func plainText(b []byte) (string, bool) {
	refs := false
	ascii := true
	for _, c := range b {
		switch {
		case c == '&':
			refs = true
		case c == '<', c == '>', c < ' ' && c != '\t' && c != '\n':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !legal(b) {
		return "", false
	}
	if !refs {
		return string(b), true
	}
	var out strings.Builder
	out.Grow(len(b))
	for {
		i := bytes.IndexByte(b, '&')
		if i < 0 {
			out.Write(b)
			return out.String(), true
		}
		out.Write(b[:i])
		end := bytes.IndexByte(b[i:min(i+8, len(b))], ';')
		if end < 0 {
			return "", false
		}
		switch string(b[i+1 : i+end]) {
		case "lt":
			out.WriteByte('<')
		case "gt":
			out.WriteByte('>')
		case "amp":
			out.WriteByte('&')
		case "quot", "#34":
			out.WriteByte('"')
		case "apos", "#39":
			out.WriteByte('\'')
		case "#xA":
			out.WriteByte('\n')
		case "#xD":
			out.WriteByte('\r')
		case "#x9":
			out.WriteByte('\t')
		default:
			return "", false
		}
		b = b[i+end+1:]
	}
}

// legal reports whether b is UTF-8 without the two noncharacters XML forbids.
func legal(b []byte) bool {
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			b = b[1:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || r == 0xFFFE || r == 0xFFFF {
			return false
		}
		b = b[n:]
	}
	return true
}

// parseDocument reads any well-formed QueueMessage document with one MessageText.
func parseDocument(b []byte) (string, bool) {
	if !legal(b) {
		return "", false
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	var text strings.Builder
	depth, found := 0, false
	for {
		from := d.InputOffset()
		t, err := d.RawToken()
		if err != nil {
			return text.String(), errors.Is(err, io.EOF) && depth == -1 && found
		}
		switch t := t.(type) {
		case xml.StartElement:
			switch {
			case depth == 0 && t.Name.Local == "QueueMessage":
				depth = 1
			case depth == 1 && t.Name.Local == "MessageText" && !found:
				depth, found = 2, true
			default:
				return "", false
			}
		case xml.EndElement:
			switch {
			case depth == 2 && t.Name.Local == "MessageText":
				depth = 1
			case depth == 1 && t.Name.Local == "QueueMessage":
				depth = -1
			default:
				return "", false
			}
		case xml.CharData:
			if surrogates(b[from:d.InputOffset()]) {
				return "", false
			}
			if depth == 2 {
				text.Write(t)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return "", false
			}
		case xml.Directive:
			return "", false
		}
	}
}

// surrogates reports whether character data refers to half a UTF-16 character, which
// encoding/xml reads as a replacement character.
func surrogates(raw []byte) bool {
	if bytes.HasPrefix(raw, []byte("<![CDATA[")) {
		return false
	}
	for {
		var ok bool
		if _, raw, ok = bytes.Cut(raw, []byte("&#")); !ok {
			return false
		}
		digits, _, _ := bytes.Cut(raw, []byte(";"))
		base := 10
		if hex, ok := bytes.CutPrefix(digits, []byte("x")); ok {
			digits, base = hex, 16
		}
		if n, err := strconv.ParseUint(string(digits), base, 32); err != nil || n >= 0xD800 && n < 0xE000 {
			return true
		}
	}
}

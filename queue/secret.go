package queue

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

const redacted = "[redacted]"

// Secret is a text that must not be seen: an account key, a SAS, a connection string.
//
// Every way of printing it (fmt with any verb, slog, JSON, YAML, text) gives "[redacted]", or
// nothing when it is empty. Reveal gives the text itself. Decoding into a Secret works as for a string.
// Only as the key of a map does encoding/json write it out: a secret is no key.
type Secret string

// Reveal returns the secret text.
func (s Secret) Reveal() string { return string(s) }

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString is String, quoted.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format implements fmt.Formatter, so that no verb shows the text, not even one that does not fit.
func (s Secret) Format(f fmt.State, verb rune) {
	out := s.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		out = s.GoString()
	}
	_, _ = io.WriteString(f, out)
}

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON and XML use as well.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML gives YAML encoders the redacted form.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

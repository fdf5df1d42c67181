package dedup

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// maxKey bounds a business key, in bytes: it is part of an index.
const maxKey = 1024

// Header is a key that travels in a header.
func Header(name string) func(*processor.Message) (string, error) {
	return func(m *processor.Message) (string, error) { return m.Headers[name], nil }
}

// Body is a key that lies in the body, read as a T the way processor.Typed reads it. A body that does not
// fit T is dead-lettered, category deserialization, and one that T's Validate() error refuses as a
// permanent error.
func Body[T any](key func(T) string) func(*processor.Message) (string, error) {
	return func(m *processor.Message) (string, error) {
		v, err := queue.Decode[T](m.Message)
		if err != nil {
			return "", &readyError{processor.Undecodable(err)}
		}
		return key(v), nil
	}
}

// readyError is an error that already says what the processor is to do.
type readyError struct{ err error }

func (e *readyError) Error() string { return e.err.Error() }
func (e *readyError) Unwrap() error { return e.err }

func checkKey(key string) error {
	switch {
	case key == "":
		return ErrNoKey
	case len(key) > maxKey:
		return fmt.Errorf("the business key has %d bytes, more than %d", len(key), maxKey)
	case !utf8.ValidString(key):
		return errors.New("the business key is not UTF-8")
	case strings.IndexByte(key, 0) >= 0:
		return errors.New("the business key has a NUL in it")
	default:
		return nil
	}
}

package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Serializer reads and writes typed bodies. It must be safe for concurrent use.
type Serializer interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSON is the default serializer: encoding/json, which matches property names without regard to
// case, and which here also reads numbers that were written as strings ("42").
type JSON struct{}

// Marshal implements Serializer.
func (JSON) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// maxStringNumbers bounds the work that numbers written as strings can cause: each costs one more pass.
const maxStringNumbers = 500

// Unmarshal implements Serializer.
func (JSON) Unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var fixed []byte
	for range maxStringNumbers {
		var wrong *json.UnmarshalTypeError
		if err == nil || !errors.As(err, &wrong) || wrong.Value != "string" || !numeric(wrong.Type.Kind()) {
			return err
		}
		if fixed == nil {
			fixed = append(fixed, data...)
		}
		if !unquote(fixed, int(wrong.Offset)) {
			return err
		}
		err = json.Unmarshal(fixed, v)
	}
	return err
}

func numeric(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr
}

// unquote blanks the quotes of the string that ends at or just before end, if it holds a number.
func unquote(b []byte, end int) bool {
	end = min(end, len(b))
	for end > 0 && b[end-1] != '"' {
		end--
	}
	start := end - 2
	for start >= 0 && b[start] != '"' {
		start--
	}
	if start < 0 {
		return false
	}
	var n json.Number
	if json.Unmarshal(b[start+1:end-1], &n) != nil || n == "" {
		return false
	}
	b[start], b[end-1] = ' ', ' '
	return true
}

// Validator is a typed body that can tell whether it makes sense. Decode calls it.
type Validator interface{ Validate() error }

// InvalidError is what a body's own Validate said. Trying again cannot help.
type InvalidError struct{ Err error }

// Error implements error.
func (e *InvalidError) Error() string { return "the body is not valid: " + e.Err.Error() }

// Unwrap returns what Validate returned.
func (e *InvalidError) Unwrap() error { return e.Err }

// Decode reads the message's body as a T with the queue's serializer. A []byte or string gets the
// body as it is. Errors: the message's own Err; one that wraps ErrUnreadable when the body does not
// fit T; *InvalidError when T's Validate refuses it.
func Decode[T any](m *Message) (T, error) {
	if m.Err != nil {
		var v T
		return v, m.Err
	}
	return DecodeBody[T](m.q, m.Body)
}

// DecodeBody reads bytes that are a message's body, or part of one, as Decode does. A nil queue means
// the JSON serializer.
func DecodeBody[T any](q *Queue, body []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = body
		return v, nil
	case *string:
		*p = string(body)
		return v, nil
	}
	var s Serializer = JSON{}
	if q != nil {
		s = q.cfg.Serializer
	}
	if err := s.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%w: read the body as %T: %s", ErrUnreadable, v, shapeOf(err))
	}
	val, ok := any(v).(Validator)
	if !ok {
		val, ok = any(&v).(Validator)
	}
	if ok {
		if err := val.Validate(); err != nil {
			return v, &InvalidError{Err: err}
		}
	}
	return v, nil
}

// shapeOf tells what is wrong with a body without quoting any of it: encoding/json's own texts
// repeat characters of the input.
func shapeOf(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 300" quotes the body
		article := "a"
		if strings.ContainsAny(kind[:min(1, len(kind))], "ao") { // array, object
			article = "an"
		}
		if wrong.Field != "" {
			return fmt.Sprintf("%s %s where field %s wants %s", article, kind, wrong.Field, wrong.Type)
		}
		return fmt.Sprintf("%s %s where %s is wanted", article, kind, wrong.Type)
	case errors.As(err, &syntax):
		return fmt.Sprintf("it is not valid JSON, at byte %d", syntax.Offset)
	default:
		return "the serializer refused it"
	}
}

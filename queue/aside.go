package queue

import (
	"context"
	"errors"
	"fmt"
)

// maxErrors is how many errors one of a body store's may wrap.
const maxErrors = 1000

// errEnded is a store that ended its goroutine, or that has not answered yet.
var errEnded = errors.New("no answer")

// aside calls a body store or KeyWrapper in a goroutine of its own, and waits no longer than the context.
// A panic is an error, and so is the goroutine's end.
func aside(ctx context.Context, call func() error) error {
	answer := make(chan error, 1)
	go func() {
		err := errEnded
		defer func() { answer <- err }()
		err = guard(call)
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// guard turns a panic into an error, and an error that nobody can look at into another.
func guard(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %s", panicText(v))
		}
	}()
	err = call()
	if left := maxErrors; !bounded(err, &left) {
		return fmt.Errorf("its error, a %T, wraps more than %d errors", err, maxErrors)
	}
	if err != nil { // one that panics does so here
		_ = err.Error()
		_, _ = errors.Is(err, ErrUnreadable), Classify(err)
	}
	return err
}

// panicText is what was panicked with, as far as that can be said safely.
func panicText(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", v)
		}
	}()
	if err, ok := v.(error); ok {
		return oneLine(err.Error())
	}
	return oneLine(fmt.Sprint(v))
}

// bounded says whether there is an end to what an error wraps.
func bounded(err error, left *int) bool {
	for err != nil {
		if *left--; *left < 0 {
			return false
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range u.Unwrap() {
				if !bounded(one, left) {
					return false
				}
			}
			return true
		default:
			return true
		}
	}
	return true
}

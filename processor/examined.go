package processor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// maxErrors is how many errors one may wrap, itself included. Beyond it, nothing else is asked of the error:
// it may wrap itself.
const maxErrors = 1000

// examined is a handler's error of which everything was asked that the processor wants to know, while a
// panic could still be made a failure. From then on nothing of the error's own is called here: it may be
// a nil *net.OpError, which has a text and panics when it is unwrapped.
type examined struct {
	err         error // the handler's, for those whose calls are guarded: the policy, hooks
	text        string
	wish        *failure
	panicked    *PanicError
	category    string // a retry's
	interrupted bool
}

// Error implements error: one line, bounded.
func (e *examined) Error() string { return e.text }

// As implements errors.As, for what the processor looks for.
func (e *examined) As(target any) bool {
	switch t := target.(type) {
	case **failure:
		*t = e.wish
		return e.wish != nil
	case **PanicError:
		*t = e.panicked
		return e.panicked != nil
	default:
		return false
	}
}

// own returns the error as the handler's author knows it.
func own(err error) error {
	if e, ok := err.(*examined); ok {
		return e.err
	}
	return err
}

// examine asks an error everything, nil for nil. One that panics then, or wraps more than anybody can look at,
// is the handler's panic; a wish that goes before that counts all the same.
func examine(err error) error {
	switch err.(type) {
	case nil, *examined:
		return err
	}
	e, wish, why := tryExamine(err)
	if e != nil {
		return e
	}
	if first, ok := err.(*PanicError); ok {
		why.Stack = first.Stack
	}
	var instead error = why
	if wish != nil {
		instead = &failure{kind: wish.kind, delay: wish.delay, category: wish.category, err: why}
	}
	e, _, _ = tryExamine(instead)
	return e
}

// tryExamine examines an error. Without an answer there is why, and a wish if one was found first.
func tryExamine(err error) (e *examined, wish *failure, why *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			e = nil
			why = &PanicError{Value: fmt.Sprintf("its error, a %T, cannot be examined: %s", err, panicText(v)), Stack: cut(string(debug.Stack()), maxStack)}
		}
	}()
	left := maxErrors
	if !walk(err, &left, &wish) {
		return nil, wish, &PanicError{Value: fmt.Sprintf("its error, a %T, cannot be examined: it wraps more than %d errors", err, maxErrors)}
	}
	e = &examined{err: err, text: reason(err), category: retryCategory(err), interrupted: interrupted(err)}
	e.wish, _ = errors.AsType[*failure](err)
	e.panicked, _ = errors.AsType[*PanicError](err)
	return e, wish, nil
}

// walk goes through an error and all it wraps, and is false when there is no end to it. It notes the first wish.
func walk(err error, left *int, wish **failure) bool {
	for err != nil {
		if *left--; *left < 0 {
			return false
		}
		if f, ok := err.(*failure); ok && *wish == nil {
			*wish = f
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range u.Unwrap() {
				if !walk(one, left, wish) {
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

// panicText is what was panicked with, as far as that can be said safely.
func panicText(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a panic with a %T", v)
		}
	}()
	switch v := v.(type) {
	case string:
		return v
	case runtime.Error:
		return v.Error()
	default:
		return fmt.Sprintf("a panic with a %T", v)
	}
}

// recovered makes an error of what was panicked with: safe to use, nil for nil.
func recovered(v any) error {
	if v == nil {
		return nil
	}
	return examine(&PanicError{Value: v, Stack: cut(string(debug.Stack()), maxStack)})
}

// aside calls a hook, in a goroutine of its own, and waits no longer than the context. A panic is an error,
// and so is the goroutine's end.
func aside(ctx context.Context, hook func(context.Context) error) error {
	answer := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { answer <- err }()
		err = guard(func() error { return hook(ctx) })
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// guard turns a panic into an error, and examines errors.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return examine(f())
}

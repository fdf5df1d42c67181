package processor

import "slices"

// Middleware puts something around a handler: it returns a handler that calls the one it is given, or
// does not. It runs around each message, as Config.Middleware, which all processors of
// a program can share.
//
// What it returns counts as the handler's: an error is a failure of the handler's, the error policy
// included; nil completes the message, also when the handler was not called. A panic is an error.
// What Typed, Router and the other handlers in two steps cannot read does not come to it.
type Middleware func(next Handler) Handler

// chain puts middleware around a handler, the first outermost.
func chain(h Handler, around ...Middleware) Handler {
	for _, m := range slices.Backward(around) {
		h = m(h)
	}
	return h
}

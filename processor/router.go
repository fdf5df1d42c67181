package processor

import (
	"context"
	"errors"
	"fmt"
)

// Router is a Handler that leads each message to the function for its type, which the header
// queue.Config.TypeHeader carries (see queue.SendOptions.MessageType). A message without a type, or of
// one that no route names, is dead-lettered without a call, category unroutable. Routes are added by
// Route, before the router is given to New, which tells their faults.
type Router struct {
	routes map[string]func(*Message) (routed, error)
	faults []error
}

// routed is a message's function, with the message read for it.
type routed func(context.Context) error

// NewRouter returns a router without routes.
func NewRouter() *Router { return &Router{routes: map[string]func(*Message) (routed, error){}} }

// Route leads messages of a type, compared exactly, to a function that gets their bodies as Typed's
// does. It may not be called once the router is in use.
func Route[T any](r *Router, messageType string, handle func(context.Context, *Job[T]) error) {
	switch {
	case messageType == "":
		r.faults = append(r.faults, errors.New("a route names no message type"))
	case handle == nil:
		r.faults = append(r.faults, fmt.Errorf("the route from type %q leads to a nil function", messageType))
	case r.routes[messageType] != nil:
		r.faults = append(r.faults, fmt.Errorf("two routes lead from type %q: a message goes to one", messageType))
	default:
		r.routes[messageType] = func(m *Message) (routed, error) {
			job, err := readJob[T](m)
			return func(ctx context.Context) error { return handle(ctx, job) }, err
		}
	}
}

// validate tells the faults of the routes.
func (r *Router) validate() error {
	if len(r.routes) == 0 && len(r.faults) == 0 {
		return errors.New("the router has no routes")
	}
	return errors.Join(r.faults...)
}

// read finds the message's function and reads its body.
func (r *Router) read(m *Message) (routed, error) {
	if m.Err != nil { // kept although it cannot be read, so its type cannot be either
		return nil, Unreadable(m.Err)
	}
	messageType := m.Type()
	if messageType == "" {
		return nil, Unroutable(errors.New("the message has no type"))
	}
	route := r.routes[messageType]
	if route == nil {
		return nil, Unroutable(fmt.Errorf("nothing is routed for messages of type %q", cut(messageType, 200)))
	}
	return route(m)
}

// prepare implements preparer.
func (r *Router) prepare(m *Message) error {
	call, err := r.read(m)
	if err != nil {
		return err
	}
	m.job, m.jobOf = call, r
	return nil
}

// Handle implements Handler.
func (r *Router) Handle(ctx context.Context, m *Message) error {
	if m.jobOf != preparer(r) { // reached through another handler, which the processor could not ask to prepare
		if err := r.prepare(m); err != nil {
			return err
		}
	}
	call, _ := m.job.(routed)
	return call(ctx)
}

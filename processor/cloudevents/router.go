package cloudevents

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// Route leads events of one type to their function. On makes it.
type Route struct {
	eventType string
	to        target
}

// On leads events of a type, compared exactly, to a function that takes their data as a T.
func On[T any](eventType string, handle func(context.Context, *Event[T]) error) Route {
	r := Route{eventType: eventType}
	if handle != nil {
		r.to = &route[T]{handle: handle}
	}
	return r
}

// NewRouter returns a handler that leads each event to the function for its type. An event of a type
// that no route names is dead-lettered without a call, category unroutable, with its id and type in the
// reason. Everything else is as for Handler. Errors tell every fault of the routes at once.
func NewRouter(routes ...Route) (processor.Handler, error) {
	var errs []error
	if len(routes) == 0 {
		errs = append(errs, errors.New("there are no routes"))
	}
	r := router{types: make(map[string]target, len(routes))}
	for i, route := range routes {
		switch {
		case route.eventType == "":
			errs = append(errs, fmt.Errorf("route %d names no event type", i))
		case r.types[route.eventType] != nil:
			errs = append(errs, fmt.Errorf("two routes lead from type %q: an event goes to one", route.eventType))
		case route.to == nil:
			errs = append(errs, fmt.Errorf("the route from type %q leads to a nil function", route.eventType))
		default:
			r.types[route.eventType] = route.to
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("router of events: %w", err)
	}
	return processor.Prepare(r.read, run), nil
}

// target is a route's function, whatever its type of data.
type target interface {
	// prepare reads the event's data. bad is why the event itself could not be read.
	prepare(m *processor.Message, e *event.Event, bad error) (job, error)
}

type route[T any] struct {
	handle func(context.Context, *Event[T]) error
}

func (r *route[T]) prepare(m *processor.Message, e *event.Event, bad error) (job, error) {
	ev := &Event[T]{Event: *e, Message: m, Err: bad}
	if bad == nil {
		var err error
		if ev.Value, err = decode[T](m.Queue(), e); err != nil {
			err = fmt.Errorf("%s: %w", label(e), err)
			refused := processor.Undecodable(err)
			if !errors.Is(err, queue.ErrUnreadable) || !m.KeepsUnreadable() {
				return job{}, refused
			}
			ev.Err = err
			var zero T
			ev.Value = zero
		}
	}
	return job{event: e, call: func(ctx context.Context) error { return r.handle(ctx, ev) }}, nil
}

// router finds the target of each event.
type router struct {
	types map[string]target
	any   target // takes events of every type; nil for a router of types
}

// read turns a message into its events, each with its handler.
func (r *router) read(m *processor.Message) ([]job, error) {
	events, err := r.parse(m)
	if err != nil {
		if r.any == nil || !m.KeepsUnreadable() {
			return nil, processor.Unreadable(err)
		}
		j, err := r.any.prepare(m, &event.Event{Context: &event.EventContextV1{}}, err)
		return []job{j}, err
	}
	jobs := make([]job, 0, len(events))
	for i := range events {
		e := &events[i]
		to := r.any
		if to == nil {
			if to = r.types[e.Type()]; to == nil {
				return nil, processor.Unroutable(fmt.Errorf("%s: nothing is routed for the type", label(e)))
			}
		}
		j, err := to.prepare(m, e, nil)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (r *router) parse(m *processor.Message) ([]event.Event, error) {
	if m.Err != nil {
		return nil, m.Err
	}
	return Parse(m.Body)
}

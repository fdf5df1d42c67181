package cloudevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// Event is an event in its handler's hands. The embedded event has its attributes: ID, Type, Source,
// Subject, Time, Extensions; Data is the data as it came.
type Event[T any] struct {
	event.Event
	// Message is the queue message that carries the event. A handler may settle it, which settles all
	// events in it.
	Message *processor.Message
	// Value is the data, read by the queue's serializer. A []byte gets the data as they are: the bytes
	// of data_base64, the text of data that are not JSON, or JSON; a string gets them likewise, but for
	// a JSON string, which it gets unquoted. Without data, or with null, it is T's zero value; nil if
	// T is a pointer.
	Value T
	// Err is why the event, or its data, could not be read. It is set only where
	// processor.Config.KeepUnreadable has such messages handled; Value is zero then.
	Err error
}

// Handler returns a handler of messages that hold events, whatever their type, with data of type T.
//
// An event whose data do not fit T is dead-lettered without calling the function, category
// deserialization, with the event's id and type in the reason; so is a message that holds no event.
// Data that T's own Validate() error refuses are dead-lettered as well, category handler.
func Handler[T any](handle func(context.Context, *Event[T]) error) processor.Handler {
	if handle == nil {
		return nil
	}
	r := router{any: &route[T]{handle: handle}}
	return processor.Prepare(r.read, run)
}

// job is one event, read and routed, waiting for its handler.
type job struct {
	event *event.Event
	call  func(context.Context) error
}

// run handles the events of a message.
func run(ctx context.Context, m *processor.Message, jobs []job) error {
	if len(jobs) == 1 {
		return jobs[0].call(ctx)
	}
	var errs, permanent []error
	var discarded error
	for _, j := range jobs {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if s := m.Settlement(); s != queue.Unsettled && s != queue.Completed {
			break // it comes back, or lies on the poison queue, with all of its events
		}
		err := j.call(ctx)
		switch {
		case err == nil:
		case processor.IsDiscard(err):
			discarded = err
		case processor.IsPermanent(err):
			permanent = append(permanent, fmt.Errorf("%s: %w", label(j.event), err))
		default:
			errs = append(errs, fmt.Errorf("%s: %w", label(j.event), err))
		}
	}
	if len(errs) == 0 {
		errs = permanent
	} else { // the others are handled again: what cannot be helped waits for the last attempt
		for _, err := range permanent {
			errs = append(errs, errors.New(err.Error()))
		}
	}
	if len(errs) == 0 && discarded != nil {
		return discarded
	}
	return errors.Join(errs...)
}

// decode reads an event's data as a T.
func decode[T any](q *queue.Queue, e *event.Event) (v T, err error) {
	data := e.Data()
	if data == nil || !e.DataBase64 && isJSON(e.DataMediaType()) && string(data) == "null" {
		return v, nil
	}
	if p, ok := any(&v).(*string); ok && !e.DataBase64 && len(data) > 0 && data[0] == '"' && isJSON(e.DataMediaType()) {
		return v, json.Unmarshal(data, p)
	}
	return queue.DecodeBody[T](q, data)
}

// isJSON says whether data of a media type are JSON, which they are without one.
func isJSON(mediaType string) bool {
	_, subtype, _ := strings.Cut(strings.ToLower(mediaType), "/")
	return mediaType == "" || subtype == "json" || strings.HasSuffix(subtype, "+json")
}

const maxLabel = 200

// label names an event in errors, by its id and type.
func label(e *event.Event) string {
	return fmt.Sprintf("event %s of type %s", short(e.ID()), short(e.Type()))
}

// short bounds a text, between characters.
func short(s string) string {
	if len(s) <= maxLabel {
		return s
	}
	return strings.ToValidUTF8(s[:maxLabel], "") + "…"
}

package processor

import (
	"context"
	"errors"

	"github.com/qwatch/qwatch/queue"
)

// Job is a message whose body has been read as a T.
type Job[T any] struct {
	*Message
	Value T
}

// Typed returns a handler that gets bodies read by the queue's serializer (JSON), or as they are when
// T is []byte or string. A body that does not fit T is dead-lettered without calling the function,
// category deserialization. So is one that T's own Validate() error refuses, as a permanent error:
// it could be read, so its category is handler.
func Typed[T any](handle func(context.Context, *Job[T]) error) Handler {
	if handle == nil {
		return nil
	}
	return Prepare(readJob[T], func(ctx context.Context, _ *Message, job *Job[T]) error { return handle(ctx, job) })
}

// readJob reads the body of a Typed handler's message.
func readJob[T any](m *Message) (*Job[T], error) {
	v, err := queue.Decode[T](m.Message)
	if err != nil {
		return nil, Undecodable(err)
	}
	return &Job[T]{Message: m, Value: v}, nil
}

// Undecodable is the error of a handler that got err from queue.Decode or queue.DecodeBody: Permanent
// when the value's own Validate refused it, Unreadable otherwise.
func Undecodable(err error) error {
	if _, ok := errors.AsType[*queue.InvalidError](err); ok {
		return Permanent(err)
	}
	return Unreadable(err)
}

// Prepare returns a handler in two steps: read makes something of a message, handle works with it. What
// read refuses (see Unreadable, Unroutable, Permanent) is settled without a handler having been called,
// and counted so. Both must be set.
func Prepare[T any](read func(*Message) (T, error), handle func(context.Context, *Message, T) error) Handler {
	return &prepared[T]{read, handle}
}

type prepared[T any] struct {
	read   func(*Message) (T, error)
	handle func(context.Context, *Message, T) error
}

// preparer is a handler with something to do before its call counts as one.
type preparer interface {
	prepare(*Message) error
}

// prepare reads the message and leaves the result with it.
func (h *prepared[T]) prepare(m *Message) error {
	v, err := h.read(m)
	if err != nil {
		return err
	}
	m.job, m.jobOf = v, h
	return nil
}

// Handle implements Handler.
func (h *prepared[T]) Handle(ctx context.Context, m *Message) error {
	if m.jobOf != preparer(h) { // reached through another handler, which the processor could not ask to prepare
		if err := h.prepare(m); err != nil {
			return err
		}
	}
	v, _ := m.job.(T)
	return h.handle(ctx, m, v)
}

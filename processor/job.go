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
	return &typed[T]{handle}
}

type typed[T any] struct {
	handle func(context.Context, *Job[T]) error
}

// preparer is a handler with something to do before its call counts as one.
type preparer interface {
	prepare(*Message) error
}

// prepare reads the body and leaves the job with the message.
func (t *typed[T]) prepare(m *Message) error {
	v, err := queue.Decode[T](m.Message)
	if err != nil {
		if _, ok := errors.AsType[*queue.InvalidError](err); ok {
			return Permanent(err)
		}
		return unreadable(err)
	}
	m.job = &Job[T]{Message: m, Value: v}
	return nil
}

// Handle implements Handler.
func (t *typed[T]) Handle(ctx context.Context, m *Message) error {
	job, ok := m.job.(*Job[T])
	if !ok { // reached through another handler, which the processor could not ask to prepare
		if err := t.prepare(m); err != nil {
			return err
		}
		job = m.job.(*Job[T])
	}
	return t.handle(ctx, job)
}

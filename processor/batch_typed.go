package processor

import "context"

// TypedBatch returns a batch handler that gets bodies read as by Typed. A body that does not fit T, or
// that T's Validate refuses, is dead-lettered on its own, and is not in the batch.
func TypedBatch[T any](handle func(context.Context, []*Job[T]) error) BatchHandler {
	if handle == nil {
		return nil
	}
	return &typedBatch[T]{handle}
}

type typedBatch[T any] struct {
	handle func(context.Context, []*Job[T]) error
}

// prepare reads the body and leaves the job with the message.
func (h *typedBatch[T]) prepare(m *Message) error {
	job, err := readJob[T](m)
	if err == nil {
		m.job, m.jobOf = job, h
	}
	return err
}

// HandleBatch implements BatchHandler.
func (h *typedBatch[T]) HandleBatch(ctx context.Context, messages []*Message) error {
	jobs := make([]*Job[T], 0, len(messages))
	for _, m := range messages {
		if m.jobOf != preparer(h) { // reached through another handler, which the processor could not ask to prepare
			if err := h.prepare(m); err != nil {
				return err
			}
		}
		job, _ := m.job.(*Job[T])
		jobs = append(jobs, job)
	}
	return h.handle(ctx, jobs)
}

package poison

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/queue"
)

// DeleteOptions say what to delete.
type DeleteOptions struct {
	Selection
	// DryRun only finds out what would be deleted.
	DryRun bool
	// Deleted is told of every message that is gone. It must be quick.
	Deleted func(context.Context, *Entry)
}

// Delete deletes dead-lettered messages for good: all their copies, and their bodies in the body store.
// An id that several messages of different contents say is theirs deletes none of them: Skipped names it. The id
// of a copy tells which. It fails like Replay, and can be interrupted as it can.
func Delete(ctx context.Context, q *queue.Queue, o DeleteOptions) (Result, error) {
	t, err := newTask(q, o.Selection)
	if err != nil {
		return Result{}, err
	}
	if err := t.plan(ctx); err != nil || o.DryRun {
		t.result.DryRun = o.DryRun
		return t.result, err
	}
	t.act = func(ctx context.Context, l *logical, m *queue.Message, e *Entry) (fate, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if err := m.Complete(ctx); err != nil {
			return released, fmt.Errorf("delete message %s: %w", l.id, err)
		}
		if o.Deleted != nil {
			o.Deleted(ctx, e)
		}
		return settled, nil
	}
	err = t.run(ctx)
	return t.result, err
}

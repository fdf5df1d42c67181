package app

import (
	"context"
	"errors"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/queue"
)

// maxReplays bounds how far back a history goes.
const maxReplays = 20

// historyOf returns what reads the failure records of a queue for the messages that a replayed one was before, the
// latest first; nil when the queue's consumer keeps none.
func historyOf(q FleetQueue) func(context.Context, string) ([]triage.Earlier, error) {
	if q.Config.Consumer == nil || q.Config.Consumer.FailureRecords == nil {
		return nil
	}
	return func(ctx context.Context, messageID string) ([]triage.Earlier, error) {
		store, err := failureStore(q, q.Config.Consumer.FailureRecords)
		if err != nil {
			return nil, err
		}
		return history(ctx, store, q.Name(), messageID)
	}
}

func history(ctx context.Context, store failures.Store, queueName, messageID string) ([]triage.Earlier, error) {
	var all []triage.Earlier
	for id := messageID; len(all) <= maxReplays; {
		f, err := store.Load(ctx, queueName, id)
		if err != nil && !errors.Is(err, failures.ErrNotFound) {
			return all, err
		}
		if n := len(all); n > 0 && err == nil {
			tell(&all[n-1], f)
		}
		if f.ReplayOf == "" || f.ReplayOf == id {
			break
		}
		all = append(all, triage.Earlier{MessageID: f.ReplayOf, ReplayedAt: f.ReplayedAt})
		id = f.ReplayOf
	}
	return all, nil
}

// tell writes what a failure record says.
func tell(e *triage.Earlier, f failures.Failure) {
	e.Category, e.Reason, e.DequeueCount = f.Category, f.Reason, f.DequeueCount
	if !f.DeadLetteredAt.IsZero() {
		e.DeadLetteredAt = &f.DeadLetteredAt
	}
	for _, a := range f.Attempts {
		e.Attempts = append(e.Attempts, queue.Attempt{Number: a.Number, At: a.At, Category: a.Category, Error: a.Error, Worker: a.Worker})
	}
}

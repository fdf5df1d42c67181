package failures

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor/internal/table"
)

// Properties of a row that links a replayed message to what it was before.
const (
	propReplayOf = "ReplayOf"
	kindReplay   = "replay"
)

// Linker is a Store that keeps which message a replayed one was before, so that a failure that follows leads to
// the history of those before it.
type Linker interface {
	// Replayed notes that the message of that original id is on its queue again with a new id, since at. The
	// new id's Failure has it as ReplayOf, whenever that comes to be recorded.
	Replayed(ctx context.Context, queue, originalID, messageID string, at time.Time) error
}

var _ Linker = (*TablesStore)(nil)

// Replayed implements Linker.
func (s *TablesStore) Replayed(ctx context.Context, queue, originalID, messageID string, at time.Time) error {
	p := map[string]any{propKind: kindReplay, propQueue: queue, propMessageID: messageID}
	setText(p, propReplayOf, originalID, maxKey)
	setTime(p, propAt, at)
	e := table.Entity{Partition: escape(queue), Key: escape(messageID) + "!replay", Properties: p}
	action, err := e.Action(aztables.TransactionTypeInsertReplace, "")
	if err == nil {
		err = s.table.Submit(ctx, []aztables.TransactionAction{action})
	}
	if err != nil {
		return fmt.Errorf("record the replay of message %s of %s: %w", originalID, queue, err)
	}
	return nil
}

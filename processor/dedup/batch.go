package dedup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Limits of an entity-group transaction, less what the record of the key takes.
const (
	maxActions    = 99
	maxBatchBytes = 3 << 20
)

type batchKey struct{}

// Actions are what a handler wants done together with the record of its key, all or nothing. Its methods
// are safe for concurrent use.
type Actions struct {
	partition string

	mu    sync.Mutex
	list  []aztables.TransactionAction
	rows  map[string]bool
	bytes int
}

// Batch returns the actions to be committed with the key when the handler succeeds, nil outside a
// handler that the middleware of a TablesStore called. Nothing happens before: a handler that reads the
// entities it changes gives their ETags as conditions.
func Batch(ctx context.Context) *Actions {
	a, _ := ctx.Value(batchKey{}).(*Actions)
	return a
}

// Partition returns the partition that the entities must be in; see Options.Partition.
func (a *Actions) Partition() string { return a.partition }

// Add adds actions: up to 99 in all, each on another entity of the partition. It adds all of them or, with
// an error, none. Errors: ErrNoMiddleware on a nil receiver, or what is wrong with an action.
func (a *Actions) Add(actions ...aztables.TransactionAction) error {
	if a == nil {
		return ErrNoMiddleware
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	rows, size := map[string]bool{}, a.bytes
	for i, action := range actions {
		var e struct{ PartitionKey, RowKey *string }
		if err := json.Unmarshal(action.Entity, &e); err != nil {
			return fmt.Errorf("action %d: read its entity: %w", i, err)
		}
		switch size += len(action.Entity); {
		case e.PartitionKey == nil || e.RowKey == nil:
			return fmt.Errorf("action %d: its entity has no PartitionKey or no RowKey", i)
		case *e.PartitionKey != a.partition:
			return fmt.Errorf("action %d: its entity is in another partition than the business key", i)
		case strings.HasPrefix(*e.RowKey, rowPrefix):
			return fmt.Errorf("action %d: row keys that begin with %s are the store's own", i, rowPrefix)
		case a.rows[*e.RowKey] || rows[*e.RowKey]:
			return fmt.Errorf("action %d: its entity has an action already, and a transaction takes one", i)
		case len(a.list)+i >= maxActions:
			return fmt.Errorf("action %d: a transaction takes %d actions", i, maxActions)
		case size > maxBatchBytes:
			return fmt.Errorf("action %d: with it the transaction passes %d bytes", i, maxBatchBytes)
		}
		rows[*e.RowKey] = true
	}
	if a.rows == nil {
		a.rows = map[string]bool{}
	}
	for row := range rows {
		a.rows[row] = true
	}
	a.list, a.bytes = append(a.list, actions...), size
	return nil
}

func (a *Actions) all() []aztables.TransactionAction {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// BatchError is an action of the handler's that the service refused: none of them was done, and the key
// is free. A status of 412 means that an entity has changed since it was read.
type BatchError struct {
	Index  int    // of the action, in the order they were added
	Status int    // HTTP
	Code   string // the service's, such as EntityAlreadyExists or UpdateConditionNotSatisfied
}

// Error implements error.
func (e *BatchError) Error() string {
	return fmt.Sprintf("commit the handler's table actions: action %d: %d %s", e.Index, e.Status, e.Code)
}

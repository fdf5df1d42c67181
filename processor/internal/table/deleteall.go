package table

import (
	"context"
	"iter"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// maxActions is how many actions a transaction takes.
const maxActions = 100

// DeleteAll removes the rows, which come sorted by partition, in their versions, and returns how many. One
// that has changed since, or is gone, is passed over.
func (t *Table) DeleteAll(ctx context.Context, rows iter.Seq2[Row, error]) (n int, err error) {
	var group []Row
	flush := func() error {
		m, err := t.deleteGroup(ctx, group)
		n, group = n+m, group[:0]
		return err
	}
	for row, err := range rows {
		if err != nil {
			return n, err
		}
		if len(group) == maxActions || len(group) > 0 && group[0].Partition != row.Partition {
			if err := flush(); err != nil {
				return n, err
			}
		}
		group = append(group, row)
	}
	return n, flush()
}

// deleteGroup removes rows of one partition together, or one by one if that cannot be.
func (t *Table) deleteGroup(ctx context.Context, rows []Row) (n int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	actions := make([]aztables.TransactionAction, 0, len(rows))
	for _, r := range rows {
		a, err := Entity{Partition: r.Partition, Key: r.Key}.Action(aztables.TransactionTypeDelete, r.ETag)
		if err != nil {
			return 0, err
		}
		actions = append(actions, a)
	}
	if t.Submit(ctx, actions) == nil {
		return len(rows), nil
	}
	for _, r := range rows {
		switch err := t.Delete(ctx, r.Partition, r.Key, r.ETag); {
		case err == nil:
			n++
		case !Changed(err) && !Missing(err):
			return n, err
		}
	}
	return n, nil
}

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Table is a table that a consumer keeps something in, beside its queue.
type Table struct {
	// Setting of the consumer that names it: "failureRecords" or "idempotency".
	Setting string
	// Name of the table.
	Name string
	// Create says that it is created when it is first needed.
	Create bool

	queue    FleetQueue
	endpoint string
}

// Tables returns the tables of a queue's consumer.
func (q FleetQueue) Tables() []Table {
	c := q.Config.Consumer
	if c == nil {
		return nil
	}
	var all []Table
	if r := c.FailureRecords; r != nil {
		all = append(all, Table{"failureRecords", r.Table, r.CreateTable, q, r.Endpoint})
	}
	if i := c.Idempotency; i != nil {
		all = append(all, Table{"idempotency", i.Table, i.CreateTable, q, i.Endpoint})
	}
	return all
}

// TableError is what the Table service answered. Its text is one line and holds no secret.
type TableError struct {
	Table  string // account/table
	Status int    // of HTTP
	Code   string // the service's, such as "TableNotFound"
}

// Error tells table and cause.
func (e *TableError) Error() string {
	return fmt.Sprintf("read from table %s: %d %s", e.Table, e.Status, e.Code)
}

// Ask reads an entity that does not exist, which changes nothing. Nil: the table is there and may be read. What the
// service answered otherwise is a *TableError.
func (t Table) Ask(ctx context.Context) error {
	client, err := table(t.queue, t.Name, t.endpoint)
	if err != nil {
		return err
	}
	_, err = client.GetEntity(ctx, "qwatch-doctor", "nothing", nil)
	resp, answered := errors.AsType[*azcore.ResponseError](err)
	switch {
	case !answered:
		return err
	case resp.StatusCode == 404 && resp.ErrorCode != "TableNotFound":
		return nil
	}
	return &TableError{Table: t.queue.Config.Account + "/" + t.Name, Status: resp.StatusCode, Code: resp.ErrorCode}
}

// Package table is a narrow way to one table of the Azure Table service, for the stores that lie
// below package processor: every call has a deadline, every error is one line without an address,
// and conditions and transactions are told apart by what the service answered.
//
// Partition and row keys must be free of what the service forbids in them, and of single quotes,
// which the SDK escapes in some calls and not in others.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Retries of one call. They are few: whoever calls holds a message's lease meanwhile.
const (
	retries       = 2
	retryDelay    = 200 * time.Millisecond
	maxRetryDelay = time.Second
)

// Any matches every version of an entity.
const Any = azcore.ETagAny

// A Table is one table. It is safe for concurrent use.
type Table struct {
	client  *aztables.Client
	timeout time.Duration
}

// New returns the table of a client. The timeout bounds a call with its retries.
func New(client *aztables.Client, timeout time.Duration) *Table {
	return &Table{client: client, timeout: timeout}
}

// A Row is an entity as it was read.
type Row struct {
	Partition, Key string
	Properties     map[string]any // as aztables.EDMEntity has them
	ETag           azcore.ETag
	Timestamp      time.Time // service clock: when it was last written
	ReadAt         time.Time // service clock, whole seconds (the answer's Date); zero in a query
}

// Text returns a property's text, "" when there is none.
func (r Row) Text(name string) string {
	s, _ := r.Properties[name].(string)
	return s
}

// Int returns a property's number, 0 when there is none.
func (r Row) Int(name string) int64 {
	switch v := r.Properties[name].(type) {
	case int32:
		return int64(v)
	case aztables.EDMInt64:
		return int64(v)
	default:
		return 0
	}
}

// Time returns a property's time, the zero time when there is none.
func (r Row) Time(name string) time.Time {
	t, _ := r.Properties[name].(aztables.EDMDateTime)
	return time.Time(t)
}

// An Entity is an entity to be written.
type Entity struct {
	Partition, Key string
	Properties     map[string]any // as aztables.EDMEntity takes them
}

// JSON returns the entity as the SDK takes it.
func (e Entity) JSON() ([]byte, error) {
	b, err := json.Marshal(aztables.EDMEntity{
		Entity:     aztables.Entity{PartitionKey: e.Partition, RowKey: e.Key},
		Properties: e.Properties,
	})
	if err != nil {
		return nil, fmt.Errorf("encode an entity: %w", err)
	}
	return b, nil
}

// Action returns the entity as one action of a transaction. An empty etag is no condition.
func (e Entity) Action(kind aztables.TransactionType, etag azcore.ETag) (aztables.TransactionAction, error) {
	b, err := e.JSON()
	a := aztables.TransactionAction{ActionType: kind, Entity: b}
	if etag != "" {
		a.IfMatch = &etag
	}
	return a, err
}

// Create makes the table. One that is there already is no error.
func (t *Table) Create(ctx context.Context) error {
	err := t.call(ctx, func(ctx context.Context) error {
		_, err := t.client.CreateTable(ctx, nil)
		return err
	})
	if f, ok := errors.AsType[*Error](err); ok && f.Code == string(aztables.TableAlreadyExists) {
		return nil
	}
	return err
}

// Insert adds an entity. Error: Exists, or what else went wrong.
func (t *Table) Insert(ctx context.Context, e Entity) (etag azcore.ETag, err error) {
	b, err := e.JSON()
	if err != nil {
		return "", err
	}
	err = t.call(ctx, func(ctx context.Context) error {
		r, err := t.client.AddEntity(ctx, b, nil)
		etag = r.ETag
		return err
	})
	return etag, err
}

// Read returns an entity. Error: Missing, or what else went wrong.
func (t *Table) Read(ctx context.Context, partition, key string) (row Row, err error) {
	var answer *http.Response
	var got aztables.GetEntityResponse
	err = t.call(policy.WithCaptureResponse(ctx, &answer), func(ctx context.Context) error {
		got, err = t.client.GetEntity(ctx, partition, key, nil)
		return err
	})
	if err != nil {
		return Row{}, err
	}
	row, err = parse(got.Value)
	row.ETag = got.ETag
	if err == nil && answer != nil {
		row.ReadAt, err = http.ParseTime(answer.Header.Get("Date"))
	}
	if err != nil {
		return Row{}, &Error{Action: NoAction, cause: fmt.Errorf("read the answer: %w", err)}
	}
	return row, nil
}

// Replace replaces the version of an entity that has the etag. Errors: Missing, Changed, and others.
func (t *Table) Replace(ctx context.Context, e Entity, etag azcore.ETag) (azcore.ETag, error) {
	return t.update(ctx, e, etag, aztables.UpdateModeReplace)
}

// Merge sets properties in the version of an entity that has the etag. Errors: as for Replace.
func (t *Table) Merge(ctx context.Context, e Entity, etag azcore.ETag) (azcore.ETag, error) {
	return t.update(ctx, e, etag, aztables.UpdateModeMerge)
}

func (t *Table) update(ctx context.Context, e Entity, etag azcore.ETag, mode aztables.UpdateMode) (now azcore.ETag, err error) {
	b, err := e.JSON()
	if err != nil {
		return "", err
	}
	err = t.call(ctx, func(ctx context.Context) error {
		r, err := t.client.UpdateEntity(ctx, b, &aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: mode})
		now = r.ETag
		return err
	})
	return now, err
}

// Delete removes the version of an entity that has the etag. Errors: as for Replace.
func (t *Table) Delete(ctx context.Context, partition, key string, etag azcore.ETag) error {
	return t.call(ctx, func(ctx context.Context) error {
		_, err := t.client.DeleteEntity(ctx, partition, key, &aztables.DeleteEntityOptions{IfMatch: &etag})
		return err
	})
}

// Submit does all of the actions or none. The error's Action is the index of the one that was refused.
func (t *Table) Submit(ctx context.Context, actions []aztables.TransactionAction) error {
	return t.call(ctx, func(ctx context.Context) (err error) {
		defer func() {
			// The SDK slices an answer without a body out of its bounds.
			if recover() != nil {
				err = errors.New("the transaction's answer has no body")
			}
		}()
		_, err = t.client.SubmitTransaction(ctx, actions, nil)
		return err
	})
}

// Literal is a time as a query's filter has it.
func Literal(t time.Time) string {
	return t.UTC().Format("datetime'2006-01-02T15:04:05.0000000Z'")
}

// A Query selects entities.
type Query struct {
	Filter string // OData
	Select string // properties, by comma; all when empty
}

// Query returns the entities that match, in the order of their keys. An error is the last element.
func (t *Table) Query(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		opts := &aztables.ListEntitiesOptions{Filter: &q.Filter}
		if q.Select != "" {
			opts.Select = &q.Select
		}
		for pages := t.client.NewListEntitiesPager(opts); pages.More(); {
			var page aztables.ListEntitiesResponse
			err := t.call(ctx, func(ctx context.Context) (err error) {
				page, err = pages.NextPage(ctx)
				return err
			})
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, b := range page.Entities {
				row, err := parse(b)
				if err != nil {
					err = &Error{Action: NoAction, cause: fmt.Errorf("read the answer: %w", err)}
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

func parse(b []byte) (Row, error) {
	var e aztables.EDMEntity
	if err := json.Unmarshal(b, &e); err != nil {
		return Row{}, err
	}
	return Row{
		Partition: e.PartitionKey, Key: e.RowKey, Properties: e.Properties,
		ETag: azcore.ETag(e.ETag), Timestamp: time.Time(e.Timestamp),
	}, nil
}

func (t *Table) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	return classify(do(policy.WithRetryOptions(ctx, policy.RetryOptions{
		MaxRetries: retries, TryTimeout: t.timeout / 2, RetryDelay: retryDelay, MaxRetryDelay: maxRetryDelay,
	})))
}

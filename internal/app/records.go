package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/go-openapi/jsonpointer"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/failures"
)

// recordKeeping adds what a consumer keeps in tables beside its queue. It makes no request.
func recordKeeping(cfg *processor.Config, q FleetQueue, c *config.Consumer, log *slog.Logger) error {
	if c.BusinessKey != nil {
		key, err := businessKey(*c.BusinessKey)
		if err != nil {
			return fmt.Errorf("businessKey: %w", err)
		}
		cfg.BusinessKey = key
	}
	if r := c.FailureRecords; r != nil {
		store, err := failureStore(q, r)
		if err != nil {
			return fmt.Errorf("failureRecords: %w", err)
		}
		recorder, err := failures.NewRecorder(store, failures.Options{Key: cfg.BusinessKey, MaxBody: r.MaxBody, Logger: log})
		if err != nil {
			return err
		}
		cfg.Failures = recorder
	}
	if i := c.Idempotency; i != nil {
		store, err := keyStore(q, i)
		if err != nil {
			return fmt.Errorf("idempotency: %w", err)
		}
		cfg.Middleware = append(cfg.Middleware, dedup.Middleware(store, cfg.BusinessKey, dedup.Options{Scope: i.Scope}))
	}
	return nil
}

// businessKey makes the function that tells a message's key.
func businessKey(k config.BusinessKey) (func(*processor.Message) (string, error), error) {
	if k.Header != "" {
		return dedup.Header(k.Header), nil
	}
	at, err := jsonpointer.New(k.JSON)
	if err != nil {
		return nil, errors.New("its pointer is none: write it as in /order/id")
	}
	return func(m *processor.Message) (string, error) { return pointedAt(at, m.Body) }, nil
}

// pointedAt reads the text or number that a pointer leads to. Its errors quote nothing of the body.
func pointedAt(at jsonpointer.Pointer, body []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // a long id keeps its digits
	var doc any
	if err := d.Decode(&doc); err != nil {
		return "", errors.New("the body is not JSON, where the business key lies")
	}
	v, _, err := at.Get(doc)
	if err != nil {
		return "", dedup.ErrNoKey
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	default:
		return "", errors.New("the business key is neither text nor a number")
	}
}

// table returns a client of a table in the queue's account.
func table(q FleetQueue, name, endpoint string) (*aztables.Client, error) {
	at, err := q.Queue.Account().TableService(endpoint)
	if err != nil {
		return nil, err
	}
	service, err := aztables.NewServiceClientWithNoCredential(at.URL, &aztables.ClientOptions{ClientOptions: at.Options()})
	if err != nil {
		return nil, err
	}
	return service.NewClient(name), nil
}

// failureTable is a failure store whose table is created when it is first needed.
type failureTable struct {
	*failures.TablesStore

	first first
}

func failureStore(q FleetQueue, r *config.FailureRecords) (failures.Store, error) {
	client, err := table(q, r.Table, r.Endpoint)
	if err != nil {
		return nil, err
	}
	store, err := failures.Tables(client, failures.TablesOptions{})
	if err != nil || !r.CreateTable {
		return store, err
	}
	return &failureTable{TablesStore: store, first: first{do: store.Create}}, nil
}

// Attempted implements failures.Store.
func (t *failureTable) Attempted(ctx context.Context, queue, messageID string, a failures.Attempt) error {
	t.first.done(ctx)
	return t.TablesStore.Attempted(ctx, queue, messageID, a)
}

// Record implements failures.Store.
func (t *failureTable) Record(ctx context.Context, f failures.Failure) error {
	t.first.done(ctx)
	return t.TablesStore.Record(ctx, f)
}

// Replayed implements failures.Linker.
func (t *failureTable) Replayed(ctx context.Context, queue, originalID, messageID string, at time.Time) error {
	t.first.done(ctx)
	return t.TablesStore.Replayed(ctx, queue, originalID, messageID, at)
}

// keyTable is a store of keys whose table is created when it is first needed.
type keyTable struct {
	store *dedup.TablesStore
	first first
}

func keyStore(q FleetQueue, i *config.Idempotency) (dedup.Store, error) {
	client, err := table(q, i.Table, i.Endpoint)
	if err != nil {
		return nil, err
	}
	store, err := dedup.Tables(client, dedup.TablesOptions{Lease: i.Lease})
	if err != nil || !i.CreateTable {
		return store, err
	}
	return &keyTable{store: store, first: first{do: store.Create}}, nil
}

// Once implements dedup.Store.
func (t *keyTable) Once(ctx context.Context, key dedup.Key, do func(context.Context) ([]byte, error)) (dedup.Outcome, error) {
	t.first.done(ctx)
	return t.store.Once(ctx, key, do)
}

// creatingAgain is how long a table that could not be created is left alone. Whoever may not create it
// may use it all the same.
const creatingAgain = time.Minute

// first does something once, and again after a while where it failed.
type first struct {
	do func(context.Context) error

	mu    sync.Mutex
	is    bool
	tried time.Time
}

func (f *first) done(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.is || !f.tried.IsZero() && time.Since(f.tried) < creatingAgain {
		return
	}
	f.is, f.tried = f.do(ctx) == nil, time.Now()
}

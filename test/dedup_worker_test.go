package test_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// workerEnv makes a process of the test binary a worker: its value is a workerConfig as JSON.
const workerEnv = "QWATCH_TEST_WORKER"

// Where a worker dies.
const (
	crashBefore  = "before the durable operation"
	crashApplied = "after the effect, before its commit"
	crashRenewal = "during a visibility extension"
	crashCommit  = "as its commit returns" // with SQL only
	crashAfter   = "after the commit, before the delete"
)

// workerConfig says what a worker process does: it consumes a queue, once a business key.
type workerConfig struct {
	Azurite string // connection string
	Queue   string
	Driver  string // "pgx", "sqlite", or "tables"
	DSN     string // or the table's name
	Outside bool   // the effect is not in the store's transaction
	Crash   string
	Handle  time.Duration // how long a handler takes
	Stun    bool          // the first handler outlives its lease, which is not renewed, and takes no notice
}

const (
	workerLease   = 2 * time.Second // of messages, and of claims in Tables
	effectsSchema = "CREATE TABLE IF NOT EXISTS effects (business_key text)"
)

// startWorker starts a worker process.
func startWorker(t *testing.T, c workerConfig) *peer.Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(config))
	return peer.Start(t, "worker", cmd)
}

// dedupWorker is the worker process. It ends on SIGTERM, or as it was told to die. Each hit is a line on
// its standard output.
func dedupWorker() int {
	var c workerConfig
	err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &c)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = c.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// die ends the process as a crash does.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (c workerConfig) run(ctx context.Context) error {
	var client dyingClient
	if c.Crash == crashRenewal {
		client.after = http.MethodPut // of the update that renews
	}
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(c.Azurite), Transport: client})
	if err != nil {
		return err
	}
	q, err := account.Queue(c.Queue, queue.Config{})
	if err != nil {
		return err
	}
	store, apply, err := c.open(ctx)
	if err != nil {
		return err
	}
	once := dedup.Middleware(store, dedup.Body(func(b body) string { return b.ID }), dedup.Options{
		Partition: func(m *processor.Message) (string, error) {
			b, err := queue.Decode[body](m.Message)
			return partitionOf(b.ID), err
		},
		OnHit: func(context.Context, *processor.Message, []byte) error {
			fmt.Println("hit")
			return nil
		},
	})
	var stun sync.Once
	handle := once(processor.Typed(func(ctx context.Context, job *processor.Job[body]) error {
		if c.Crash == crashBefore {
			die()
		}
		time.Sleep(c.Handle)
		if c.Stun {
			stun.Do(func() { time.Sleep(3 * workerLease) })
			ctx = context.WithoutCancel(ctx)
		}
		err := apply(ctx, job.Value.ID)
		if c.Crash == crashApplied && err == nil {
			die()
		}
		if c.Crash == crashRenewal {
			time.Sleep(time.Minute) // the renewal comes first
		}
		return err
	}))
	p, err := processor.New(q, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		err := handle.Handle(ctx, m)
		if c.Crash == crashAfter && err == nil {
			die()
		}
		return err
	}), processor.Config{
		Concurrency: 4, VisibilityTimeout: workerLease, NoRenew: c.Stun, MaxDequeueCount: 50,
		Retry:           processor.RetryConfig{Initial: time.Second, Max: time.Second},
		EmptyBackoffMin: 100 * time.Millisecond, EmptyBackoffMax: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// open opens the store, and returns what a handler's effect is: one more entry under its key, so that
// every application can be counted.
func (c workerConfig) open(ctx context.Context) (dedup.Store, func(context.Context, string) error, error) {
	if c.Driver == "tables" {
		service, err := aztables.NewServiceClientFromConnectionString(c.Azurite, nil)
		if err != nil {
			return nil, nil, err
		}
		client := service.NewClient(c.DSN)
		store, err := dedup.Tables(client, dedup.TablesOptions{Lease: workerLease})
		return store, func(ctx context.Context, key string) error {
			entity := fmt.Appendf(nil, `{"PartitionKey": %q, "RowKey": "effect %s"}`, partitionOf(key), rand.Text())
			if c.Outside {
				_, err := client.AddEntity(ctx, entity, nil)
				return err
			}
			return dedup.Batch(ctx).Add(aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: entity})
		}, errors.Join(err, store.Create(ctx))
	}
	dialect := dedup.PostgreSQL
	if c.Driver == "sqlite" {
		dialect = dedup.SQLite
	}
	open := sql.Open
	if c.Crash == crashCommit {
		open = dyingOnCommit
	}
	db, err := open(c.Driver, c.DSN)
	if err != nil {
		return nil, nil, err
	}
	store, err := dedup.SQL(db, dedup.SQLOptions{Dialect: dialect})
	return store, func(ctx context.Context, key string) error {
		_, err := dedup.Tx(ctx).ExecContext(ctx, "INSERT INTO effects (business_key) VALUES ('"+key+"')")
		return err
	}, err
}

// partitionOf is where the effect of a key lies.
func partitionOf(key string) string { return "customer of " + key }

// dyingClient is the HTTP client of a worker that dies before it sends a request, or when the answer to
// one arrives, by the request's method.
type dyingClient struct{ before, after string }

// Do implements azcore's policy.Transporter.
func (d dyingClient) Do(req *http.Request) (*http.Response, error) {
	if req.Method == d.before {
		die()
	}
	resp, err := http.DefaultClient.Do(req)
	if req.Method == d.after {
		die()
	}
	return resp, err
}

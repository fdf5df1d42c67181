package dedup_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/dedup"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Transfer is a message's body. Its operation names the business operation: whoever sends it twice
// sends the same.
type Transfer struct {
	Operation string `json:"operation"`
	Account   string `json:"account"`
	Cents     int    `json:"cents"`
}

// Idempotency in a SQL database: the key is committed in the handler's own transaction.
func ExampleSQL() {
	ctx := context.Background()
	database := &fakeDB{} // stands for a PostgreSQL server
	db := database.open() // db, err := sql.Open("pgx", dsn)
	defer func() { _ = db.Close() }()
	store, err := dedup.SQL(db, dedup.SQLOptions{Dialect: dedup.PostgreSQL})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Create(ctx); err != nil {
		log.Fatal(err)
	}

	once := dedup.Middleware(store, dedup.Body(func(t Transfer) string { return t.Operation }), dedup.Options{})
	book := processor.Typed(func(ctx context.Context, job *processor.Job[Transfer]) error {
		_, err := dedup.Tx(ctx).ExecContext(ctx, "UPDATE accounts SET cents = cents + $1 WHERE id = $2", job.Value.Cents, job.Value.Account)
		return err
	})

	// The sender was not sure that its first attempt had arrived.
	transfer := Transfer{Operation: "invoice-2041", Account: "7", Cents: 1250}
	consume(once(book), transfer, transfer)

	for _, statement := range database.applied[len(store.Schema()):] {
		fmt.Println(statement)
	}
	// Output:
	// handled 2 messages
	// UPDATE accounts SET cents = cents + 1250 WHERE id = 7
}

// Idempotency in Azure Tables: the effect is committed with the key in one entity-group transaction,
// for which it must lie in the key's partition.
func ExampleTables() {
	ctx := context.Background()
	service := &tabletest.Service{}     // stands for a storage account
	client := service.Client("ledgers") // aztables.NewClient("https://shop.table.core.windows.net/ledgers", cred, nil)
	store, err := dedup.Tables(client, dedup.TablesOptions{Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Create(ctx); err != nil {
		log.Fatal(err)
	}

	once := dedup.Middleware(store, dedup.Body(func(t Transfer) string { return t.Operation }), dedup.Options{
		Partition: func(m *processor.Message) (string, error) {
			t, err := queue.Decode[Transfer](m.Message)
			return "account-" + t.Account, err
		},
	})
	book := processor.Typed(func(ctx context.Context, job *processor.Job[Transfer]) error {
		entry := fmt.Sprintf(`{"PartitionKey": %q, "RowKey": %q, "Cents": %d}`, dedup.Batch(ctx).Partition(), job.ID, job.Value.Cents)
		return dedup.Batch(ctx).Add(aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: []byte(entry)})
	})

	transfer := Transfer{Operation: "invoice-2041", Account: "7", Cents: 1250}
	consume(once(book), transfer, transfer)

	for _, e := range service.Entities("ledgers") {
		fmt.Println(e["PartitionKey"], "state", e["State"], "cents", e["Cents"])
	}
	// Unordered output:
	// handled 2 messages
	// account-7 state done cents <nil>
	// account-7 state <nil> cents 1250
}

// A result, kept with the key, lets a duplicate repeat what follows from the work: here an answer that a
// crash may have swallowed.
func ExampleSetResult() {
	once := dedup.Middleware(&dedup.Memory{}, dedup.Body(func(t Transfer) string { return t.Operation }), dedup.Options{
		OnHit: func(_ context.Context, _ *processor.Message, result []byte) error {
			fmt.Printf("answer again: %s\n", result)
			return nil
		},
	})
	book := processor.Typed(func(ctx context.Context, job *processor.Job[Transfer]) error {
		receipt := "receipt for " + job.Value.Operation
		if err := dedup.SetResult(ctx, []byte(receipt)); err != nil {
			return err
		}
		fmt.Println("answer:", receipt)
		return nil
	})

	transfer := Transfer{Operation: "invoice-2041"}
	consume(once(book), transfer, transfer)
	// Output:
	// answer: receipt for invoice-2041
	// answer again: receipt for invoice-2041
	// handled 2 messages
}

// consume sends the transfers to a queue and runs a processor until they are gone.
func consume(h processor.Handler, transfers ...Transfer) {
	server := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "shop", ConnectionString: queue.Secret(server.ConnectionString()), Transport: server,
	})
	if err != nil {
		log.Fatal(err)
	}
	q, err := account.Queue("transfers", queue.Config{CreateIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range transfers {
		if _, err := q.Send(context.Background(), t, queue.SendOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	p, err := processor.New(q, h, processor.Config{EmptyBackoffMin: 5 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for server.Len(queuetest.AccountName, "transfers") > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		stop()
	}()
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("handled", len(transfers), "messages")
}

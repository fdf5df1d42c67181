package processor_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A handler gets bodies read as its own type. Returning nil completes the message.
func Example() {
	srv := queuetest.New(queuetest.Options{}) // in place of a storage account
	account, err := queue.NewAccount(queue.AccountConfig{
		Name:             "shop",
		ConnectionString: queue.Secret(srv.ConnectionString()),
		Transport:        srv,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := account.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	type Order struct {
		ID    string
		Total int
	}
	if _, err := orders.Send(ctx, Order{ID: "a-1", Total: 42}, queue.SendOptions{}); err != nil {
		fmt.Println(err)
		return
	}

	handler := processor.Typed(func(_ context.Context, job *processor.Job[Order]) error {
		fmt.Printf("order %s over %d, attempt %d\n", job.Value.ID, job.Value.Total, job.Attempt())
		stop() // a service goes on until it is told to stop
		return nil
	})
	p, err := processor.New(orders, handler, processor.Config{Concurrency: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(srv.Len(queuetest.AccountName, "orders"), "left")
	// Output:
	// order a-1 over 42, attempt 1
	// 0 left
}

package processor_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A batch handler gets up to 32 messages in a call, for work that is cheaper in bulk. It may settle some
// of them itself; returning nil completes the rest.
func ExampleNewBatch() {
	srv := queuetest.New(queuetest.Options{}) // in place of a storage account
	account, err := queue.NewAccount(queue.AccountConfig{Name: "shop", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
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

	type Order struct{ ID, Total int }
	for i, total := range []int{30, -1, 12} {
		if _, err := orders.Send(ctx, Order{i, total}, queue.SendOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	rows := 0
	handler := processor.TypedBatch(func(ctx context.Context, jobs []*processor.Job[Order]) error {
		for _, job := range jobs {
			if job.Value.Total < 0 {
				if err := job.DeadLetter(ctx, "negative total"); err != nil {
					return err
				}
				continue
			}
			rows++ // inserted with the others in one statement
		}
		if rows == 2 {
			stop() // a service goes on until it is told to stop
		}
		return nil
	})
	p, err := processor.NewBatch(orders, handler, processor.BatchConfig{MaxBatchSize: 20, MaxConcurrentBatches: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rows, "inserted,", srv.Len(queuetest.AccountName, "orders-poison"), "dead-lettered,", srv.Len(queuetest.AccountName, "orders"), "left")
	// Output:
	// 2 inserted, 1 dead-lettered, 0 left
}

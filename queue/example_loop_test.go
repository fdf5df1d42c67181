package queue_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A loop of one's own: settling, renewing and retrying are the loop's business.
func ExampleQueue_All() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server := queuetest.New(queuetest.Options{}) // in place of a storage account
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "shop", ConnectionString: queue.Secret(server.ConnectionString()), Transport: server,
	})
	if err != nil {
		panic(err)
	}
	orders, err := account.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	for _, item := range []string{"tea", "cake", "milk"} {
		if _, err := orders.Send(ctx, map[string]string{"item": item}, queue.SendOptions{}); err != nil {
			panic(err)
		}
	}

	type order struct{ Item string }
	for m := range orders.All(ctx, queue.AllOptions{}) {
		o, err := queue.Decode[order](m)
		if err != nil {
			fmt.Println("cannot be read:", err) // a real loop dead-letters it: poison.Move
			continue
		}
		fmt.Println("fulfilling", o.Item)
		if err := m.Complete(ctx); err != nil {
			fmt.Println(err)
		}
		if o.Item == "milk" {
			stop() // on shutdown, say; the loop ends
		}
	}
	// Output:
	// fulfilling tea
	// fulfilling cake
	// fulfilling milk
}

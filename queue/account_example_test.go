package queue_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// An account on an in-process service; on Azure leave out Transport, and sign in with a connection
// string, a key, a SAS or an identity.
func ExampleNewAccount() {
	srv := queuetest.New(queuetest.Options{})
	acct, err := queue.NewAccount(queue.AccountConfig{
		Name:             "shop",
		ConnectionString: "UseDevelopmentStorage=true",
		Transport:        srv,
		Observe:          func(r queue.Request) { fmt.Println(r.Operation, r.Account, r.Queue, r.Result) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer acct.Close()

	ctx := context.Background()
	orders, err := acct.Queue("orders", queue.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := orders.Peek(ctx, 1); errors.Is(err, queue.ErrQueueNotFound) {
		fmt.Println(err)
	}
	if err := orders.Create(ctx); err != nil {
		fmt.Println(err)
	}
	for info, err := range acct.Queues(ctx, queue.ListOptions{}) {
		fmt.Println(info.Name, err)
	}
	// Output:
	// peek shop orders not_found
	// peek at shop/orders: 404 QueueNotFound
	// create shop orders ok
	// list shop  ok
	// orders <nil>
}

// Every fault is told at once, and none shows the key.
func ExampleNewAccount_faults() {
	_, err := queue.NewAccount(queue.AccountConfig{Name: "shop", Endpoint: "https://shop.blob.core.windows.net", AccountKey: "s3cret!", Timeout: -1})
	fmt.Println(err)
	// Output:
	// account "shop": timeout: -1ns is negative: every call has a deadline
	// account "shop": endpoint: shop.blob.core.windows.net is a blob endpoint: use https://shop.queue.core.windows.net
	// account "shop": accountKey: it is not base64: copy the key again, as a whole
}

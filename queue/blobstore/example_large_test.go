package blobstore_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
)

// Bodies over 64 KiB go to Blob storage and come back before a handler sees the message.
func Example() {
	ctx := context.Background()
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "shop", ConnectionString: "UseDevelopmentStorage=true",
		Transport: newFake(), // in place of a storage account
	})
	if err != nil {
		panic(err)
	}
	store, err := blobstore.New(account, blobstore.Config{}) // the container queue-large-messages of the same account
	if err != nil {
		panic(err)
	}
	orders, err := account.Queue("orders", queue.Config{CreateIfMissing: true, BodyStore: store})
	if err != nil {
		panic(err)
	}
	if _, err := orders.Send(ctx, strings.Repeat("tea ", 50_000), queue.SendOptions{}); err != nil {
		panic(err)
	}

	messages, err := orders.Receive(ctx, 1, 0)
	if err != nil {
		panic(err)
	}
	m := messages[0]
	fmt.Println(len(m.Body), "bytes of body,", len(m.Text) < 200, "that the message itself is small")
	fmt.Println(m.Complete(ctx)) // which deletes the blob as well
	// Output:
	// 200000 bytes of body, true that the message itself is small
	// <nil>
}

package queue_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Messages are encrypted before they leave the process, in the format of the .NET SDK.
func ExampleConfig_encryption() {
	ctx := context.Background()
	server := queuetest.New(queuetest.Options{}) // in place of a storage account
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "shop", ConnectionString: queue.Secret(server.ConnectionString()), Transport: server,
	})
	if err != nil {
		panic(err)
	}
	secret := make([]byte, 32) // a real one comes from a secret store; see also package keyvault
	key, err := encryption.NewAESKey("orders-2026", secret)
	if err != nil {
		panic(err)
	}
	orders, err := account.Queue("orders", queue.Config{CreateIfMissing: true, KeyWrapper: key})
	if err != nil {
		panic(err)
	}
	if _, err := orders.Send(ctx, "two pounds of tea", queue.SendOptions{}); err != nil {
		panic(err)
	}

	text := server.Texts(queuetest.AccountName, "orders")[0]
	fmt.Println(text[:29], strings.Contains(text, "tea"))
	messages, err := orders.Receive(ctx, 1, 0)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(messages[0].Body))
	// Output:
	// {"EncryptedMessageContents":" false
	// two pounds of tea
}

package collector_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Watch a queue without receiving from it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	server := queuetest.New(queuetest.Options{}) // instead of a real account
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "shop", ConnectionString: queue.Secret(server.ConnectionString()), Transport: server,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer account.Close()
	orders, err := account.Queue("orders", queue.Config{NoPoison: true, CreateIfMissing: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if _, err := orders.SendText(ctx, "hello", queue.SendOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	c, err := collector.New(collector.Config{Targets: []collector.Target{{Queue: orders, Team: "payments"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	stopped := make(chan error)
	go func() { stopped <- c.Run(ctx) }()
	<-c.Contacted()

	for _, q := range c.Snapshot().Queues {
		visible, saturated, ok := q.Visible()
		fmt.Printf("%s/%s (%s): up %s, %d messages, %d visible (saturated %t, known %t)\n",
			q.Account, q.Queue, q.Kind, q.Up, q.Count.Messages, visible, saturated, ok)
	}
	cancel()
	fmt.Println(<-stopped)
	// Output:
	// shop/orders (main): up yes, 3 messages, 3 visible (saturated false, known true)
	// <nil>
}

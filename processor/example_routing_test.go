package processor_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

type OrderCreated struct{ ID string }

type OrderCancelled struct{ ID, Why string }

// Several types of message share a queue: each goes to the function for its type, and a type that
// nobody handles to the poison queue.
func ExampleRouter() {
	srv := queuetest.New(queuetest.Options{})
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
	for _, m := range []struct {
		kind string
		body any
	}{
		{"OrderCreated", OrderCreated{"o-1"}},
		{"OrderShipped", OrderCreated{"o-0"}},
		{"cancelled", OrderCancelled{"o-1", "changed my mind"}},
	} {
		if _, err := orders.Send(ctx, m.body, queue.SendOptions{MessageType: m.kind}); err != nil {
			fmt.Println(err)
			return
		}
	}

	router := processor.NewRouter()
	processor.Route(router, "OrderCreated", func(_ context.Context, job *processor.Job[OrderCreated]) error {
		fmt.Println("created", job.Value.ID)
		return nil
	})
	processor.Route(router, "cancelled", func(_ context.Context, job *processor.Job[OrderCancelled]) error {
		fmt.Println("cancelled", job.Value.ID+":", job.Value.Why)
		stop()
		return nil
	})
	p, err := processor.New(orders, router, processor.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	listing, err := poison.List(context.Background(), orders)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range listing.Entries {
		fmt.Println("poison:", e.Category, e.Reason)
	}

	// Output:
	// created o-1
	// cancelled o-1: changed my mind
	// poison: unroutable nothing is routed for messages of type "OrderShipped"
}

package cloudevents_test

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/cloudevents"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// exampleQueue is a queue that an Event Grid subscription feeds, in place of a storage account's.
func exampleQueue(events ...string) *queue.Queue {
	srv := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "shop", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		panic(err)
	}
	q, err := account.Queue("orders-events", queue.Config{CreateIfMissing: true, Encoding: queue.EncodingBase64})
	if err != nil {
		panic(err)
	}
	for _, e := range events { // Event Grid encodes what it writes
		if _, err := q.SendText(context.Background(), base64.StdEncoding.EncodeToString([]byte(e)), queue.SendOptions{}); err != nil {
			panic(err)
		}
	}
	return q
}

// Events of one type of data go to a function. The queue is Base64, as Event Grid writes by default.
func ExampleHandler() {
	type OrderCreated struct {
		OrderID string
		Total   float64
	}
	q := exampleQueue(`{"specversion":"1.0","id":"A-1","source":"/contoso/orders","type":"Contoso.Orders.Created",
		"subject":"orders/42","data":{"orderId":"42","total":9.5}}`)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	handler := cloudevents.Handler(func(_ context.Context, e *cloudevents.Event[OrderCreated]) error {
		fmt.Printf("%s from %s: order %s over %.2f\n", e.Type(), e.Source(), e.Value.OrderID, e.Value.Total)
		stop()
		return nil
	})
	p, err := processor.New(q, handler, processor.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Contoso.Orders.Created from /contoso/orders: order 42 over 9.50
}

// A subscription that delivers events of several types goes to a router. The second event has Event
// Grid's own schema, which is read as well.
func ExampleNewRouter() {
	type OrderCreated struct{ OrderID string }
	type OrderShipped struct{ OrderID, Carrier string }
	q := exampleQueue(
		`{"specversion":"1.0","id":"A-1","source":"/contoso/orders","type":"Contoso.Orders.Created","data":{"orderId":"42"}}`,
		`{"id":"A-2","topic":"/contoso/orders","subject":"orders/42","eventType":"Contoso.Orders.Shipped",
		  "eventTime":"2026-01-02T03:04:05Z","dataVersion":"1","data":{"orderId":"42","carrier":"Northwind"}}`)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	handler, err := cloudevents.NewRouter(
		cloudevents.On("Contoso.Orders.Created", func(_ context.Context, e *cloudevents.Event[OrderCreated]) error {
			fmt.Println("created", e.Value.OrderID)
			return nil
		}),
		cloudevents.On("Contoso.Orders.Shipped", func(_ context.Context, e *cloudevents.Event[OrderShipped]) error {
			fmt.Println("shipped", e.Value.OrderID, "by", e.Value.Carrier)
			stop()
			return nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := processor.New(q, handler, processor.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// created 42
	// shipped 42 by Northwind
}

package processor_test

import (
	"context"
	"fmt"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

type tenantKey struct{}

// tenant puts the tenant that a header names into the context, and refuses messages without one.
func tenant(next processor.Handler) processor.Handler {
	return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		name := m.Headers["tenant"]
		if name == "" {
			return processor.Permanent(fmt.Errorf("the message names no tenant"))
		}
		return next.Handle(context.WithValue(ctx, tenantKey{}, name), m)
	})
}

// told says when each message begins and ends.
func told(next processor.Handler) processor.Handler {
	return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
		fmt.Println("begin")
		err := next.Handle(ctx, m)
		fmt.Println("end:", err)
		return err
	})
}

// Middleware runs around every message, the first outermost.
func ExampleMiddleware() {
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
	for _, headers := range []map[string]string{nil, {"tenant": "contoso"}} {
		if _, err := orders.Send(ctx, "tea", queue.SendOptions{Headers: headers}); err != nil {
			fmt.Println(err)
			return
		}
	}

	handler := processor.Typed(func(ctx context.Context, job *processor.Job[string]) error {
		fmt.Println(job.Value, "for", ctx.Value(tenantKey{}))
		stop()
		return nil
	})
	p, err := processor.New(orders, handler, processor.Config{Middleware: []processor.Middleware{told, tenant}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(srv.Len(queuetest.AccountName, "orders"), "left,", srv.Len(queuetest.AccountName, "orders-poison"), "on the poison queue")

	// Output:
	// begin
	// end: the message names no tenant
	// begin
	// tea for contoso
	// end: <nil>
	// 0 left, 1 on the poison queue
}

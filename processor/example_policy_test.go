package processor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// OutOfStockError is an error of the application's.
type OutOfStockError struct{ Item string }

func (e OutOfStockError) Error() string { return e.Item + " is out of stock" }

var errOrderedBefore = errors.New("ordered before")

// Some failures are not worth retrying. The policy tells which, by type or by a function.
func ExampleErrorPolicy() {
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
	for _, item := range []string{"tea", "unicorns", "tea again", "end"} {
		if _, err := orders.Send(ctx, item, queue.SendOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	handler := processor.Typed(func(_ context.Context, job *processor.Job[string]) error {
		switch job.Value {
		case "unicorns":
			return OutOfStockError{job.Value}
		case "tea again":
			return errOrderedBefore
		case "end":
			stop()
		}
		return nil
	})
	p, err := processor.New(orders, handler, processor.Config{
		Policy: processor.ErrorPolicy{
			DeadLetter: []func(error) bool{processor.DeadLetterOn[OutOfStockError]()},
			Func: func(_ context.Context, _ *processor.Message, err error) processor.Action {
				if errors.Is(err, errOrderedBefore) {
					return processor.Action{Verdict: processor.Complete} // done already
				}
				return processor.Action{Verdict: processor.Retry}
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}

	poisoned, err := orders.Poison().Peek(context.Background(), 32)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range poisoned.Messages {
		fmt.Printf("%s: %s (%s)\n", m.Body, m.Record.Reason, m.Record.Category)
	}
	fmt.Println(srv.Len(queuetest.AccountName, "orders"), "left")
	// Output:
	// unicorns: unicorns is out of stock (handler)
	// 0 left
}

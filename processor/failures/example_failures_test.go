package failures_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

// Looking up why a message lies on the poison queue.
func Example() {
	ctx := context.Background()
	client := new(tabletest.Service).Client("failures") // aztables.NewClient("https://shop.table.core.windows.net/failures", cred, nil)
	store, err := failures.Tables(client, failures.TablesOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Create(ctx); err != nil {
		log.Fatal(err)
	}

	// A Recorder writes these from what a processor tells it.
	const id = "0f6c2a54-5d5f-4c5f-9d0e-0c1c3d1f7a11"
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	if err := store.Attempted(ctx, "orders", id, failures.Attempt{Number: 1, At: noon, Took: time.Second, Error: "stock service: timeout", Worker: "worker-a/17"}); err != nil {
		log.Fatal(err)
	}
	if err := store.Record(ctx, failures.Failure{
		Queue: "orders", MessageID: id, BusinessKey: "order-42", Category: poison.CategoryHandler, Reason: "no such article", DequeueCount: 2,
		Causes:   []failures.Cause{{Type: "*fmt.wrapError", Message: "reserve: no such article"}, {Type: "*stock.Error", Message: "no such article"}},
		Attempts: []failures.Attempt{{Number: 2, At: noon.Add(time.Minute), Error: "reserve: no such article", Worker: "worker-b/4"}},
	}); err != nil {
		log.Fatal(err)
	}

	for f, err := range store.List(ctx, failures.ListOptions{Queue: "orders"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(f.Category, f.BusinessKey, f.Reason)
	}
	f, err := store.Load(ctx, "orders", id)
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range f.Attempts {
		fmt.Println("attempt", a.Number, "on", a.Worker, a.Error)
	}
	for _, c := range f.Causes {
		fmt.Println(c.Type, c.Message)
	}
	// Output:
	// handler order-42 no such article
	// attempt 1 on worker-a/17 stock service: timeout
	// attempt 2 on worker-b/4 reserve: no such article
	// *fmt.wrapError reserve: no such article
	// *stock.Error no such article
}

package queuetest_test

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// A server is the SDK's transport: no socket is involved, and inside testing/synctest
// its clock is the bubble's.
func Example() {
	ctx := context.Background()
	s := queuetest.New(queuetest.Options{})
	q, err := azqueue.NewQueueClientFromConnectionString(s.ConnectionString(), "orders", &azqueue.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: s},
	})
	if err != nil {
		panic(err)
	}
	if _, err := q.Create(ctx, nil); err != nil {
		panic(err)
	}
	if _, err := q.EnqueueMessage(ctx, "hello", nil); err != nil {
		panic(err)
	}
	fmt.Println(s.Texts(queuetest.AccountName, "orders"))
	// Output: [hello]
}

// A fault makes the first receive fail after the service carried it out.
func ExampleServer_Inject() {
	s := queuetest.New(queuetest.Options{})
	remove := s.Inject(queuetest.Fault{Operation: queuetest.OpReceive, Times: 1, CommitThenFail: true})
	defer remove()
	fmt.Println(s.Requests(queuetest.Op{Operation: queuetest.OpReceive}))
	// Output: 0
}

package queuetest_test

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

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

// A fault makes one receive fail after the service carried it out: the message is hidden,
// though nobody got it.
func ExampleServer_Inject() {
	ctx := context.Background()
	s := queuetest.New(queuetest.Options{})
	q, err := azqueue.NewQueueClientFromConnectionString(s.ConnectionString(), "orders", &azqueue.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: s, Retry: policy.RetryOptions{MaxRetries: -1}},
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
	s.Inject(queuetest.Fault{Operation: queuetest.OpReceive, Times: 1, CommitThenFail: true})
	_, err = q.DequeueMessage(ctx, nil)
	m := s.Messages(queuetest.AccountName, "orders")[0]
	fmt.Println(queueerror.HasCode(err, queueerror.InternalError), m.DequeueCount, m.Visible)
	// Output: true 1 false
}

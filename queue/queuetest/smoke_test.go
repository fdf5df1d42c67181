package queuetest_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/qwatch/qwatch/queue/queuetest"
)

func options(t policy.Transporter) *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: t, Retry: policy.RetryOptions{MaxRetries: -1}}}
}

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		smoke(t, s, s.ConnectionString(), s)
	})
	s := queuetest.New(queuetest.Options{})
	srv := httptest.NewServer(s)
	defer srv.Close()
	smoke(t, s, s.ConnectionStringAt(srv.URL), nil)
}

func smoke(t *testing.T, s *queuetest.Server, cs string, tr policy.Transporter) {
	ctx := context.Background()
	svc, err := azqueue.NewServiceClientFromConnectionString(cs, options(tr))
	if err != nil {
		t.Fatal(err)
	}
	q := svc.NewQueueClient("orders")
	if _, err := q.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"team": to.Ptr("ops")}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := q.EnqueueMessage(ctx, "a <b> & \r\n\"c\" é", nil); err != nil {
			t.Fatal(err)
		}
	}
	r, err := q.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(2))})
	if err != nil || len(r.Messages) != 2 {
		t.Fatal(err, len(r.Messages))
	}
	m := r.Messages[0]
	t.Logf("%q %v %v", *m.MessageText, *m.TimeNextVisible, *m.PopReceipt)
	u, err := q.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, "new", &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(5))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err == nil {
		t.Fatal("stale receipt deleted")
	} else {
		t.Log(err)
	}
	if _, err := q.DeleteMessage(ctx, *m.MessageID, *u.PopReceipt, nil); err != nil {
		t.Fatal(err)
	}
	p, err := q.GetProperties(ctx, nil)
	if err != nil || *p.ApproximateMessagesCount != 2 || *p.Metadata["Team"] != "ops" {
		t.Fatal(err, p)
	}
	pg := svc.NewListQueuesPager(&azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}})
	l, err := pg.NextPage(ctx)
	if err != nil || len(l.Queues) != 1 || *l.Queues[0].Metadata["team"] != "ops" {
		t.Fatal(err, l)
	}
	remove := s.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Times: 1, Status: 503, RetryAfter: 3 * time.Second})
	if _, err = q.PeekMessages(ctx, nil); err == nil {
		t.Fatal("no fault")
	}
	if _, err = q.PeekMessages(ctx, nil); err != nil {
		t.Fatal(err)
	}
	remove()
	t.Log(s.Counts(), s.Messages(queuetest.AccountName, "orders"))
}

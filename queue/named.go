package queue

import (
	"context"
	"encoding/xml"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// NamedMetadata returns the queue's metadata with its names as they were given, for who writes it back. The answer to
// Properties has them in headers, whose case is lost; this one comes from a listing, so it takes the permission to list
// the account's queues. A queue that is not there is ErrQueueNotFound.
func (q *Queue) NamedMetadata(ctx context.Context) (map[string]string, error) {
	ctx, _, cancel := q.acct.idempotent(ctx)
	defer cancel()
	var answer *http.Response
	o := &azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}, Prefix: &q.name, MaxResults: new(int32(1))}
	// The first of the queues whose names begin so is the one with just that name.
	if _, err := q.acct.svc.NewListQueuesPager(o).NextPage(policy.WithCaptureResponse(ctx, &answer)); err != nil {
		return nil, q.wrap(OpList, err)
	}
	var page struct {
		Queues []struct {
			Name     string
			Metadata struct {
				Entries []struct {
					XMLName xml.Name
					Value   string `xml:",chardata"`
				} `xml:",any"`
			}
		} `xml:"Queues>Queue"`
	}
	if err := runtime.UnmarshalAsXML(answer, &page); err != nil {
		return nil, q.wrap(OpList, err)
	}
	if len(page.Queues) == 0 || page.Queues[0].Name != q.name {
		return nil, q.wrap(OpList, ErrQueueNotFound)
	}
	out := map[string]string{}
	for _, e := range page.Queues[0].Metadata.Entries {
		out[e.XMLName.Local] = e.Value
	}
	return out, nil
}

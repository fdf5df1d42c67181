package queue

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// ListOptions narrow a listing. The zero value lists every queue, without metadata.
type ListOptions struct {
	Prefix   string // of the queue's name
	Metadata bool   // ask for metadata too
}

// Info is a queue in a listing.
type Info struct {
	Name     string
	Metadata map[string]string // keys in lower case; nil unless asked for
}

var errPaging = errors.New("the answer points to itself as the next page")

// Queues lists the account's queues by name, through any number of pages of the service. Each page is
// a call of its own, with its own timeout and retries. An error ends the listing; the queues before it stand.
func (a *Account) Queues(ctx context.Context, opts ListOptions) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		o := &azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: opts.Metadata}}
		if opts.Prefix != "" {
			o.Prefix = &opts.Prefix
		}
		for {
			page, err := a.listPage(ctx, o)
			if err != nil {
				yield(Info{}, wrap(OpList, a.cfg.Name, "", err))
				return
			}
			for _, q := range page.Queues {
				if q == nil || q.Name == nil {
					continue
				}
				if !yield(Info{Name: *q.Name, Metadata: plainMetadata(q.Metadata)}, nil) {
					return
				}
			}
			next := page.NextMarker
			if next == nil || *next == "" {
				return
			}
			if o.Marker != nil && *o.Marker == *next {
				yield(Info{}, wrap(OpList, a.cfg.Name, "", errPaging))
				return
			}
			o.Marker = next
		}
	}
}

func (a *Account) listPage(ctx context.Context, o *azqueue.ListQueuesOptions) (azqueue.ListQueuesResponse, error) {
	ctx, _, cancel := a.idempotent(ctx)
	defer cancel()
	return a.svc.NewListQueuesPager(o).NextPage(ctx)
}

func plainMetadata(m map[string]*string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		if v != nil {
			out[strings.ToLower(k)] = *v
		}
	}
	return out
}

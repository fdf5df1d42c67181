package cluster

import (
	"context"
	"errors"
)

// A Router tells which replica watches a queue, and asks it. Queues are named by their main queue's
// name. Implementations are safe for concurrent use and never call storage.
type Router interface {
	// Owner returns whether this replica watches the queue, and otherwise the base URL of the one that does,
	// such as http://10.1.2.3:9780; "" when that is not known. It answers at once.
	Owner(account, queue string) (addr string, self bool)
	// Forward asks the queue's owner: GET of target, an absolute path with its query, such as
	// /api/v1/scaling/orders/invoices?strategy=visible. It takes no longer than ForwardTimeout. What the owner answers
	// is returned whatever its status. The error is ErrUnavailable with its cause when there is no such answer: the owner
	// is not known or cannot be reached, or watches the queue no more. Ask Owner first: a replica does not ask itself.
	Forward(ctx context.Context, account, queue, target string) (*Answer, error)
	// Others returns the base URLs of the replicas that watch what this one does not; "" stands for one that is not known.
	// None: this replica watches everything.
	Others() []string
	// Whole returns the base URL of another replica that watches the whole fleet; false when there is none, or this one does.
	Whole() (addr string, ok bool)
	// Ask is Forward to one of Others.
	Ask(ctx context.Context, addr, target string) (*Answer, error)
}

// ErrUnavailable says that nobody could be asked about a queue. It is worth trying again in a moment.
var ErrUnavailable = errors.New("the replica that watches the queue cannot be asked")

// Answer is what another replica answered.
type Answer struct {
	Status      int    // of HTTP
	ContentType string // may be empty
	Body        []byte
	From        string // the replica's base URL
}

// Alone is the Router of a replica that watches everything.
type Alone struct{}

// Owner implements Router: it is always this replica.
func (Alone) Owner(string, string) (addr string, self bool) { return "", true }

// Forward implements Router: there is nobody to ask.
func (Alone) Forward(context.Context, string, string, string) (*Answer, error) {
	return nil, ErrUnavailable
}

// Others implements Router: there are none.
func (Alone) Others() []string { return nil }

// Whole implements Router: there is no other.
func (Alone) Whole() (addr string, ok bool) { return "", false }

// Ask implements Router: there is nobody to ask.
func (Alone) Ask(context.Context, string, string) (*Answer, error) { return nil, ErrUnavailable }

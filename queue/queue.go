package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Queue is one queue of an account. It is safe for concurrent use, and holds no connection of its own.
type Queue struct {
	name   string
	acct   *Account
	cfg    Config
	client *azqueue.QueueClient
	poison *Queue
	outage outage
	absent absentees
}

// Queue returns the named queue. It makes no request. Errors tell every fault of the name and the configuration.
func (a *Account) Queue(name string, cfg Config) (*Queue, error) {
	cfg = cfg.WithDefaults(name)
	if err := errors.Join(cfg.validate(name), a.checkQueueInURL(name)); err != nil {
		return nil, fmt.Errorf("queue %s/%s: %w", a.cfg.Name, name, err)
	}
	q := &Queue{name: name, acct: a, cfg: cfg, client: a.svc.NewQueueClient(name)}
	if !cfg.NoPoison {
		p := cfg
		p.PoisonQueue, p.NoPoison = "", true
		p.CreateIfMissing = !cfg.KeepPoisonMissing
		p.OnSend = nil
		q.poison = &Queue{name: cfg.PoisonQueue, acct: a, cfg: p, client: a.svc.NewQueueClient(cfg.PoisonQueue)}
	}
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Account returns the account the queue is in.
func (q *Queue) Account() *Account { return q.acct }

// Poison returns the queue's poison queue, or nil when it has none.
func (q *Queue) Poison() *Queue { return q.poison }

// Config returns the configuration with its defaults.
func (q *Queue) Config() Config { return q.cfg }

// String returns "account/queue".
func (q *Queue) String() string { return q.acct.cfg.Name + "/" + q.name }

// Properties is what the service knows about a queue as a whole.
type Properties struct {
	// ApproximateMessages counts hidden messages too, and expired ones not yet removed.
	ApproximateMessages int64
	Metadata            map[string]string // keys in lower case
	At                  time.Time         // service clock
}

// Properties reads the approximate count and the metadata. An answer without a count is an error, never zero.
func (q *Queue) Properties(ctx context.Context) (Properties, error) {
	ctx, trace, cancel := q.acct.idempotent(ctx)
	defer cancel()
	r, err := q.client.GetProperties(ctx, nil)
	if err != nil {
		return Properties{}, q.wrap(OpProperties, err)
	}
	if r.ApproximateMessagesCount == nil || *r.ApproximateMessagesCount < 0 {
		return Properties{}, q.wrap(OpProperties, errNoCount)
	}
	p := Properties{ApproximateMessages: int64(*r.ApproximateMessagesCount), At: q.at(trace)}
	if len(r.Metadata) > 0 {
		p.Metadata = make(map[string]string, len(r.Metadata))
		for k, v := range r.Metadata {
			if v != nil {
				p.Metadata[lower(k)] = *v
			}
		}
	}
	return p, nil
}

// SetMetadata replaces the queue's metadata as a whole. Names must be C# identifiers, and all of it at most
// 8 KB. The service has no way to do so on a condition: of two writers at once the later one wins. So it is tried
// once: who keeps what others wrote reads it again before another try.
func (q *Queue) SetMetadata(ctx context.Context, metadata map[string]string) error {
	ctx, _, cancel := q.acct.once(ctx)
	defer cancel()
	all := make(map[string]*string, len(metadata))
	for k, v := range metadata {
		all[k] = &v
	}
	_, err := q.client.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: all})
	return q.wrap(OpSetMetadata, err)
}

// Clear deletes every message of the queue.
func (q *Queue) Clear(ctx context.Context) error {
	ctx, _, cancel := q.acct.idempotent(ctx)
	defer cancel()
	_, err := q.client.ClearMessages(ctx, nil)
	return q.wrap(OpClear, err)
}

// Create creates the queue. One that exists already is fine.
func (q *Queue) Create(ctx context.Context) error {
	_, err := q.create(ctx)
	return err
}

// create creates the queue, and says whether this call did it: of several at once one does, by the service's answer.
func (q *Queue) create(ctx context.Context) (did bool, err error) {
	ctx, trace, cancel := q.acct.idempotent(ctx)
	defer cancel()
	_, err = q.client.Create(ctx, nil)
	if err = q.wrap(OpCreate, err); hasCode(err, "QueueAlreadyExists") {
		return false, nil // with other metadata
	}
	return err == nil && trace.done != nil && trace.done.StatusCode == http.StatusCreated, err
}

// Delete deletes the queue and every message in it. A queue that is not there is ErrQueueNotFound.
func (q *Queue) Delete(ctx context.Context) error {
	ctx, _, cancel := q.acct.idempotent(ctx)
	defer cancel()
	_, err := q.client.Delete(ctx, nil)
	return q.wrap(OpDeleteQueue, err)
}

// created runs an operation and, when the queue is missing and may be created, creates it and runs it again.
func (q *Queue) created(ctx context.Context, do func() error) error {
	err := do()
	if !q.cfg.CreateIfMissing || !errors.Is(err, ErrQueueNotFound) {
		return err
	}
	did, cerr := q.create(ctx)
	if cerr != nil {
		return errors.Join(err, cerr)
	}
	if did {
		q.acct.log.InfoContext(ctx, "queue created", "queue", q.name)
	}
	return do()
}

func (q *Queue) wrap(op Operation, err error) error { return wrap(op, q.acct.cfg.Name, q.name, err) }

// at is the service's clock at the last answer of a call.
func (q *Queue) at(t *callTrace) time.Time {
	if !t.date.IsZero() {
		return t.date
	}
	return q.acct.Now()
}

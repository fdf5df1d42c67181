package poison

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Entry is one dead-lettered message: all the copies that crashes may have left of it.
type Entry struct {
	MessageID       string            `json:"messageId"`       // the original's; the copy's own where there is no record
	PoisonMessageID string            `json:"poisonMessageId"` // the oldest copy's
	Copies          int               `json:"copies"`          // seen
	Category        Category          `json:"category"`
	Reason          string            `json:"reason,omitempty"`
	DequeueCount    int               `json:"dequeueCount,omitempty"` // deliveries of the original; 0: not recorded
	BusinessKey     string            `json:"businessKey,omitempty"`
	Attempts        []queue.Attempt   `json:"attempts,omitempty"` // that failed, as far as the record tells
	Queue           string            `json:"queue"`              // the source queue
	InsertedAt      time.Time         `json:"insertedAt"`         // of the copy
	DeadLetteredAt  *time.Time        `json:"deadLetteredAt,omitempty"`
	ExpiresAt       *time.Time        `json:"expiresAt,omitempty"` // absent: never
	Headers         map[string]string `json:"headers,omitempty"`
	SizeBytes       int               `json:"sizeBytes"` // of the body; of the wire text where it cannot be read

	message *queue.Message
}

// Message returns the oldest copy as it was peeked at, for its body.
func (e *Entry) Message() *queue.Message { return e.message }

// Listing is what a look at a poison queue saw.
type Listing struct {
	Entries []Entry // oldest first
	Total   int64   // the service's approximate count of the whole poison queue, hidden messages and other queues' included
	Peeked  int     // physical messages looked at
	Others  int     // of those, messages of other queues that share the poison queue
	Partial bool    // there are more than the look could reach
}

// List peeks at the poison queue of q: it changes nothing and sees up to 32 messages. A poison queue
// that does not exist is an empty one. Messages without a record (bare copies by Azure Functions,
// plain messages) belong to whichever queue asks.
func List(ctx context.Context, q *queue.Queue) (Listing, error) {
	p := q.Poison()
	if p == nil {
		return Listing{}, fmt.Errorf("list poison of %s: it has no poison queue", q)
	}
	props, err := p.Properties(ctx)
	if errors.Is(err, queue.ErrQueueNotFound) {
		return Listing{}, nil
	}
	if err != nil {
		return Listing{}, err
	}
	peeked, err := p.Peek(ctx, queue.MaxReceive)
	if err != nil {
		return Listing{}, err
	}
	l := Listing{Total: props.ApproximateMessages, Peeked: len(peeked.Messages)}
	l.Partial = l.Peeked == queue.MaxReceive || l.Total > int64(l.Peeked)
	at := map[[2]string]int{}
	for _, m := range peeked.Messages {
		e := entry(q.Name(), m)
		if e.Queue != q.Name() {
			l.Others++
			continue
		}
		key := [2]string{e.Queue, e.MessageID}
		if i, seen := at[key]; seen {
			l.Entries[i].Copies++
			continue
		}
		at[key] = len(l.Entries)
		l.Entries = append(l.Entries, e)
	}
	return l, nil
}

func entry(source string, m *queue.Message) Entry {
	e := Entry{
		MessageID: m.ID, PoisonMessageID: m.ID, Copies: 1, Category: CategoryOther, Queue: source,
		InsertedAt: m.InsertedAt, Headers: m.Headers, SizeBytes: len(m.Body), message: m,
	}
	if m.ExpiresAt.Year() < 9999 && !m.ExpiresAt.IsZero() {
		e.ExpiresAt = &m.ExpiresAt
	}
	if r := m.Record; r != nil {
		e.Category, e.Reason, e.DequeueCount = known(r.Category), r.Reason, r.DequeueCount
		e.BusinessKey, e.Attempts = r.BusinessKey, r.Attempts
		if r.MessageID != "" {
			e.MessageID = r.MessageID
		}
		if r.Queue != "" {
			e.Queue = r.Queue
		}
		if !r.At.IsZero() {
			e.DeadLetteredAt = &r.At
		}
	}
	if m.Err != nil {
		e.SizeBytes = len(m.Text)
		if m.Record == nil {
			e.Category, e.Reason = CategoryDeserialization, m.Err.Error()
		}
	}
	return e
}

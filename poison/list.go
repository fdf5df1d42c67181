package poison

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Entry is one dead-lettered message: all the copies that crashes may have left of it. Copies are what has the same
// source queue, original id and contents: messages with different contents that say they are the same one are
// entries of their own.
type Entry struct {
	Identity        string            `json:"identity,omitempty"` // the same for all copies, and for nothing else
	MessageID       string            `json:"messageId"`          // the original's; the copy's own where there is no record
	PoisonMessageID string            `json:"poisonMessageId"`    // the oldest copy's
	Copies          int               `json:"copies"`             // seen
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
	// MayHaveBeenSent is when a replay that did not finish set out to send it again; nil: none did.
	MayHaveBeenSent *time.Time `json:"mayHaveBeenSent,omitempty"`

	message *queue.Message
	unsure  bool // the contents could not be read as a whole, so that copies may seem to differ
}

// Message returns the oldest copy as it was peeked at, for its body, which it decompresses: only now, because 32 of
// a few kilobytes each may become half a gigabyte. It must not run while somebody else reads the message. Nil when
// the entry came without it.
func (e *Entry) Message() *queue.Message {
	if e.message != nil {
		e.message.Unpack()
	}
	return e.message
}

// BodyBytes is how many bytes Message decompresses for the body; 0 when it need not.
func (e *Entry) BodyBytes() int {
	if e.message == nil {
		return 0
	}
	return e.message.PackedSize()
}

// Listing is what a look at a poison queue saw.
type Listing struct {
	Entries []Entry // oldest first
	Total   int64   // the service's approximate count of the whole poison queue, hidden messages and other queues' included
	Peeked  int     // physical messages looked at
	Others  int     // of those, messages of other queues that share the poison queue
	Partial bool    // there are more than the look could reach
	Unseen  int64   // of a walk: messages that somebody else keeps hidden, about
}

// List peeks at the poison queue of q: it changes nothing and sees up to 32 messages. A poison queue
// that does not exist is an empty one. Messages without a record (bare copies by Azure Functions,
// plain messages) belong to whichever queue asks. Walk sees them all.
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
	peeked, err := p.PeekPacked(ctx, queue.MaxReceive)
	if err != nil {
		return Listing{}, err
	}
	var c Collector
	l := Listing{Total: props.ApproximateMessages, Peeked: len(peeked.Messages)}
	l.Partial = l.Peeked == queue.MaxReceive || l.Total > int64(l.Peeked)
	for _, m := range peeked.Messages {
		e := entry(q.Name(), m)
		if e.Queue != q.Name() {
			l.Others++
			continue
		}
		c.Add(e)
	}
	l.Entries = c.Entries()
	return l, nil
}

// Collector makes one entry of all the copies of a message. The zero value is ready.
type Collector struct {
	entries []Entry
	at      map[string]int
}

// Add adds an entry, or a copy of one, and says which.
func (c *Collector) Add(e Entry) (first bool) {
	if c.at == nil {
		c.at = map[string]int{}
	}
	id := e.Key()
	if i, seen := c.at[id]; seen {
		was := &c.entries[i]
		was.Copies++
		if was.MayHaveBeenSent == nil {
			was.MayHaveBeenSent = e.MayHaveBeenSent
		}
		return false
	}
	c.at[id] = len(c.entries)
	c.entries = append(c.entries, e)
	return true
}

// Forget drops the messages of the entries, for those who want many without their bodies.
func (e *Entry) Forget() { e.message = nil }

// Release lets go of the body that Message decompressed, until Message is called again.
func (e *Entry) Release() {
	if e.message != nil {
		e.message.Repack()
	}
}

// Entries returns what was added, in the order of the first copies.
func (c *Collector) Entries() []Entry { return c.entries }

// identity tells messages apart; it is short, because there may be many.
type identity [16]byte

// String is the identity in hexadecimal digits.
func (id identity) String() string { return hex.EncodeToString(id[:]) }

func identify(parts ...string) identity {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return identity(h[:16])
}

// Key tells the message that was dead-lettered from others, whichever copy e is of.
func (e *Entry) Key() string {
	return cmp.Or(e.Identity, e.Queue+"/"+e.MessageID) // an older qwatch tells no identity
}

// Time is when the message was dead-lettered, as well as is known: from the record, or by the copy's
// insertion.
func (e *Entry) Time() time.Time {
	if e.DeadLetteredAt != nil {
		return *e.DeadLetteredAt
	}
	return e.InsertedAt
}

// Body reads an entry's body as a T, with the serializer of the queue. Errors: those of queue.Decode.
func Body[T any](e *Entry) (T, error) {
	if e.message == nil {
		var none T
		return none, errors.New("the entry came without its message")
	}
	return queue.Decode[T](e.Message())
}

const noKey = "encrypted, and no key is configured here: nothing more can be told of it"

func entry(source string, m *queue.Message) Entry {
	size, unread := m.Skim()
	id := strings.Clone(m.ID) // what is kept of an entry must not keep the whole answer it came in
	e := Entry{
		MessageID: id, PoisonMessageID: id, Copies: 1, Category: CategoryOther, Queue: source,
		InsertedAt: m.InsertedAt, Headers: m.Headers, SizeBytes: size, message: m,
	}
	if m.ExpiresAt.Year() < 9999 && !m.ExpiresAt.IsZero() {
		e.ExpiresAt = new(m.ExpiresAt)
	}
	if unread != nil {
		e.SizeBytes = len(m.Text)
	}
	contents, sure := m.Contents()
	e.unsure = !sure
	if r := m.Record; r != nil {
		e.record(r)
	}
	e.Identity = identify(e.Queue, e.MessageID, string(contents[:])).String()
	if m.Record != nil {
		return e
	}
	switch {
	case errors.Is(unread, queue.ErrNoKey):
		e.Reason = noKey
	case errors.Is(unread, queue.ErrUnreadable):
		e.Category, e.Reason = CategoryDeserialization, unread.Error()
	case unread != nil: // a store or a key that is away says nothing about the message
		e.Reason = unread.Error()
	}
	return e
}

func (e *Entry) record(r *queue.Record) {
	e.Category, e.Reason, e.DequeueCount = known(r.Category), r.Reason, r.DequeueCount
	e.BusinessKey, e.Attempts = r.BusinessKey, r.Attempts
	if r.MessageID != "" {
		e.MessageID = r.MessageID
	}
	if r.Queue != "" {
		e.Queue = r.Queue
	}
	if !r.At.IsZero() {
		e.DeadLetteredAt = new(r.At)
	}
	if !r.Replayed.IsZero() {
		e.MayHaveBeenSent = new(r.Replayed)
	}
}

package queue

import (
	"context"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue/encryption"
)

// Settlement says how a received message was settled.
type Settlement int

// The ways a message can be settled.
const (
	Unsettled    Settlement = iota
	Completed               // deleted
	Abandoned               // made visible again, now or later
	DeadLettered            // copied to the poison queue, then deleted
	LeaseLost               // another receiver owns it; nothing more can be done
)

// String returns the label form: "completed", "abandoned", ….
func (s Settlement) String() string {
	switch s {
	case Completed:
		return "completed"
	case Abandoned:
		return "abandoned"
	case DeadLettered:
		return "dead_lettered"
	case LeaseLost:
		return "lease_lost"
	default:
		return "unsettled"
	}
}

// Message is a message received from a queue, or peeked at.
//
// The fields are set once, by Receive or Peek, and must not be changed. The methods
// that settle or renew are safe for concurrent use: they take turns, and each uses
// the newest pop receipt. A peeked message has no lease, so they return ErrNotLeased.
type Message struct {
	ID            string    // the service's message id
	DequeueCount  int       // deliveries so far, this one included; for a peeked message, those before
	InsertedAt    time.Time // service clock, whole seconds
	ExpiresAt     time.Time // service clock; year 9999 means never
	NextVisibleAt time.Time // service clock when received: when the lease lapses; zero when peeked
	ReceivedAt    time.Time // service clock (the response's Date), so that ages need no local clock

	Text        string            // the exact wire text, as it lies on the queue
	Body        []byte            // what the sender's serializer wrote; nil when Err is set
	Headers     map[string]string // nil without an envelope
	TraceParent string            // W3C traceparent the sender put in the envelope
	TraceState  string
	Delay       time.Duration // for which the sender hid it, if that travelled with it in an envelope
	Record      *Record       // why it was dead-lettered; on poison queues only
	Err         error         // why Body could not be read; the message is healthy otherwise

	q       *Queue
	env     *Envelope           // nil for a plain message
	sealed  *encryption.Message // not decrypted yet; nil afterwards
	mu      sync.Mutex          // guards what follows; never held during a call
	busy    bool                // a settling or renewing call is under way
	free    chan struct{}       // closed at the end of that call; nil while nobody waits
	receipt string
	text    string // what a call of ours wrote in the place of Text; "" while nothing was
	kept    bool   // the body stays in its store when the message is completed
	leased  bool
	until   time.Time // local clock: when the lease lapses
	settled Settlement
	doubt   Settlement // what the message may be since a delete whose outcome is unknown
	watch   func(Settlement)
	// packed is that the body is compressed still, and unpacked that Unpack made it.
	packed, unpacked bool
	// absences is how many deliveries found its body's store or key away.
	absences int
	unsure   bool // a delete was retried after a lost response and found nothing
}

// Queue returns the queue the message came from.
func (m *Message) Queue() *Queue { return m.q }

// Settlement says how the message was settled so far.
func (m *Message) Settlement() Settlement {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled
}

// LeaseExpires returns when the lease lapses, on the local clock. Zero for a peeked message.
func (m *Message) LeaseExpires() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// Complete deletes the message, and then its body in the body store, if it has one there; a body that
// cannot be deleted stays behind. A delete whose response was lost and whose retry
// finds nothing counts as done (see AmbiguousDelete). Errors: ErrSettled, ErrLeaseLost, ErrNotLeased,
// or what the service answered.
func (m *Message) Complete(ctx context.Context) error { return m.delete(ctx, Completed) }

// CompleteDeadLettered deletes a message whose poison copy is safely stored, and records
// that settlement. A body in the body store stays there, for the copy. Package poison calls it; use
// poison.Move instead.
func (m *Message) CompleteDeadLettered(ctx context.Context) error { return m.delete(ctx, DeadLettered) }

// Absences is how many of the message's deliveries this process gave back by itself, because the store of
// its body or its key could not be reached. They count in DequeueCount, and say nothing against the message.
func (m *Message) Absences() int { return m.absences }

// Age is how long the message has been on the queue when it was received or peeked,
// by the service's clock alone; never negative. It counts from the insertion: a sender's Delay is part
// of it.
func (m *Message) Age() time.Duration { return max(0, m.ReceivedAt.Sub(m.InsertedAt)) }

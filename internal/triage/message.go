package triage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Message is one message of a queue as commands and API show it.
type Message struct {
	MessageID    string            `json:"messageId"`
	DequeueCount int               `json:"dequeueCount"`
	InsertedAt   time.Time         `json:"insertedAt"`
	ExpiresAt    *time.Time        `json:"expiresAt,omitempty"` // absent: never
	AgeSeconds   float64           `json:"ageSeconds"`
	SizeBytes    int               `json:"sizeBytes"`
	Headers      map[string]string `json:"headers,omitempty"`
	Error        string            `json:"error,omitempty"` // why the body cannot be read
	// Partial is that its body was asked for and left out: the answer, or what is answered at once, would be too large.
	Partial bool `json:"partial,omitempty"`
	Payload
}

// Describe shows a message that was peeked at, with its body on request. A body that is compressed still is unpacked
// for that alone, and let go of again.
func Describe(m *queue.Message, body bool) Message {
	size, err := m.Skim()
	d := Message{
		MessageID: m.ID, DequeueCount: m.DequeueCount, InsertedAt: m.InsertedAt, ExpiresAt: Expiry(m.ExpiresAt),
		AgeSeconds: m.Age().Seconds(), SizeBytes: size, Headers: m.Headers,
	}
	if err != nil {
		d.SizeBytes, d.Error = len(m.Text), err.Error()
	}
	if body {
		m.Unpack()
		d.Payload = PayloadOf(m)
		m.Repack()
	}
	return d
}

// Expiry is nil for a message that never expires: the service says so by the year 9999.
func Expiry(t time.Time) *time.Time {
	if t.IsZero() || t.Year() >= 9999 {
		return nil
	}
	return &t
}

// Outgoing is a message to send.
type Outgoing struct {
	Payload
	Headers map[string]string `json:"headers,omitempty"`
	Type    string            `json:"type,omitempty"`
	Delay   Duration          `json:"delay,omitempty"`
	TTL     Duration          `json:"ttl,omitempty"`   // 0: the service's default of 7 days
	Never   bool              `json:"never,omitempty"` // it does not expire
	Raw     bool              `json:"raw,omitempty"`   // the body is the exact wire text
}

// Check tells every fault of it that is not the queue's to find.
func (m Outgoing) Check() error {
	var errs []error
	if m.Body == nil && m.Body64 == nil {
		errs = append(errs, errors.New("it has neither body nor body64"))
	}
	if m.Body != nil && m.Body64 != nil {
		errs = append(errs, errors.New("it has both body and body64"))
	}
	if m.Raw && (len(m.Headers) > 0 || m.Type != "" || m.Body64 != nil) {
		errs = append(errs, errors.New("raw sends a text as it is: headers, type and body64 have no place in it"))
	}
	if m.Never && m.TTL != 0 || m.TTL < 0 {
		errs = append(errs, fmt.Errorf("ttl %v is negative, or contradicts never", time.Duration(m.TTL)))
	}
	return errors.Join(errs...)
}

// Sent is a message that was sent.
type Sent struct {
	MessageID     string     `json:"messageId"`
	InsertedAt    time.Time  `json:"insertedAt"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty"` // absent: never
	NextVisibleAt time.Time  `json:"nextVisibleAt"`
}

// Send sends it.
func (m Outgoing) Send(ctx context.Context, q *queue.Queue) (Sent, error) {
	o := queue.SendOptions{Headers: m.Headers, MessageType: m.Type, Delay: time.Duration(m.Delay), TimeToLive: time.Duration(m.TTL)}
	if m.Never {
		o.TimeToLive = queue.Never
	}
	var r queue.SendResult
	var err error
	switch {
	case m.Raw:
		r, err = q.SendText(ctx, m.Text(), o)
	case m.Body != nil:
		r, err = q.Send(ctx, []byte(*m.Body), o)
	default:
		r, err = q.Send(ctx, m.Body64, o)
	}
	return Sent{MessageID: r.ID, InsertedAt: r.InsertedAt, ExpiresAt: Expiry(r.ExpiresAt), NextVisibleAt: r.NextVisibleAt}, err
}

// Cleared is a queue whose messages were deleted.
type Cleared struct {
	Account             string `json:"account"`
	Queue               string `json:"queue"`
	ApproximateMessages int64  `json:"approximateMessages"` // before
	Cleared             bool   `json:"cleared"`             // false: a dry run
}

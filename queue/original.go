package queue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qwatch/qwatch/queue/encryption"
)

// Original is a poisoned message as it was first sent, ready to be sent again. Package poison sends it.
type Original struct {
	text   string
	refers bool // to a body in the body store
}

// Text is the wire text.
func (o *Original) Text() string { return o.text }

// Original makes a message of a poison queue what it was before it was dead-lettered: the exact text,
// without the record, where nothing else was put around it; else the same envelope, without the record
// and the delay, which was the first sending's. A message without a record is the text as it lies there.
// On a queue that encrypts, the same contents are encrypted with a new key.
//
// Where the wire cannot carry the text, or no longer has the room, the body goes in an envelope, which
// every reader of the queue reads as the same. Errors: ErrNoKey, what keeps the body from being fetched,
// and ErrTooLarge.
func (m *Message) Original(ctx context.Context) (*Original, error) {
	var away *absence
	switch {
	case errors.Is(m.Err, ErrNoKey), errors.As(m.Err, &away):
		return nil, fmt.Errorf("restore message %s of %s: %w", m.ID, m.q, m.Err)
	case m.env == nil || m.env.Record == nil:
		return &Original{text: m.Text}, nil
	}
	carried := m.carriedBefore()
	if m.env.Record.Verbatim {
		return m.original(ctx, wire{encoding: EncodingNone}, carried)
	}
	w, err := m.q.wire(ctx)
	if err != nil {
		return nil, fmt.Errorf("restore message %s of %s: %w", m.ID, m.q, err)
	}
	if m.env.Record.Base64 {
		w.encoding = EncodingBase64
	}
	return m.original(ctx, w, carried)
}

func (m *Message) original(ctx context.Context, w wire, carried []byte) (*Original, error) {
	text, err := w.text(carried)
	blob := m.env.form == bodyBlob
	if err == nil && CheckText(text) == nil {
		return &Original{text, blob && m.env.Record.Packed == ""}, nil
	}
	// It was carried when it was first sent, by whatever means. An envelope carries everything, and
	// compressed what was compressed for the poison queue.
	e := m.stripped()
	for _, carried := range [][]byte{e.encode(), e.compressed().encode()} {
		if w, err = m.q.wire(ctx); err != nil {
			break
		}
		if text, err = w.text(carried); err != nil {
			break
		}
		if err = CheckText(text); err == nil {
			return &Original{text, blob}, nil
		}
	}
	return nil, fmt.Errorf("restore message %s of %s: %w", m.ID, m.q, err)
}

// carriedBefore is what the original's text carried.
func (m *Message) carriedBefore() []byte {
	e, rec := m.stripped(), m.env.Record
	switch {
	case m.Err != nil: // it cannot be read, so the envelope is all there is
	case rec.Verbatim, rec.Packed == PackedBody, rec.Packed == "" && e.alone():
		if rec.Verbatim || !isEnvelope(m.Body) && !encryption.IsMessage(m.Body) {
			return m.Body
		}
	case rec.Packed == PackedEnvelope: // as newEnvelope chose when it was first sent
		plain := newEnvelope(m.Body)
		plain.TraceParent, plain.TraceState, plain.Headers, plain.unknown = e.TraceParent, e.TraceState, e.Headers, e.unknown
		return plain.encode()
	}
	return e.encode()
}

// stripped is the message's envelope without what dead-lettering put into it.
func (m *Message) stripped() *Envelope {
	e := *m.env
	e.Record, e.Delay = nil, 0
	return &e
}

// alone says that nothing but a body is in the envelope, as it is: nobody would have sent one for it.
func (e *Envelope) alone() bool {
	return e.TraceParent == "" && e.TraceState == "" && len(e.Headers) == 0 && len(e.unknown) == 0 && e.encoding == "" && e.form != bodyBlob
}

// Resend puts an original on the queue. Unknown says of a failure that the service may have accepted it
// all the same. A send is tried again only when the service certainly refused it. It lives for the
// service's default of 7 days.
func (q *Queue) Resend(ctx context.Context, o *Original) (out SendResult, unknown bool, err error) {
	options, err := SendOptions{}.check()
	if err == nil {
		err = CheckText(o.text)
	}
	if err != nil {
		return SendResult{}, false, fmt.Errorf("send to %s: %w", q, err)
	}
	send := func(ctx context.Context) (SendResult, error) {
		var out SendResult
		out, unknown, err = q.enqueue(ctx, o.text, options, false)
		return out, err
	}
	if q.cfg.Tracer == nil {
		out, err = send(ctx)
	} else {
		out, err = q.tracedSend(ctx, send)
	}
	return out, unknown && err != nil, err
}

// Mark writes into a received message of a poison queue that somebody sets out to send it again, and
// renews its lease: whoever finds the mark knows that it may have been sent. One without a record is
// given the record that rec is. Errors: ErrTooLarge when there is no room for the mark, and those of
// Renew. Unmark takes it back.
func (m *Message) Mark(ctx context.Context, rec Record, at time.Time, visibility time.Duration) error {
	if err := checkVisibility("visibility timeout", visibility, MinVisibility); err != nil {
		return err
	}
	if errors.Is(m.Err, ErrNoKey) {
		return fmt.Errorf("mark message %s of %s: %w", m.ID, m.q, m.Err)
	}
	e := &Envelope{}
	if m.env != nil && m.env.Record != nil {
		*e, rec = *m.env, *m.env.Record
	} else {
		e, rec.Verbatim = newEnvelope([]byte(m.Text)), true
	}
	rec.Replayed = at
	e.Record = &rec
	text, err := m.marked(ctx, e)
	if err != nil {
		return fmt.Errorf("mark message %s of %s: %w", m.ID, m.q, err)
	}
	return m.update(ctx, text, visibility, Unsettled)
}

// markRoom is what a mark takes, at most.
const markRoom = 40

// marked is the text of a marked copy: compressed when it is too long otherwise, then without the attempts,
// and at last without the end of the reason.
func (m *Message) marked(ctx context.Context, e *Envelope) (text string, err error) {
	shrink := []func(*Envelope){
		func(*Envelope) {},
		func(e *Envelope) {
			small := e.compressed()
			if small.encoding != e.encoding && !e.Record.Verbatim {
				e.Record.Packed = cmp.Or(e.Record.Packed, PackedEnvelope)
				if bare := m.stripped(); bare.alone() {
					e.Record.Packed = PackedBody
				}
			}
			e.form, e.encoding, e.payload = small.form, small.encoding, small.payload
		},
		func(e *Envelope) { e.Record.Attempts = nil },
		func(e *Envelope) {
			e.Record.Reason = strings.ToValidUTF8(e.Record.Reason[:max(0, len(e.Record.Reason)-markRoom)], "")
		},
	}
	try, rec := *e, *e.Record
	try.Record = &rec
	for _, step := range shrink {
		step(&try)
		var w wire
		if w, err = m.q.wire(ctx); err != nil {
			return "", err
		}
		if text, err = w.text(try.encode()); err != nil {
			return "", err
		}
		if err = CheckText(text); err == nil {
			return text, nil
		}
	}
	return "", err
}

// Unmark puts a marked message back as it was, visible at once. Errors: as for Abandon.
func (m *Message) Unmark(ctx context.Context) error { return m.update(ctx, m.Text, 0, Abandoned) }

// CompleteReplayed deletes a message of a poison queue whose original was sent again or, where that is
// nil, of which there is another copy. A body in the body store stays there for them, unless the move to
// the poison queue put it there for this copy alone.
func (m *Message) CompleteReplayed(ctx context.Context, o *Original) error {
	m.mu.Lock()
	m.kept = m.Record == nil || m.Record.Packed == ""
	if o != nil {
		m.kept = o.refers
	}
	m.mu.Unlock()
	return m.delete(ctx, Completed)
}

func (m *Message) keepsBody() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// wireText is the text as it lies on the queue.
func (m *Message) wireText() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.text, m.Text)
}

// packing is how the message lay on its queue, if a move packs it.
func (m *Message) packing() Packed {
	if m.env == nil {
		return PackedBody
	}
	return PackedEnvelope
}

// inBase64 says that the text is Base64 on a queue that reads either.
func (m *Message) inBase64() bool {
	if m.q.cfg.Encoding != EncodingAuto {
		return false
	}
	b, err := m.q.cfg.Encoding.decode(m.Text)
	return err == nil && string(b) != m.Text
}

// Lease tells one lease of the message from another: it changes whenever the pop receipt does, and is none.
// "" for a message that was peeked at.
func (m *Message) Lease() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.leased {
		return ""
	}
	h := sha256.Sum256([]byte(m.receipt))
	return hex.EncodeToString(h[:8])
}

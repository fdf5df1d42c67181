package queue

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/qwatch/qwatch/queue/encryption"
)

// read decodes the wire text, as far as that goes without asking anybody. What cannot be decoded does
// not fail the receive.
func (m *Message) read() {
	b, err := m.q.cfg.Encoding.decode(m.Text)
	switch {
	case err != nil:
		m.Err = err
	case encryption.IsMessage(b):
		m.readSealed(b)
	case m.q.cfg.RequireEncryption:
		m.Err = fmt.Errorf("%w: the message is not encrypted, which this queue requires", ErrUnreadable)
	default:
		m.unpack(b)
	}
}

func (m *Message) readSealed(b []byte) {
	if m.q.cfg.KeyWrapper == nil {
		m.Err = fmt.Errorf("%w: %w", ErrUnreadable, ErrNoKey)
		return
	}
	sealed, err := encryption.Parse(b)
	switch {
	case err != nil:
		m.Err = unreadable(err)
	case sealed.Empty() && m.q.cfg.RequireEncryption:
		m.Err = fmt.Errorf("%w: the encrypted message has no contents, so nothing vouches for it", ErrUnreadable)
	default:
		m.sealed = sealed
	}
}

// unpack reads what the text carries: a body, or an envelope.
func (m *Message) unpack(b []byte) {
	if !isEnvelope(b) {
		m.Body = b
		return
	}
	env, err := parseEnvelope(b)
	if err != nil {
		m.Err = err
		return
	}
	m.env, m.Headers, m.Record = env, env.Headers, env.Record
	m.TraceParent, m.TraceState, m.Delay = env.TraceParent, env.TraceState, env.Delay
	switch {
	case m.away():
	case env.form == bodyBase64 && env.encoding == encodingGzip:
		m.packed = true
	default:
		m.Body, m.Err = env.body(m.q.cfg.MaxBodyBytes)
	}
}

// Unpack decompresses the body of a message from ReceivePacked or PeekPacked, which sets Body or Err. It does
// nothing for others, or a second time. It must not run while somebody else reads the message.
func (m *Message) Unpack() {
	if !m.packed {
		return
	}
	m.packed, m.unpacked = false, true
	m.Body, m.Err = m.env.body(m.q.cfg.MaxBodyBytes)
}

// Repack lets go of the body that Unpack made; Unpack makes it again. It does nothing for others. It must not
// run while somebody else reads the message.
func (m *Message) Repack() {
	if !m.unpacked {
		return
	}
	m.packed, m.unpacked = true, false
	m.Body, m.Err = nil, nil
}

// Skim tells what Unpack would make of the message, its body's size or Err, in little memory: it keeps nothing of
// the body. Of a message that is not packed, it tells what is there.
func (m *Message) Skim() (size int, err error) {
	if !m.packed {
		return len(m.Body), m.Err
	}
	return inflate(m.env.payload, m.q.cfg.MaxBodyBytes, func(int) io.Writer { return io.Discard })
}

// PackedSize returns how many bytes Unpack will make of the body, as the body claims, and at most
// Config.MaxBodyBytes; 0 when there is nothing to unpack. No body becomes larger than it claims.
func (m *Message) PackedSize() int {
	if !m.packed {
		return 0
	}
	return min(claimed(m.env.payload), m.q.cfg.MaxBodyBytes)
}

// away says whether the body is in the queue's body store.
func (m *Message) away() bool {
	return m.env != nil && m.env.form == bodyBlob && m.q.cfg.BodyStore != nil
}

// unfinished says whether reading needs somebody else: a key, or the body store.
func (m *Message) unfinished() bool {
	return m.Err == nil && (m.sealed != nil || m.away() && m.Body == nil)
}

// load reads the rest of an unfinished message. What is wrong with the message becomes its Err; an
// *absence is something that may pass, and leaves the message unfinished.
func (m *Message) load(ctx context.Context) *absence {
	if m.sealed != nil {
		var b []byte
		err := guard(func() (err error) { b, err = m.sealed.Open(ctx, m.q.cfg.KeyWrapper); return err })
		switch {
		case errors.Is(err, encryption.ErrUndecryptable):
			m.Err = unreadable(err)
		case err != nil:
			return &absence{part: "decrypt the message", err: err, sealed: m.sealed}
		default:
			m.unpack(b)
		}
		m.sealed = nil
	}
	if !m.unfinished() {
		return nil
	}
	return m.fetch(ctx)
}

// fetch gets the body from the store.
func (m *Message) fetch(ctx context.Context) *absence {
	cfg := m.q.cfg
	limit := cfg.MaxBodyBytes
	if cfg.KeyWrapper != nil {
		limit += limit/2 + 16<<10 // encrypted it is longer
	}
	var b []byte
	err := guard(func() (err error) { b, err = cfg.BodyStore.Fetch(ctx, m.env.payload, limit); return err })
	switch {
	case errors.Is(err, ErrUnreadable):
		m.Err = fmt.Errorf("fetch the body from its store: %w", err)
		return nil
	case err != nil:
		return &absence{part: "fetch the body from its store", err: err}
	case cfg.KeyWrapper != nil && encryption.IsMessage(b):
		if err = guard(func() (err error) { b, err = openBody(ctx, cfg.KeyWrapper, b); return err }); errors.Is(err, encryption.ErrUndecryptable) {
			m.Err = unreadable(err)
			return nil
		} else if err != nil {
			return &absence{part: "decrypt the body from its store", err: err}
		}
	case cfg.RequireEncryption:
		m.Err = fmt.Errorf("%w: the body in the store is not encrypted, which this queue requires", ErrUnreadable)
		return nil
	}
	switch {
	case m.env.encoding == encodingGzip:
		m.Body, m.Err = gunzip(b, cfg.MaxBodyBytes)
	case len(b) > cfg.MaxBodyBytes:
		m.Err = fmt.Errorf("%w: the body in the store is larger than the limit of %d bytes", ErrUnreadable, cfg.MaxBodyBytes)
	case b == nil:
		m.Body = []byte{}
	default:
		m.Body = b
	}
	return nil
}

func openBody(ctx context.Context, keys encryption.KeyWrapper, b []byte) ([]byte, error) {
	sealed, err := encryption.Parse(b)
	if err != nil {
		return nil, err
	}
	return sealed.Open(ctx, keys)
}

func unreadable(err error) error { return fmt.Errorf("%w: the message %w", ErrUnreadable, err) }

// absence is why a message could not be read for now, through no fault of its own.
type absence struct {
	part   string
	err    error
	sealed *encryption.Message // what could not be decrypted; nil: the body store's absence
}

// Error implements error.
func (a *absence) Error() string { return a.part + ": " + oneLine(a.err.Error()) }

// Unwrap returns the store's or the KeyWrapper's error.
func (a *absence) Unwrap() error { return a.err }

package queue

import (
	"context"
	"fmt"
)

// Draft is a copy of a message in the making, for its poison queue: the same envelope with a poison
// record. Package poison writes it. A message that could not be read at all has no record: its draft is
// the message exactly as it arrived, because a later reader may understand it. A Draft is for one
// goroutine.
type Draft struct {
	m        *Message
	w        wire
	env      *Envelope // nil: the message as it arrived
	squeezed *Envelope // env compressed, once somebody asked
	stored   *Envelope // env with its body in the store
	base64   bool      // the message's text is Base64, on a queue that reads either
	verbatim bool      // env's body is the message's whole text
}

// Draft starts a copy of a message whose queue has a poison queue. A queue that encrypts wraps a new
// content key for it, which can fail.
func (m *Message) Draft(ctx context.Context) (*Draft, error) {
	d := &Draft{m: m}
	switch {
	case m.Err != nil && m.env == nil && CheckText(m.Text) == nil:
		return d, nil
	case m.Err != nil && m.env == nil: // the wire cannot carry it as it is, whoever put it there
		d.env, d.verbatim = newEnvelope([]byte(m.Text)), true
	case m.env != nil:
		d.env = m.env
	default:
		d.env = newEnvelope(m.Body)
	}
	w, err := m.q.wire(ctx)
	if err != nil {
		return nil, fmt.Errorf("copy a message of %s: %w", m.q, err)
	}
	d.w = w
	d.base64 = m.inBase64()
	return d, nil
}

func (d *Draft) with(rec Record, compress bool) []byte {
	e := *d.env
	switch {
	case d.stored != nil:
		e = *d.stored
	case compress:
		e = *d.compressed()
	}
	rec.Base64, rec.Verbatim = d.base64, d.verbatim
	if e.form != d.env.form || e.encoding != d.env.encoding {
		rec.Packed = d.m.packing()
	}
	e.Record, e.Delay = &rec, 0 // the delay was the original's
	return e.encode()
}

func (d *Draft) compressed() *Envelope {
	if d.squeezed == nil {
		d.squeezed = d.env.compressed()
	}
	return d.squeezed
}

// Size returns how many bytes the copy has on the wire, with such a record.
func (d *Draft) Size(rec Record, compress bool) int {
	if d.env == nil {
		return len(d.m.Text)
	}
	return d.w.size(len(d.with(rec, compress)))
}

// text returns the copy as it goes on the wire. It can be called once.
func (d *Draft) text(rec Record, compress bool) (string, error) {
	if d.env == nil {
		return d.m.Text, nil
	}
	return d.w.text(d.with(rec, compress))
}

// Send puts the copy on the poison queue, with the record, and with the body compressed on request. It
// may put it there twice: the record's message id tells. It can be called once.
func (d *Draft) Send(ctx context.Context, rec Record, compress bool) error {
	text, err := d.text(rec, compress)
	if err != nil {
		d.discard(ctx)
		return fmt.Errorf("send to %s: %w", d.m.q.poison, err)
	}
	return d.send(ctx, text)
}

// SendBare puts the message on the poison queue exactly as it arrived, without a record.
func (d *Draft) SendBare(ctx context.Context) error {
	d.discard(ctx)
	return d.send(ctx, d.m.Text)
}

func (d *Draft) send(ctx context.Context, text string) error {
	q := d.m.q.poison
	o, err := SendOptions{TimeToLive: d.m.q.cfg.PoisonTimeToLive}.check()
	if err == nil {
		err = CheckText(text)
	}
	if err != nil {
		d.discard(ctx)
		return fmt.Errorf("send to %s: %w", q, err)
	}
	var unknown bool
	send := func(ctx context.Context) (out SendResult, err error) {
		out, unknown, err = q.enqueue(ctx, text, o, true)
		return out, err
	}
	if q.cfg.Tracer == nil {
		_, err = send(ctx)
	} else {
		_, err = q.tracedSend(ctx, send)
	}
	if err != nil && !unknown {
		d.discard(ctx)
	}
	return err
}

// Store moves the copy's body to the queue's body store, so that the copy has only a reference to it. It
// does nothing, and says so, when there is no store or the body is there already. The body is removed
// again if the copy is not sent.
func (d *Draft) Store(ctx context.Context) (stored bool, err error) {
	if d.env == nil || d.env.form == bodyBlob || d.m.q.cfg.BodyStore == nil {
		return false, nil
	}
	e := d.env
	if z := d.compressed(); len(z.payload) < len(e.payload) {
		e = z
	}
	if d.stored, err = d.m.q.store(ctx, e); err != nil {
		return false, fmt.Errorf("copy a message of %s: %w", d.m.q, err)
	}
	return true, nil
}

func (d *Draft) discard(ctx context.Context) {
	if d.stored != nil {
		d.m.q.unstore(ctx, d.stored, "body of a poison copy that was not sent stays in its store")
		d.stored = nil
	}
}

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// parcel is a body on its way onto the wire.
type parcel struct {
	q      *Queue
	body   []byte    // what the serializer wrote
	env    *Envelope // nil: the body goes alone
	delay  time.Duration
	stored *Envelope // its body is in the store, and nobody else knows
}

func (q *Queue) pack(body []byte, env *Envelope, delay time.Duration) *parcel {
	return &parcel{q: q, body: body, env: env, delay: delay}
}

// carried is what the text carries.
func (p *parcel) carried() []byte {
	if p.env == nil {
		return p.body
	}
	return p.env.encode()
}

// envelope is the body in an envelope, which may have to be made.
func (p *parcel) envelope() *Envelope {
	if p.env == nil {
		e := newEnvelope(p.body)
		e.Delay = p.delay
		return e
	}
	return p.env
}

// text makes the message's text: compressed if that makes it smaller, without the body if that is for
// the store. It asks nobody for anything when the message is too large in any case.
func (p *parcel) text(ctx context.Context) (string, error) {
	cfg := p.q.cfg
	carried := p.carried()
	var squeezed *Envelope
	if cfg.Compress && len(p.body) >= cfg.CompressionThreshold {
		squeezed = p.envelope().compressed()
		if small := squeezed.encode(); len(small) < len(carried) {
			carried = small
		}
	}
	if n := cfg.Encoding.size(len(carried)); cfg.BodyStore == nil && n > MaxTextBytes {
		return "", tooLarge(n)
	}
	w, err := p.q.wire(ctx)
	if err != nil {
		return "", err
	}
	if p.q.stores(len(p.body), w.size(len(carried))) {
		e := p.envelope()
		if squeezed != nil && len(squeezed.payload) < len(e.payload) {
			e = squeezed
		}
		if p.stored, err = p.q.store(ctx, e); err != nil {
			return "", err
		}
		carried = p.stored.encode()
	}
	return w.text(carried)
}

// discard removes the body of a message that was not sent. What cannot be removed stays behind.
func (p *parcel) discard(ctx context.Context) {
	if p.stored != nil {
		p.q.unstore(ctx, p.stored, "body of a message that was not sent stays in its store")
		p.stored = nil
	}
}

// stores says whether a body of that size, in a text of that size, is for the store.
func (q *Queue) stores(body, text int) bool {
	return q.cfg.BodyStore != nil && (text > MaxTextBytes || q.cfg.BodyStoreThreshold > 0 && body >= q.cfg.BodyStoreThreshold)
}

// store puts an envelope's body into the store, as it would stand in the envelope, and returns the
// envelope with the reference. A queue that encrypts does not leave a body in the clear there either.
func (q *Queue) store(ctx context.Context, e *Envelope) (*Envelope, error) {
	body := e.payload
	if q.cfg.KeyWrapper != nil {
		s, err := q.sealer(ctx)
		if err != nil {
			return nil, fmt.Errorf("encrypt the body for its store: %w", err)
		}
		if body, err = s.Seal(body); err != nil {
			return nil, fmt.Errorf("encrypt the body for its store: %w", err)
		}
	}
	var ref json.RawMessage
	err := aside(context.Background(), func() (err error) { ref, err = q.cfg.BodyStore.Put(ctx, body); return err })
	if err == nil && !embeddable(ref) {
		err = errors.New("its reference is not JSON that a message can carry")
	}
	if err != nil {
		return nil, fmt.Errorf("put the body of %d bytes into its store: %w", len(body), err)
	}
	kept := *e
	kept.form, kept.payload = bodyBlob, ref
	return &kept, nil
}

// unstore removes the body of an envelope from the store, and logs why it stays behind.
func (q *Queue) unstore(ctx context.Context, e *Envelope, behind string) {
	ctx = context.WithoutCancel(ctx)
	if err := aside(ctx, func() error { return q.cfg.BodyStore.Delete(ctx, e.payload) }); err != nil {
		q.acct.log.WarnContext(ctx, behind, "queue", q.name, "error", err)
	}
}

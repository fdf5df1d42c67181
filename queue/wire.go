package queue

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/qwatch/qwatch/queue/encryption"
)

// wire makes the text of one message: what the message carries, a body or an envelope, is encrypted if
// the queue says so, and then encoded.
type wire struct {
	encoding Encoding
	sealer   *encryption.Sealer // nil: not encrypted
}

// wire wraps a new content key, if the queue encrypts.
func (q *Queue) wire(ctx context.Context) (wire, error) {
	w := wire{encoding: q.cfg.Encoding}
	if q.cfg.KeyWrapper == nil {
		return w, nil
	}
	s, err := q.sealer(ctx)
	if err != nil {
		return wire{}, fmt.Errorf("encrypt: %w", err)
	}
	w.sealer = s
	return w, nil
}

// size is how long a text n carried bytes make.
func (w wire) size(n int) int {
	if w.sealer != nil {
		n = w.sealer.Size(n)
	}
	return w.encoding.size(n)
}

// text is good for one call: see encryption.Sealer.
func (w wire) text(carried []byte) (string, error) {
	if w.sealer != nil {
		sealed, err := w.sealer.Seal(carried)
		if err != nil {
			return "", fmt.Errorf("encrypt: %w", err)
		}
		carried = sealed
	}
	return w.encoding.encode(carried), nil
}

// size is how long a text n bytes make.
func (e Encoding) size(n int) int {
	if e == EncodingBase64 {
		return base64.StdEncoding.EncodedLen(n)
	}
	return n
}

func tooLarge(n int) error {
	return fmt.Errorf("%w: %d bytes on the wire, encoding and envelope counted, over the service's limit of %d", ErrTooLarge, n, MaxTextBytes)
}

// sealer makes what encrypts one message. A KeyWrapper's panic is an error.
func (q *Queue) sealer(ctx context.Context) (s *encryption.Sealer, err error) {
	err = aside(context.Background(), func() (err error) { s, err = encryption.NewSealer(ctx, q.cfg.KeyWrapper); return err })
	return s, err
}

package dedup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// MaxResult bounds a result, in bytes.
const MaxResult = 32 << 10

// ErrNoMiddleware is a call outside a handler that the right store's middleware called.
var ErrNoMiddleware = errors.New("not inside a handler that dedup's middleware called with this store")

type resultKey struct{}

// result is what a handler leaves behind.
type result struct {
	mu sync.Mutex
	b  []byte
}

// SetResult has the result stored with the key when the handler succeeds, for Options.OnHit. The last
// one set counts. It is copied. Errors: ErrNoMiddleware, or a result larger than MaxResult.
func SetResult(ctx context.Context, b []byte) error {
	r, ok := ctx.Value(resultKey{}).(*result)
	switch {
	case !ok:
		return ErrNoMiddleware
	case len(b) > MaxResult:
		return fmt.Errorf("the result has %d bytes, more than %d", len(b), MaxResult)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = bytes.Clone(b)
	return nil
}

func (r *result) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b
}

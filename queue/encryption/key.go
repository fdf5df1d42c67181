package encryption

import (
	"context"
	"errors"
	"fmt"
)

// What a caller may match with errors.Is.
var (
	// ErrUndecryptable: trying again cannot help. The message is broken, was tampered with, or needs
	// a key that is not to be had.
	ErrUndecryptable = errors.New("cannot be decrypted")
	// ErrUnknownKey: the content key was wrapped with a key that the KeyWrapper does not have. It is
	// ErrUndecryptable as well.
	ErrUnknownKey = fmt.Errorf("%w: its key is not known here", ErrUndecryptable)
)

// WrappedKey is a content key encrypted with another key, as it travels in a message. In a received
// message all of it is the sender's word: untrusted.
type WrappedKey struct {
	KeyID     string // of the key it is wrapped with
	Algorithm string // such as "A256KW" or "RSA-OAEP"
	Key       []byte // the encrypted content key
}

// KeyWrapper encrypts content keys. It must be safe for concurrent use.
type KeyWrapper interface {
	// Wrap encrypts a content key of 40 bytes, and says with which key and by which algorithm.
	Wrap(ctx context.Context, content []byte) (WrappedKey, error)
	// Unwrap decrypts one. An error that wraps ErrUndecryptable says that trying again cannot help,
	// one that wraps ErrUnknownKey that the key is not this KeyWrapper's; any other may pass.
	Unwrap(ctx context.Context, w WrappedKey) ([]byte, error)
}

// Keyring wraps with the current key, and unwraps with whichever of its keys has the id. It is for
// rotating keys: messages wrapped with an older key can still be read.
func Keyring(current KeyWrapper, older ...KeyWrapper) KeyWrapper {
	return keyring(append([]KeyWrapper{current}, older...))
}

type keyring []KeyWrapper

// Wrap implements KeyWrapper.
func (r keyring) Wrap(ctx context.Context, content []byte) (WrappedKey, error) {
	return r[0].Wrap(ctx, content)
}

// Unwrap implements KeyWrapper.
func (r keyring) Unwrap(ctx context.Context, w WrappedKey) ([]byte, error) {
	for _, k := range r {
		if content, err := k.Unwrap(ctx, w); !errors.Is(err, ErrUnknownKey) {
			return content, err
		}
	}
	return nil, fmt.Errorf("unwrap the content key with the %d keys of the ring: %w", len(r), ErrUnknownKey)
}

func broken(what string) error { return fmt.Errorf("%w: %s", ErrUndecryptable, what) }

package encryption

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
)

// AESKey is a symmetric key in this process. It wraps by RFC 3394.
type AESKey struct {
	id        string
	algorithm string
	block     cipher.Block
}

// NewAESKey returns a key of 16, 24 or 32 bytes, whose algorithm is A128KW, A192KW or A256KW. The id is
// what messages name it by; all clients of a queue give the same key the same id.
func NewAESKey(id string, key []byte) (*AESKey, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("AES key %q: it has %d bytes, not 16, 24 or 32", id, len(key))
	}
	if id == "" {
		return nil, fmt.Errorf("AES key: it needs an id, which messages name it by")
	}
	return &AESKey{id: id, algorithm: fmt.Sprintf("A%dKW", 8*len(key)), block: block}, nil
}

// String names the key and its algorithm, never its bytes.
func (k *AESKey) String() string { return fmt.Sprintf("AESKey(%q, %s)", k.id, k.algorithm) }

// GoString keeps %#v from printing the key.
func (k *AESKey) GoString() string { return k.String() }

// Wrap implements KeyWrapper.
func (k *AESKey) Wrap(_ context.Context, content []byte) (WrappedKey, error) {
	if len(content) < 16 || len(content)%8 != 0 {
		return WrappedKey{}, fmt.Errorf("wrap a content key: it has %d bytes, not a multiple of 8 from 16 up", len(content))
	}
	return WrappedKey{KeyID: k.id, Algorithm: k.algorithm, Key: wrap(k.block, content)}, nil
}

// Unwrap implements KeyWrapper.
func (k *AESKey) Unwrap(_ context.Context, w WrappedKey) ([]byte, error) {
	if w.KeyID != k.id {
		return nil, ErrUnknownKey
	}
	if w.Algorithm != k.algorithm {
		return nil, broken(fmt.Sprintf("its content key is wrapped by %.20q, but its key is for %s", w.Algorithm, k.algorithm))
	}
	content, ok := unwrap(k.block, w.Key)
	if !ok {
		return nil, broken("its content key was wrapped with another key, or changed on the way")
	}
	return content, nil
}

// initial is the initial value of RFC 3394, section 2.2.3.1: what shows that unwrapping worked.
const initial = 0xA6A6A6A6A6A6A6A6

// wrap encrypts a key of n 64-bit blocks, n ≥ 2, by RFC 3394, section 2.2.1.
func wrap(block cipher.Block, key []byte) []byte {
	n := len(key) / 8
	out := make([]byte, 8+len(key))
	copy(out[8:], key)
	var b [aes.BlockSize]byte
	binary.BigEndian.PutUint64(b[:8], initial)
	for j := range 6 {
		for i := 1; i <= n; i++ {
			copy(b[8:], out[8*i:])
			block.Encrypt(b[:], b[:])
			binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])^uint64(n*j+i))
			copy(out[8*i:], b[8:])
		}
	}
	copy(out, b[:8])
	return out
}

// unwrap decrypts what wrap made, by RFC 3394, section 2.2.2.
func unwrap(block cipher.Block, wrapped []byte) (key []byte, ok bool) {
	n := len(wrapped)/8 - 1
	if n < 2 || len(wrapped)%8 != 0 {
		return nil, false
	}
	out := append([]byte(nil), wrapped...)
	var b, want [aes.BlockSize]byte
	copy(b[:8], out)
	for j := 5; j >= 0; j-- {
		for i := n; i >= 1; i-- {
			binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])^uint64(n*j+i))
			copy(b[8:], out[8*i:])
			block.Decrypt(b[:], b[:])
			copy(out[8*i:], b[8:])
		}
	}
	binary.BigEndian.PutUint64(want[:8], initial)
	if subtle.ConstantTimeCompare(b[:8], want[:8]) != 1 {
		return nil, false
	}
	return out[8:], true
}

package encryption

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
)

// The algorithms of RSA keys. RSAOAEP hashes with SHA-1, which OAEP does not depend on for its
// strength; it is what the .NET documentation's examples use.
const (
	RSAOAEP    = "RSA-OAEP"
	RSAOAEP256 = "RSA-OAEP-256"
)

// RSAKey is an RSA key in this process.
type RSAKey struct {
	id        string
	algorithm string
	public    *rsa.PublicKey
	private   *rsa.PrivateKey // nil: it only wraps
}

// NewRSAKey returns a key that wraps by the algorithm, RSAOAEP or RSAOAEP256, and unwraps by either.
// The id is what messages name it by; all clients of a queue give the same key the same id.
func NewRSAKey(id string, key *rsa.PrivateKey, algorithm string) (*RSAKey, error) {
	k, err := NewRSAPublicKey(id, &key.PublicKey, algorithm)
	if err != nil {
		return nil, err
	}
	k.private = key
	return k, nil
}

// NewRSAPublicKey returns a key for those who only send: what it wraps it cannot unwrap.
func NewRSAPublicKey(id string, key *rsa.PublicKey, algorithm string) (*RSAKey, error) {
	switch {
	case id == "":
		return nil, errors.New("RSA key: it needs an id, which messages name it by")
	case hashOf(algorithm) == nil:
		return nil, fmt.Errorf("RSA key %q: algorithm %q is not one of %s, %s", id, algorithm, RSAOAEP, RSAOAEP256)
	case key.Size() < 256:
		return nil, fmt.Errorf("RSA key %q: it has %d bits, fewer than 2048", id, 8*key.Size())
	}
	return &RSAKey{id: id, algorithm: algorithm, public: key}, nil
}

func hashOf(algorithm string) func() hash.Hash {
	switch algorithm {
	case RSAOAEP:
		return sha1.New
	case RSAOAEP256:
		return sha256.New
	default:
		return nil
	}
}

// String names the key and its algorithm, never its numbers.
func (k *RSAKey) String() string { return fmt.Sprintf("RSAKey(%q, %s)", k.id, k.algorithm) }

// GoString keeps %#v from printing the key.
func (k *RSAKey) GoString() string { return k.String() }

// Wrap implements KeyWrapper.
func (k *RSAKey) Wrap(_ context.Context, content []byte) (WrappedKey, error) {
	b, err := rsa.EncryptOAEP(hashOf(k.algorithm)(), rand.Reader, k.public, content, nil)
	if err != nil {
		return WrappedKey{}, fmt.Errorf("wrap a content key with RSA key %q: %w", k.id, err)
	}
	return WrappedKey{KeyID: k.id, Algorithm: k.algorithm, Key: b}, nil
}

// Unwrap implements KeyWrapper.
func (k *RSAKey) Unwrap(_ context.Context, w WrappedKey) ([]byte, error) {
	if w.KeyID != k.id || k.private == nil {
		return nil, ErrUnknownKey
	}
	h := hashOf(w.Algorithm)
	if h == nil {
		return nil, broken(fmt.Sprintf("its content key is wrapped by %.20q, which is neither %s nor %s", w.Algorithm, RSAOAEP, RSAOAEP256))
	}
	content, err := rsa.DecryptOAEP(h(), nil, k.private, w.Key, nil)
	if err != nil {
		return nil, broken("its content key was wrapped with another key, or changed on the way")
	}
	return content, nil
}

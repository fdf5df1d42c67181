package encryption

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Sealer encrypts one message with a content key of its own. It is not safe for concurrent use.
type Sealer struct {
	key  []byte
	data []byte // the "EncryptionData", as it is written
}

const (
	sealHead   = `{"` + contentsName + `":"`
	sealMiddle = `","` + dataName + `":`
	sealTail   = `}`
)

var errSealed = errors.New("seal a message: the content key was used before, and must not be used twice")

// NewSealer makes a content key and wraps it. Errors are the KeyWrapper's.
func NewSealer(ctx context.Context, keys KeyWrapper) (*Sealer, error) {
	content := make([]byte, versionLength+keyLength)
	copy(content, protocol)
	_, _ = rand.Read(content[versionLength:]) // it does not fail
	w, err := keys.Wrap(ctx, content)
	if err != nil {
		return nil, err
	}
	d, err := json.Marshal(data{
		EncryptionMode:      mode,
		WrappedContentKey:   wrappedKey{KeyID: w.KeyID, EncryptedKey: w.Key, Algorithm: w.Algorithm},
		EncryptionAgent:     agent{Protocol: protocol, EncryptionAlgorithm: algorithm},
		EncryptedRegionInfo: regionInfo{DataLength: regionLength, NonceLength: nonceLength},
		KeyWrappingMetadata: map[string]any{"EncryptionLibrary": library},
	})
	if err != nil {
		return nil, fmt.Errorf("write the encryption data: %w", err)
	}
	return &Sealer{key: content[versionLength:], data: d}, nil
}

// Size returns how many bytes Seal makes of n.
func (s *Sealer) Size(n int) int {
	regions := max(1, (n+regionLength-1)/regionLength)
	sealed := n + regions*(nonceLength+tagLength)
	return len(sealHead) + base64.StdEncoding.EncodedLen(sealed) + len(sealMiddle) + len(s.data) + len(sealTail)
}

// Room returns how many bytes Seal can take to make at most size, which is under 5 MiB; below 0 when
// there is no room at all.
func (s *Sealer) Room(size int) int {
	free := size - s.Size(0) + base64.StdEncoding.EncodedLen(nonceLength+tagLength)
	return free/4*3 - nonceLength - tagLength
}

// Seal encrypts a message, which then is ASCII. A second call fails: a content key is good for one message.
func (s *Sealer) Seal(plain []byte) ([]byte, error) {
	if s.key == nil {
		return nil, errSealed
	}
	aead, err := gcm(s.key)
	if err != nil {
		return nil, err
	}
	s.key = nil
	sealed := make([]byte, 0, len(plain)+(len(plain)/regionLength+1)*(nonceLength+tagLength))
	for index := uint64(0); index == 0 || len(plain) > 0; index++ {
		region := plain[:min(len(plain), regionLength)]
		plain = plain[len(region):]
		nonce := dotnetNonce(index)
		sealed = aead.Seal(append(sealed, nonce[:]...), nonce[:], region, nil)
	}
	out := make([]byte, 0, len(sealHead)+len(sealMiddle)+len(sealTail)+len(s.data)+base64.StdEncoding.EncodedLen(len(sealed)))
	out = base64.StdEncoding.AppendEncode(append(out, sealHead...), sealed)
	out = append(append(out, sealMiddle...), s.data...)
	return append(out, sealTail...), nil
}

package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// The format's words and numbers.
const (
	contentsName = "EncryptedMessageContents"
	dataName     = "EncryptionData"

	mode      = "FullBlob" // for messages too
	protocol  = "2.0"
	protocol1 = "2.1" // as 2.0, with regions of another length
	algorithm = "AES_GCM_256"
	library   = "qwatch"

	versionLength = 8 // of what is wrapped before the content key
	keyLength     = 32
	nonceLength   = 12
	tagLength     = 16
	regionLength  = 4 << 20 // of plain bytes, each region with a nonce and a tag of its own
	maxRegion     = 1 << 30 // longer than anything that is read here
)

// data is the format's "EncryptionData".
type data struct {
	EncryptionMode      string `json:",omitempty"`
	WrappedContentKey   wrappedKey
	EncryptionAgent     agent
	EncryptedRegionInfo regionInfo
	KeyWrappingMetadata map[string]any `json:",omitempty"`
}

type wrappedKey struct {
	KeyID        string `json:"KeyId"`
	EncryptedKey []byte
	Algorithm    string
}

type agent struct{ Protocol, EncryptionAlgorithm string }

type regionInfo struct{ DataLength, NonceLength int }

// Message is an encrypted message that was read, not yet decrypted.
type Message struct {
	contents []byte
	protocol string
	region   int
	key      WrappedKey
}

// IsMessage says whether a text is an encrypted message. As in the .NET SDK, that is a JSON object with
// the format's two properties and no other; whatever else is a plain message.
func IsMessage(b []byte) bool {
	head := bytes.TrimLeft(b, " \t\r\n")
	if len(head) == 0 || head[0] != '{' {
		return false
	}
	head = bytes.TrimLeft(head[1:], " \t\r\n")
	if !bytes.HasPrefix(head, []byte(`"`+contentsName+`"`)) && !bytes.HasPrefix(head, []byte(`"`+dataName+`"`)) {
		return false // most messages are told by their first property
	}
	_, _, err := split(b)
	return err == nil
}

// Parse reads an encrypted message. Errors wrap ErrUndecryptable, and show nothing of it but names.
func Parse(b []byte) (*Message, error) {
	text, raw, err := split(b)
	if err != nil {
		return nil, err
	}
	contents, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, broken("its EncryptedMessageContents is not Base64")
	}
	var d data
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, broken("its EncryptionData is not what client-side encryption writes")
	}
	switch p := d.EncryptionAgent.Protocol; {
	case p == "1.0":
		return nil, broken("it is encrypted by version 1.0, which does not tell tampering and is not read: send by version 2.0")
	case p != protocol && p != protocol1:
		return nil, broken(fmt.Sprintf("it is encrypted by version %.10q, which is not known to this reader: upgrade, then replay", p))
	case d.EncryptionAgent.EncryptionAlgorithm != algorithm:
		return nil, broken(fmt.Sprintf("it is encrypted by algorithm %.20q, not %s", d.EncryptionAgent.EncryptionAlgorithm, algorithm))
	case d.EncryptedRegionInfo.NonceLength != nonceLength || d.EncryptedRegionInfo.DataLength < 1:
		return nil, broken("its EncryptedRegionInfo is not what version 2 writes")
	case len(d.WrappedContentKey.EncryptedKey) == 0:
		return nil, broken("it has no wrapped content key")
	}
	return &Message{
		contents: contents, protocol: d.EncryptionAgent.Protocol, region: min(d.EncryptedRegionInfo.DataLength, maxRegion),
		key: WrappedKey{KeyID: d.WrappedContentKey.KeyID, Algorithm: d.WrappedContentKey.Algorithm, Key: d.WrappedContentKey.EncryptedKey},
	}, nil
}

// split takes a message apart.
func split(b []byte) (contents string, raw json.RawMessage, err error) {
	var text *string
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", nil, broken("it is not a JSON object")
	}
	for dec.More() {
		name, err := dec.Token()
		switch {
		case err != nil:
			return "", nil, broken("it is not valid JSON")
		case name == contentsName && text == nil:
			err = dec.Decode(&text)
		case name == dataName && raw == nil:
			err = dec.Decode(&raw)
		default:
			return "", nil, broken("it has a property that is not client-side encryption's, or one twice")
		}
		if err != nil {
			return "", nil, broken("it is not valid JSON, or its EncryptedMessageContents is not a string")
		}
	}
	if _, err := dec.Token(); err != nil || len(bytes.TrimSpace(b[dec.InputOffset():])) > 0 {
		return "", nil, broken("it is not valid JSON")
	}
	if text == nil || raw == nil {
		return "", nil, broken("it lacks one of EncryptedMessageContents and EncryptionData")
	}
	return *text, raw, nil
}

// Open decrypts the message. Contents of no bytes at all, which the .NET SDK writes for an empty
// message, open as such: nothing vouches for them, see Empty. Errors that wrap ErrUndecryptable do not
// pass; others are the KeyWrapper's.
func (m *Message) Open(ctx context.Context, keys KeyWrapper) ([]byte, error) {
	content, err := keys.Unwrap(ctx, m.key)
	if err != nil {
		return nil, err
	}
	if len(content) != versionLength+keyLength {
		return nil, broken("its content key has the wrong length")
	}
	// The version is wrapped with the key, so that nobody can pass the message off as another version's.
	if strings.TrimRight(string(content[:versionLength]), "\x00") != m.protocol {
		return nil, broken("its version is not the one it was encrypted by: it was tampered with")
	}
	aead, err := gcm(content[versionLength:])
	if err != nil {
		return nil, err
	}
	return m.open(aead)
}

// Empty says whether the message has no contents. Whoever can write to the queue can make one that way.
func (m *Message) Empty() bool { return len(m.contents) == 0 }

func (m *Message) open(aead cipher.AEAD) ([]byte, error) {
	plain := make([]byte, 0, len(m.contents))
	ordered := len(m.contents)-nonceLength-tagLength > m.region // more than one region
	patterns := sequences()
	for rest, index := m.contents, uint64(0); len(rest) > 0; index++ {
		if len(rest) < nonceLength+tagLength {
			return nil, broken("its contents are cut short")
		}
		region := rest[:min(len(rest), nonceLength+m.region+tagLength)]
		rest = rest[len(region):]
		nonce := region[:nonceLength]
		if ordered {
			if patterns = following(patterns, nonce, index); len(patterns) == 0 {
				return nil, broken("its parts are not in order: it was tampered with")
			}
		}
		var err error
		if plain, err = aead.Open(plain, nonce, region[nonceLength:], nil); err != nil {
			return nil, broken("its contents were changed on the way, or belong to another key")
		}
	}
	return plain, nil
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

package encryption_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/queue/encryption"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func aesKey(t testing.TB, id string, key []byte) *encryption.AESKey {
	t.Helper()
	k, err := encryption.NewAESKey(id, key)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The vectors of RFC 3394, sections 4.1 to 4.6.
func TestAESKeyWrapsAsTheRFCDoes(t *testing.T) {
	const (
		kek  = "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"
		data = "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F"
	)
	for name, tc := range map[string]struct {
		kek, data int // bits
		want      string
		algorithm string
	}{
		"4.1": {128, 128, "1FA68B0A8112B447 AEF34BD8FB5A7B82 9D3E862371D2CFE5", "A128KW"},
		"4.2": {192, 128, "96778B25AE6CA435 F92B5B97C050AED2 468AB8A17AD84E5D", "A192KW"},
		"4.3": {256, 128, "64E8C3F9CE0F5BA2 63E9777905818A2A 93C8191E7D6E8AE7", "A256KW"},
		"4.4": {192, 192, "031D33264E15D332 68F24EC260743EDC E1C6C7DDEE725A93 6BA814915C6762D2", "A192KW"},
		"4.5": {256, 192, "A8F9BC1612C68B3F F6E6F4FBE30E71E4 769C8B80A32CB895 8CD5D17D6B254DA1", "A256KW"},
		"4.6": {256, 256, "28C9F404C4B810F4 CBCCB35CFB87F826 3F5786E2D80ED326 CBC7F0E71A99F43B FB988B9B7A02DD21", "A256KW"},
	} {
		t.Run(name, func(t *testing.T) {
			k := aesKey(t, "k", unhex(t, kek)[:tc.kek/8])
			content, want := unhex(t, data)[:tc.data/8], unhex(t, tc.want)
			w, err := k.Wrap(t.Context(), content)
			if err != nil || !bytes.Equal(w.Key, want) || w.Algorithm != tc.algorithm || w.KeyID != "k" {
				t.Fatalf("wrapped %+v, error %v, want %X by %s", w, err, want, tc.algorithm)
			}
			if got, err := k.Unwrap(t.Context(), w); err != nil || !bytes.Equal(got, content) {
				t.Errorf("unwrapped %X, error %v", got, err)
			}
			for i := range w.Key {
				bad := w
				bad.Key = bytes.Clone(w.Key)
				bad.Key[i] ^= 0x10
				if got, err := k.Unwrap(t.Context(), bad); !errors.Is(err, encryption.ErrUndecryptable) || got != nil {
					t.Fatalf("byte %d changed: unwrapped %X, error %v", i, got, err)
				}
			}
		})
	}
}

func TestAESKeyRefusesWhatIsNotItsOwn(t *testing.T) {
	k := aesKey(t, "k", make([]byte, 32))
	good, err := k.Wrap(t.Context(), make([]byte, 40))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change  func(*encryption.WrappedKey)
		unknown bool
	}{
		"another key's id":  {func(w *encryption.WrappedKey) { w.KeyID = "K" }, true},
		"another algorithm": {func(w *encryption.WrappedKey) { w.Algorithm = "A128KW" }, false},
		"nothing":           {func(w *encryption.WrappedKey) { w.Key = nil }, false},
		"one block":         {func(w *encryption.WrappedKey) { w.Key = w.Key[:16] }, false},
		"cut in a block":    {func(w *encryption.WrappedKey) { w.Key = w.Key[:44] }, false},
	} {
		w := good
		tc.change(&w)
		if _, err := k.Unwrap(t.Context(), w); !errors.Is(err, encryption.ErrUndecryptable) || errors.Is(err, encryption.ErrUnknownKey) != tc.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, 8, 20} {
		if _, err := k.Wrap(t.Context(), make([]byte, n)); err == nil {
			t.Errorf("a content key of %d bytes is wrapped", n)
		}
	}
	for _, n := range []int{0, 15, 31, 33} {
		if _, err := encryption.NewAESKey("k", make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes passes", n)
		}
	}
	if _, err := encryption.NewAESKey("", make([]byte, 32)); err == nil {
		t.Error("a key without an id passes")
	}
}

func TestRSAKey(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	content := []byte(strings.Repeat("k", 40))
	for _, algorithm := range []string{encryption.RSAOAEP, encryption.RSAOAEP256} {
		k, err := encryption.NewRSAKey("k", private, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		sender, err := encryption.NewRSAPublicKey("k", &private.PublicKey, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		w, err := sender.Wrap(t.Context(), content)
		if err != nil || w.KeyID != "k" || w.Algorithm != algorithm {
			t.Fatalf("wrapped %+v, error %v", w, err)
		}
		if got, err := k.Unwrap(t.Context(), w); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: unwrapped %q, error %v", algorithm, got, err)
		}
		if _, err := sender.Unwrap(t.Context(), w); !errors.Is(err, encryption.ErrUnknownKey) {
			t.Errorf("%s: who only has the public key unwraps: %v", algorithm, err)
		}
		w.Algorithm = "RSA1_5"
		if _, err := k.Unwrap(t.Context(), w); !errors.Is(err, encryption.ErrUndecryptable) {
			t.Errorf("%s: another algorithm: %v", algorithm, err)
		}
		w.Algorithm, w.Key = algorithm, w.Key[:len(w.Key)-1]
		if _, err := k.Unwrap(t.Context(), w); !errors.Is(err, encryption.ErrUndecryptable) {
			t.Errorf("%s: cut short: %v", algorithm, err)
		}
	}
	for id, algorithm := range map[string]string{"": encryption.RSAOAEP, "k": "RSA1_5"} {
		if _, err := encryption.NewRSAKey(id, private, algorithm); err == nil {
			t.Errorf("id %q with algorithm %q passes", id, algorithm)
		}
	}
}

// countedKey is a key that fails, or does not know a key, on request.
type countedKey struct {
	encryption.KeyWrapper
	err    error
	called int
}

func (k *countedKey) Unwrap(ctx context.Context, w encryption.WrappedKey) ([]byte, error) {
	k.called++
	if k.err != nil {
		return nil, k.err
	}
	return k.KeyWrapper.Unwrap(ctx, w)
}

func TestKeyringReadsWhatOlderKeysWrapped(t *testing.T) {
	older, current := aesKey(t, "2025", make([]byte, 32)), aesKey(t, "2026", bytes.Repeat([]byte{1}, 32))
	content := make([]byte, 40)
	was, err := older.Wrap(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	ring := encryption.Keyring(current, older)
	if got, err := ring.Unwrap(t.Context(), was); err != nil || !bytes.Equal(got, content) {
		t.Errorf("unwrapped %X, error %v", got, err)
	}
	if w, err := ring.Wrap(t.Context(), content); err != nil || w.KeyID != "2026" {
		t.Errorf("wrapped with %q, error %v", w.KeyID, err)
	}
	if _, err := ring.Unwrap(t.Context(), encryption.WrappedKey{KeyID: "2024"}); !errors.Is(err, encryption.ErrUnknownKey) || !errors.Is(err, encryption.ErrUndecryptable) {
		t.Errorf("a key nobody has: %v", err)
	}
	// A failure that may pass is not a reason to try other keys.
	down := errors.New("vault is down")
	first, second := &countedKey{err: down}, &countedKey{KeyWrapper: older}
	if _, err := encryption.Keyring(first, second).Unwrap(t.Context(), was); !errors.Is(err, down) || second.called != 0 {
		t.Errorf("error %v, second key asked %d times", err, second.called)
	}
}

func TestKeysDoNotPrintThemselves(t *testing.T) {
	secret := []byte("ABCDEFGHIJKLMNOPABCDEFGHIJKLMNOP")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r, err := encryption.NewRSAKey("rsa", private, encryption.RSAOAEP)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, aesKey(t, "aes", secret)); got != `AESKey("aes", A256KW)` {
			t.Errorf("%s prints %s", format, got)
		}
		if got := fmt.Sprintf(format, r); got != `RSAKey("rsa", RSA-OAEP)` {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

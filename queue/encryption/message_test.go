package encryption_test

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue/encryption"
)

type vectors struct {
	KEK     string
	RSA     map[string]string
	Vectors []struct{ Name, Plain, Message string }
}

func load(t testing.TB, file string) vectors {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return v
}

// keys returns the vectors' keys.
func (v vectors) keys(t testing.TB) encryption.KeyWrapper {
	t.Helper()
	number := func(name string) *big.Int {
		b, err := base64.RawURLEncoding.DecodeString(v.RSA[name])
		if err != nil {
			t.Fatal(err)
		}
		return new(big.Int).SetBytes(b)
	}
	local := aesKey(t, "local:key-1", unhex(t, v.KEK))
	if v.RSA == nil {
		return local
	}
	private := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: number("n"), E: int(number("e").Int64())},
		D:         number("d"), Primes: []*big.Int{number("p"), number("q")},
	}
	private.Precompute()
	k, err := encryption.NewRSAKey("rsa-1", private, encryption.RSAOAEP)
	if err != nil {
		t.Fatal(err)
	}
	return encryption.Keyring(local, k)
}

func open(t testing.TB, text []byte, keys encryption.KeyWrapper) ([]byte, error) {
	t.Helper()
	m, err := encryption.Parse(text)
	if err != nil {
		return nil, err
	}
	return m.Open(t.Context(), keys)
}

// Q14. The vectors were made from the format's description by other code: see testdata/vectors.mjs.
func TestOpensWhatTheFormatDescribes(t *testing.T) {
	all := load(t, "vectors.json")
	for _, v := range all.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			want, err := base64.StdEncoding.DecodeString(v.Plain)
			if err != nil {
				t.Fatal(err)
			}
			if !encryption.IsMessage([]byte(v.Message)) {
				t.Error("not recognised")
			}
			if got, err := open(t, []byte(v.Message), all.keys(t)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("opened %q, error %v, want %q", got, err, want)
			}
		})
	}
}

// Q14: messages written by Microsoft's own SDK for Python.
func TestOpensWhatThePythonSDKWrote(t *testing.T) {
	all := load(t, "python.json")
	for _, v := range all.Vectors {
		if got, err := open(t, []byte(v.Message), all.keys(t)); err != nil || string(got) != v.Plain {
			t.Errorf("opened %q, error %v, want %q", got, err, v.Plain)
		}
	}
}

// The layout, field by field, as the .NET SDK's source has it.
func TestSealWritesWhatTheDotNetSDKWrites(t *testing.T) {
	keys := aesKey(t, "local:key-1", make([]byte, 32))
	s, err := encryption.NewSealer(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	plain := []byte("hello, queue")
	size := s.Size(len(plain))
	text, err := s.Seal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != size {
		t.Errorf("%d bytes, foretold %d", len(text), size)
	}
	if again, err := s.Seal(plain); err == nil {
		t.Errorf("a content key is used twice: %s", again)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	contents, err := base64.StdEncoding.DecodeString(got["EncryptedMessageContents"].(string))
	if err != nil || len(contents) != 12+len(plain)+16 {
		t.Fatalf("contents of %d bytes, error %v", len(contents), err)
	}
	if want := []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(contents[:12], want) {
		t.Errorf("nonce %v, want %v, the first of those the .NET SDK's reader takes", contents[:12], want)
	}
	key := got["EncryptionData"].(map[string]any)["WrappedContentKey"].(map[string]any)
	wrapped, err := base64.StdEncoding.DecodeString(key["EncryptedKey"].(string))
	if err != nil {
		t.Fatal(err)
	}
	content, err := keys.Unwrap(t.Context(), encryption.WrappedKey{KeyID: "local:key-1", Algorithm: "A256KW", Key: wrapped})
	if err != nil || len(content) != 40 || string(content[:8]) != "2.0\x00\x00\x00\x00\x00" {
		t.Errorf("what was wrapped is %q, error %v", content, err)
	}
	delete(got, "EncryptedMessageContents")
	delete(key, "EncryptedKey")
	want := map[string]any{"EncryptionData": map[string]any{
		"EncryptionMode":      "FullBlob",
		"WrappedContentKey":   map[string]any{"KeyId": "local:key-1", "Algorithm": "A256KW"},
		"EncryptionAgent":     map[string]any{"Protocol": "2.0", "EncryptionAlgorithm": "AES_GCM_256"},
		"EncryptedRegionInfo": map[string]any{"DataLength": 4194304.0, "NonceLength": 12.0},
		"KeyWrappingMetadata": map[string]any{"EncryptionLibrary": "qwatch"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSealRoundTrip(t *testing.T) {
	keys := aesKey(t, "a key & <its> id", make([]byte, 16))
	for _, n := range []int{0, 1, 2, 3, 1000, 1<<16 + 1, 4<<20 + 1} {
		plain := bytes.Repeat([]byte{0xff, 0, 7}, n/3+1)[:n]
		s, err := encryption.NewSealer(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		size, room := s.Size(n), s.Room(s.Size(n))
		if n < 1<<20 && (room < n || s.Size(room) > size) {
			t.Errorf("%d bytes make %d, for which there is said to be room for %d, which make %d", n, size, room, s.Size(room))
		}
		text, err := s.Seal(plain)
		if err != nil || len(text) != size {
			t.Fatalf("%d bytes sealed to %d, foretold %d, error %v", n, len(text), size, err)
		}
		if got, err := open(t, text, keys); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes came back as %d, error %v", n, len(got), err)
		}
	}
}

func TestMessageThatIsBrokenOrTamperedWith(t *testing.T) {
	all := load(t, "vectors.json")
	byName := map[string]string{}
	for _, v := range all.Vectors {
		byName[v.Name] = v.Message
	}
	good, parts := byName[".NET, AES key wrap"], byName[".NET, regions of 16 bytes"]
	swap := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the vector has no %s", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	// contents changes the decoded contents.
	contents := func(message string, change func([]byte) []byte) string {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(message), &m); err != nil {
			t.Fatal(err)
		}
		var b []byte
		if err := json.Unmarshal(m["EncryptedMessageContents"], &b); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"EncryptedMessageContents": change(b), "EncryptionData": m["EncryptionData"]})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	flip := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { b[(i+len(b))%len(b)] ^= 1; return b }
	}
	const region = 12 + 16 + 16
	tests := map[string]struct {
		text, want string
		unknown    bool
	}{
		"not JSON":                       {text: good[:100], want: "not valid JSON"},
		"a list":                         {text: `[` + good + `]`, want: "not a JSON object"},
		"something after it":             {text: good + "x", want: "not valid JSON"},
		"a property of another kind":     {text: `{"x":1,` + good[1:], want: "a property that is not"},
		"contents twice":                 {text: `{"EncryptedMessageContents":"",` + good[1:], want: "or one twice"},
		"no contents":                    {text: `{"EncryptionData":{}}`, want: "lacks one of"},
		"no encryption data":             {text: `{"EncryptedMessageContents":"AAAA"}`, want: "lacks one of"},
		"contents that are a number":     {text: `{"EncryptedMessageContents":1,"EncryptionData":{}}`, want: "not a string"},
		"contents of null":               {text: `{"EncryptedMessageContents":null,"EncryptionData":{}}`, want: "lacks one of"},
		"contents that are not Base64":   {text: swap(`"EncryptedMessageContents":"A`, `"EncryptedMessageContents":"!`), want: "not Base64"},
		"encryption data that is a list": {text: `{"EncryptedMessageContents":"AAAA","EncryptionData":[]}`, want: "not what client-side encryption writes"},
		"version 1":                      {text: swap(`"Protocol":"2.0"`, `"Protocol":"1.0"`), want: "version 1.0, which"},
		"a later version":                {text: swap(`"Protocol":"2.0"`, `"Protocol":"3.0"`), want: `version "3.0", which is not known`},
		"a downgraded version":           {text: swap(`"Protocol":"2.0"`, `"Protocol":"2.1"`), want: "not the one it was encrypted by"},
		"another algorithm":              {text: swap("AES_GCM_256", "AES_CBC_256"), want: `algorithm "AES_CBC_256", not`},
		"another nonce length":           {text: swap(`"NonceLength":12`, `"NonceLength":0`), want: "EncryptedRegionInfo"},
		"regions of no bytes":            {text: swap(`"DataLength":4194304`, `"DataLength":0`), want: "EncryptedRegionInfo"},
		"no wrapped key":                 {text: swap(`"EncryptedKey":"Z`, `"EncryptedKey":"","x":"Z`), want: "no wrapped content key"},
		"a key nobody has":               {text: swap("local:key-1", "local:key-2"), want: "not known here", unknown: true},
		"a wrapped key that was changed": {text: swap(`"EncryptedKey":"Z`, `"EncryptedKey":"a`), want: "wrapped with another key, or changed"},
		"a nonce that was changed":       {text: contents(good, flip(0)), want: "changed on the way"},
		"text that was changed":          {text: contents(good, flip(12)), want: "changed on the way"},
		"a tag that was changed":         {text: contents(good, flip(-1)), want: "changed on the way"},
		"a tag that is cut":              {text: contents(good, func(b []byte) []byte { return b[:len(b)-1] }), want: "changed on the way"},
		"contents shorter than a tag":    {text: contents(good, func(b []byte) []byte { return b[:20] }), want: "cut short"},
		"two parts that changed places": {text: contents(parts, func(b []byte) []byte {
			return append(bytes.Clone(b[region:2*region]), append(b[:region:region], b[2*region:]...)...)
		}), want: "not in order"},
		"a part that was taken out":       {text: contents(parts, func(b []byte) []byte { return append(b[:region:region], b[2*region:]...) }), want: "not in order"},
		"a region length beyond reason":   {text: contents(swap(`"DataLength":4194304`, `"DataLength":9223372036854775807`), flip(12)), want: "changed on the way"},
		"a region length that was shrunk": {text: swap(`"DataLength":4194304`, `"DataLength":4`), want: ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := open(t, []byte(tc.text), all.keys(t))
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("opened %q, error %v, want %q", got, err, tc.want)
			}
			if !errors.Is(err, encryption.ErrUndecryptable) || errors.Is(err, encryption.ErrUnknownKey) != tc.unknown {
				t.Errorf("%v is of another kind", err)
			}
		})
	}
}

// shortKey unwraps to something that is no content key.
type shortKey struct{ content []byte }

func (shortKey) Wrap(context.Context, []byte) (encryption.WrappedKey, error) {
	return encryption.WrappedKey{}, errors.New("no")
}

func (k shortKey) Unwrap(context.Context, encryption.WrappedKey) ([]byte, error) {
	return k.content, nil
}

func TestContentKeysOfTheWrongLength(t *testing.T) {
	text := []byte(load(t, "vectors.json").Vectors[0].Message)
	for _, n := range []int{0, 4, 8, 24, 39, 41} {
		content := append([]byte("2.0\x00\x00\x00\x00\x00"), make([]byte, 64)...)[:n]
		if got, err := open(t, text, shortKey{content}); !errors.Is(err, encryption.ErrUndecryptable) || !strings.Contains(err.Error(), "wrong length") {
			t.Errorf("%d bytes: opened %q, error %v", n, got, err)
		}
	}
	if _, err := encryption.NewSealer(t.Context(), shortKey{}); err == nil {
		t.Error("sealed without a key")
	}
}

func TestIsMessageKnowsPlainMessages(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "{": false, "{}": false, "hello": false, `{"a":1}`: false, `"EncryptionData"`: false,
		`{"EncryptedMessageContent":"x"}`:                                       false,
		`{"a":1,"EncryptedMessageContents":""}`:                                 false,
		`{"EncryptedMessageContents":""}`:                                       false,
		`{"EncryptedMessageContents":"","EncryptionData":{},"a":1}`:             false,
		`{"EncryptedMessageContents":"","EncryptionData":{}`:                    false,
		`{"EncryptedMessageContents":"","EncryptionData":{}}`:                   true,
		" {\r\n\t\"EncryptionData\" : 1 ,\"EncryptedMessageContents\":\"?\" } ": true,
	} {
		if got := encryption.IsMessage([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"vectors.json", "python.json"} {
		for _, v := range load(f, file).Vectors {
			f.Add([]byte(v.Message))
		}
	}
	keys := load(f, "vectors.json").keys(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := encryption.Parse(text)
		if err != nil {
			if !errors.Is(err, encryption.ErrUndecryptable) || m != nil {
				t.Fatalf("%v beside %v", err, m)
			}
			return
		}
		plain, err := m.Open(t.Context(), keys)
		if err != nil && (!errors.Is(err, encryption.ErrUndecryptable) || plain != nil) {
			t.Fatalf("%v beside %d bytes", err, len(plain))
		}
		if !json.Valid(text) {
			t.Fatal("what is not JSON was read")
		}
	})
}

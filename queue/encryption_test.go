package queue_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// vault is a key with faults, which counts its calls.
type vault struct {
	encryption.KeyWrapper
	down             error
	wrapped, unwraps int
}

func (v *vault) Wrap(ctx context.Context, content []byte) (encryption.WrappedKey, error) {
	v.wrapped++
	if v.down != nil {
		return encryption.WrappedKey{}, v.down
	}
	return v.KeyWrapper.Wrap(ctx, content)
}

func (v *vault) Unwrap(ctx context.Context, w encryption.WrappedKey) ([]byte, error) {
	v.unwraps++
	if v.down != nil {
		return nil, v.down
	}
	return v.KeyWrapper.Unwrap(ctx, w)
}

// localKey is the key of the vectors in package encryption.
func localKey(t testing.TB, id string) encryption.KeyWrapper {
	t.Helper()
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	k, err := encryption.NewAESKey(id, key)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const keyID = "local:key-1"

// Q14: the whole of what the message carries is encrypted, then encoded, as the .NET SDK does.
func TestEncryptedMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  queue.Config
		body string
		opts queue.SendOptions
	}{
		"a body":              {body: `{"orderId":42}`},
		"no bytes at all":     {body: ""},
		"binary":              {body: "\x00\xff\r\n\ufffe"},
		"an envelope":         {body: "secret", opts: queue.SendOptions{Headers: map[string]string{"tenant": "secret"}, MessageType: "secret"}},
		"in Base64":           {cfg: queue.Config{Encoding: queue.EncodingBase64}, body: "secret"},
		"encoding auto":       {cfg: queue.Config{Encoding: queue.EncodingAuto}, body: "c2VjcmV0"},
		"encryption required": {cfg: queue.Config{RequireEncryption: true}, body: "secret"},
		"compressed":          {cfg: queue.Config{Compress: true}, body: strings.Repeat("secret", 20000)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.KeyWrapper = localKey(t, keyID)
			each(t, tc.cfg, func(f *fixture) {
				f.send(tc.body, tc.opts)
				text := f.srv.Texts(queuetest.AccountName, "orders")[0]
				sealed := text
				if tc.cfg.Encoding == queue.EncodingBase64 {
					b, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					sealed = string(b)
				}
				if !strings.HasPrefix(sealed, `{"EncryptedMessageContents":"`) || strings.Contains(sealed, "secret") {
					t.Errorf("on the wire: %s", sealed)
				}
				p, err := f.q.Peek(f.ctx, 1)
				if err != nil || p.Messages[0].Err != nil || string(p.Messages[0].Body) != tc.body {
					t.Errorf("peeked %+v, error %v", p.Messages, err)
				}
				m := f.one(10 * time.Second)
				if m.Err != nil || string(m.Body) != tc.body || m.Type() != tc.opts.MessageType || m.Headers["tenant"] != tc.opts.Headers["tenant"] {
					t.Errorf("received %.50q with %v, error %v", m.Body, m.Headers, m.Err)
				}
				if err := m.Renew(f.ctx, 10*time.Second); err != nil {
					t.Fatal(err)
				}
				if got := f.srv.Texts(queuetest.AccountName, "orders")[0]; got != text {
					t.Error("renewing altered the text")
				}
				if err := m.Complete(f.ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Q14: messages as other SDKs write them, on a queue of each encoding.
func TestMessagesThatOtherSDKsEncrypted(t *testing.T) {
	var all struct {
		Vectors []struct{ Name, Plain, Message string }
	}
	b, err := os.ReadFile("encryption/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil || len(all.Vectors) == 0 {
		t.Fatal(err)
	}
	for _, v := range all.Vectors {
		if strings.Contains(v.Name, "RSA") {
			continue // another key
		}
		for _, encoding := range []queue.Encoding{queue.EncodingNone, queue.EncodingBase64, queue.EncodingAuto} {
			each(t, queue.Config{KeyWrapper: localKey(t, keyID), Encoding: encoding}, func(f *fixture) {
				text := v.Message
				if encoding == queue.EncodingBase64 { // .NET's MessageEncoding applies to the encrypted message
					text = base64.StdEncoding.EncodeToString([]byte(text))
				}
				if _, err := f.q.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				m := f.one(0)
				if got := base64.StdEncoding.EncodeToString(m.Body); m.Err != nil || got != v.Plain {
					t.Errorf("%s, encoding %s: %q, error %v", v.Name, encoding, m.Body, m.Err)
				}
			})
		}
	}
}

// Q1, Q14: the size that counts is that of the encrypted text.
func TestEncryptedSizeCounts(t *testing.T) {
	for encoding, most := range map[queue.Encoding]int{queue.EncodingNone: 48821, queue.EncodingBase64: 36533} {
		keys := &vault{KeyWrapper: localKey(t, keyID)}
		each(t, queue.Config{KeyWrapper: keys, Encoding: encoding}, func(f *fixture) {
			fits, n := 0, queue.MaxTextBytes
			for lo := 0; lo < n; { // the largest body that goes
				mid := (lo + n + 1) / 2
				switch _, err := f.q.Send(f.ctx, make([]byte, mid), queue.SendOptions{}); {
				case err == nil:
					lo, fits = mid, mid
				case errors.Is(err, queue.ErrTooLarge):
					n = mid - 1
				default:
					t.Fatal(err)
				}
			}
			if fits < most-64 || fits > most+64 {
				t.Errorf("encoding %s: %d bytes fit, want about %d", encoding, fits, most)
			}
			if err := f.q.Clear(f.ctx); err != nil {
				t.Fatal(err)
			}
			f.send(make([]byte, fits), queue.SendOptions{})
			if m := f.one(0); len(m.Body) != fits || len(m.Text) > queue.MaxTextBytes || len(m.Text) < queue.MaxTextBytes-8 {
				t.Errorf("%d bytes in a text of %d, error %v", len(m.Body), len(m.Text), m.Err)
			}
			keys.wrapped = 0
			if _, err := f.q.Send(f.ctx, make([]byte, queue.MaxTextBytes+1), queue.SendOptions{}); !errors.Is(err, queue.ErrTooLarge) || keys.wrapped != 0 {
				t.Errorf("too large without encryption: %v, after %d calls for a key", err, keys.wrapped)
			}
		})
	}
}

// Q14: a poison copy is encrypted again, with another content key, and any of them fits.
func TestPoisonCopiesStayEncrypted(t *testing.T) {
	for name, body := range map[string]string{
		"small": "secret", "as large as can be": "secret" + noise(48700), "and compressible": strings.Repeat("secret", 8000),
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{KeyWrapper: localKey(t, keyID)}, func(f *fixture) {
				f.send(body, queue.SendOptions{})
				m := f.one(0)
				if err := poison.Move(f.ctx, m, poison.CategoryHandler, "a secret reason"); err != nil {
					t.Fatal(err)
				}
				text := f.srv.Texts(queuetest.AccountName, "orders-poison")[0]
				if strings.Contains(text, "secret") || !strings.HasPrefix(text, `{"EncryptedMessageContents":"`) {
					t.Errorf("on the poison queue: %.300s", text)
				}
				l, err := poison.List(f.ctx, f.q)
				if err != nil || len(l.Entries) != 1 || string(l.Entries[0].Message().Body) != body {
					t.Fatalf("listed %d, error %v", len(l.Entries), err)
				}
				if bare := name == "as large as can be"; (l.Entries[0].Reason == "") != bare || (text == m.Text) != bare {
					t.Errorf("reason %q, a bare copy: %v", l.Entries[0].Reason, text == m.Text)
				}
			})
		})
	}
}

// Q14: what cannot be decrypted comes beside the healthy ones, and is dead-lettered as it lay there.
func TestMessagesThatCannotBeDecrypted(t *testing.T) {
	mine, theirs := localKey(t, keyID), localKey(t, "theirs")
	encrypted := func(keys encryption.KeyWrapper, body string) (text string) {
		each(t, queue.Config{KeyWrapper: keys}, func(f *fixture) {
			f.send(body, queue.SendOptions{})
			text = f.srv.Texts(queuetest.AccountName, "orders")[0]
		})
		return text
	}
	good := encrypted(mine, "hello")
	for name, tc := range map[string]struct {
		cfg        queue.Config
		text, want string
	}{
		"another's key":           {queue.Config{KeyWrapper: mine}, encrypted(theirs, "x"), "its key is not known here"},
		"tampered with":           {queue.Config{KeyWrapper: mine}, strings.Replace(good, `s":"AAAAAAE`, `s":"AAAAAAI`, 1), "changed on the way"},
		"version 1":               {queue.Config{KeyWrapper: mine}, strings.Replace(good, `"Protocol":"2.0"`, `"Protocol":"1.0"`, 1), "version 1.0"},
		"a queue without a key":   {queue.Config{}, good, "the message is encrypted, and this queue has no key"},
		"not encrypted":           {queue.Config{KeyWrapper: mine, RequireEncryption: true}, "hello", "not encrypted, which this queue requires"},
		"encrypted, but empty":    {queue.Config{KeyWrapper: mine, RequireEncryption: true}, emptied(t, good), "no contents"},
		"a broken envelope in it": {queue.Config{KeyWrapper: mine}, encrypted(mine, `{"$azqs-envelope":9,"body":1}`), "envelope version 9"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, tc.cfg, func(f *fixture) {
				if tc.text == good && name != "a queue without a key" {
					t.Fatal("the test changed nothing")
				}
				if _, err := f.q.SendText(f.ctx, tc.text, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				m := f.one(0)
				if !errors.Is(m.Err, queue.ErrUnreadable) || m.Body != nil || !strings.Contains(m.Err.Error(), tc.want) {
					t.Fatalf("error %v, want %q", m.Err, tc.want)
				}
				if err := poison.Move(f.ctx, m, poison.CategoryDeserialization, m.Err.Error()); err != nil {
					t.Fatal(err)
				}
				if got := f.srv.Texts(queuetest.AccountName, "orders-poison"); len(got) != 1 || got[0] != tc.text {
					t.Errorf("copied as %q", got)
				}
				want := poison.CategoryDeserialization
				if errors.Is(m.Err, queue.ErrNoKey) {
					want = poison.CategoryOther // it is not the message's fault that nobody here can read it
				}
				l, err := poison.List(f.ctx, f.q)
				if err != nil || l.Entries[0].Category != want {
					t.Errorf("listed %+v, error %v", l, err)
				}
			})
		})
	}
}

// emptied is an encrypted message without its contents, as anybody can make one.
func emptied(t *testing.T, text string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	m["EncryptedMessageContents"] = json.RawMessage(`""`)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// As the .NET SDK does, a queue with a key reads messages that are not encrypted, unless told not to.
func TestPlainMessagesOnAnEncryptedQueue(t *testing.T) {
	each(t, queue.Config{KeyWrapper: localKey(t, keyID)}, func(f *fixture) {
		for _, text := range []string{"hello", `{"EncryptionData":1,"mine":true}`, `{"$azqs-envelope":1,"body":5}`} {
			if _, err := f.q.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ms, err := f.q.Receive(f.ctx, 32, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range ms {
			if m.Err != nil {
				t.Error(m.Err)
			}
			got = append(got, string(m.Body))
		}
		if d := cmp.Diff([]string{"hello", `{"EncryptionData":1,"mine":true}`, "5"}, got); d != "" {
			t.Error(d)
		}
	})
}

// A key vault that is away: nothing is sent, dead-lettered or lost, and it costs no deliveries.
func TestVaultThatIsAway(t *testing.T) {
	keys := &vault{KeyWrapper: localKey(t, keyID)}
	each(t, queue.Config{KeyWrapper: keys}, func(f *fixture) {
		f.send("one", queue.SendOptions{})
		f.send("two", queue.SendOptions{})
		m := f.oneOf(2)
		keys.down = errors.New("vault: 503")
		if _, err := f.q.Send(f.ctx, "three", queue.SendOptions{}); !errors.Is(err, keys.down) || !strings.HasPrefix(err.Error(), "send to acct/orders: encrypt: ") {
			t.Errorf("sent: %v", err)
		}
		var move *poison.MoveError
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "r"); !errors.As(err, &move) || move.Stage != poison.StageSend || m.Settlement() != queue.Unsettled {
			t.Errorf("moved: %v", err)
		}
		if err := m.Complete(f.ctx); err != nil { // needs no key
			t.Error(err)
		}
		for range 4 {
			if ms, err := f.q.Receive(f.ctx, 1, 0); err == nil || errors.Is(err, queue.ErrUnreadable) || !errors.Is(err, keys.down) {
				t.Errorf("received %d, error %v", len(ms), err)
			}
			time.Sleep(time.Minute)
		}
		if n := f.srv.Messages(queuetest.AccountName, "orders")[0].DequeueCount; n != 1 {
			t.Errorf("an outage of 4 minutes cost %d deliveries", n)
		}
		keys.down = nil
		if m := f.one(0); string(m.Body) != "two" || m.DequeueCount != 2 {
			t.Errorf("afterwards: %q, delivery %d, error %v", m.Body, m.DequeueCount, m.Err)
		}
	})
}

// oneOf receives one of n messages.
func (f *fixture) oneOf(n int) *queue.Message {
	f.Helper()
	ms, err := f.q.Receive(f.ctx, 1, time.Hour)
	if err != nil || len(ms) != 1 || int(f.count()) != n {
		f.Fatalf("received %d of %d, error %v", len(ms), n, err)
	}
	return ms[0]
}

// A queue that encrypts leaves nothing in the clear in its body store either.
func TestBodiesInTheStoreAreEncrypted(t *testing.T) {
	body := strings.Repeat("secret", 20000)
	for _, cfg := range []queue.Config{{}, {Compress: true, BodyStoreThreshold: 1}, {RequireEncryption: true, MaxBodyBytes: len(body)}} {
		store := newMemory()
		cfg.BodyStore, cfg.KeyWrapper = store, localKey(t, keyID)
		each(t, cfg, func(f *fixture) {
			f.send(body, queue.SendOptions{})
			for _, b := range store.bodies {
				if bytes.Contains(b, []byte("secret")) {
					t.Errorf("in the store: %.100s", b)
				}
			}
			m := f.one(0)
			if string(m.Body) != body || store.count() != 1 {
				t.Errorf("%d bytes, error %v, %d in the store", len(m.Body), m.Err, store.count())
			}
			for name := range store.bodies {
				store.bodies[name] = []byte("plain")
			}
			p, err := f.q.Peek(f.ctx, 1)
			if err != nil || len(p.Messages) != 0 {
				t.Fatalf("peeked %+v, error %v", p, err)
			}
			if err := m.Abandon(f.ctx, 0); err != nil {
				t.Fatal(err)
			}
			m = f.one(0)
			if got := errors.Is(m.Err, queue.ErrUnreadable); got != (cfg.RequireEncryption || cfg.Compress) {
				t.Errorf("a body that somebody replaced is read as %q, error %v", m.Body, m.Err)
			}
			for name := range store.bodies {
				store.bodies[name] = []byte(`{"EncryptedMessageContents":"AAAA","EncryptionData":{}}`)
			}
			if err := m.Abandon(f.ctx, 0); err != nil {
				t.Fatal(err)
			}
			if m = f.one(0); !errors.Is(m.Err, queue.ErrUnreadable) || m.Body != nil {
				t.Errorf("a broken body is read as %q, error %v", m.Body, m.Err)
			}
		})
	}
}

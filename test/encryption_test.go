package test_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/test/peer"
)

// Q14: Microsoft's SDK for Python and qwatch read each other's encrypted messages, version 2. The .NET
// SDK, which writes the same format, cannot be had here: see docs/encryption.md.
func TestEncryptedQueueSharedWithThePythonSDK(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	const secret = "0123456789abcdef0123456789abcdef"
	key, err := encryption.NewAESKey("local:key-1", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	q, err := account.Queue("encrypted", queue.Config{CreateIfMissing: true, KeyWrapper: key, RequireEncryption: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	python := peer.PythonQueue{Connection: azurite.ConnectionString(), Queue: "encrypted", KeyID: "local:key-1", Key: hex.EncodeToString([]byte(secret))}
	texts := []string{`{"orderId":42}`, "ᚠᛇᚻ\n", strings.Repeat("x", 40_000)}

	python.Send(t, texts...)
	ms, err := q.Receive(t.Context(), 32, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms {
		if m.Err != nil || !strings.Contains(m.Text, `"EncryptionLibrary": "Python`) {
			t.Errorf("error %v in %.300s", m.Err, m.Text)
		}
		got = append(got, string(m.Body))
		if err := m.Complete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(texts, got); d != "" {
		t.Errorf("what Python sent (-want +got):\n%s", d)
	}

	for _, text := range texts {
		if _, err := q.Send(t.Context(), text, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(texts, python.Receive(t)); d != "" {
		t.Errorf("what Python received (-want +got):\n%s", d)
	}

	// An envelope travels whole, a poison copy as well.
	if _, err := q.Send(t.Context(), texts[0], queue.SendOptions{Headers: map[string]string{"tenant": "contoso"}}); err != nil {
		t.Fatal(err)
	}
	if ms, err = q.Receive(t.Context(), 1, 0); err != nil || len(ms) != 1 {
		t.Fatalf("received %d, error %v", len(ms), err)
	}
	if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, "boom"); err != nil {
		t.Fatal(err)
	}
	python.Queue = "encrypted-poison"
	if got = python.Receive(t); len(got) != 1 || !strings.HasPrefix(got[0], `{"$azqs-envelope":1,"headers":{"tenant":"contoso"},"deadLetter":{"reason":"boom"`) {
		t.Errorf("Python's view of the poison queue: %q", got)
	}

	// Another key of the same name.
	python.Queue, python.Key = "encrypted", strings.Repeat("00", 32)
	python.Send(t, "hello")
	if ms, err = q.Receive(t.Context(), 1, 0); err != nil || len(ms) != 1 || !errors.Is(ms[0].Err, queue.ErrUnreadable) {
		t.Errorf("received %d, error %v", len(ms), err)
	}
}

package test_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/blobstore"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/test/peer"
)

// reference takes the blob's address out of a message as it lies on the queue.
func reference(t *testing.T, m *queue.Message) json.RawMessage {
	t.Helper()
	var envelope struct{ Blob json.RawMessage }
	if err := json.Unmarshal([]byte(m.Text), &envelope); err != nil || len(envelope.Blob) == 0 {
		t.Fatalf("no reference in %.200s", m.Text)
	}
	return envelope.Blob
}

// accountSAS signs an account SAS for services, by their letters in order, as the portal does.
func accountSAS(t *testing.T, services string) queue.Secret {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(peer.AccountKey)
	if err != nil {
		t.Fatal(err)
	}
	const version = "2020-08-04"
	expiry := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join([]string{peer.AccountName, "rwdlacup", services, "sco", "", expiry, "", "https,http", version, ""}, "\n")))
	return queue.Secret(url.Values{
		"sv": {version}, "ss": {services}, "srt": {"sco"}, "sp": {"rwdlacup"}, "se": {expiry}, "spr": {"https,http"},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode())
}

// Q10 on a real Blob service, with each sign-in it offers.
func TestLargeBodiesOnAzurite(t *testing.T) {
	azurite := peer.Azurite(t)
	for name, cfg := range map[string]queue.AccountConfig{
		"connection-string": {ConnectionString: queue.Secret(azurite.ConnectionString())},
		"account-key":       {Endpoint: azurite.QueueURL(), AccountKey: peer.AccountKey},
		"sas":               {Endpoint: azurite.QueueURL(), SAS: accountSAS(t, "bq")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Name = "test"
			account, err := queue.NewAccount(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(account.Close)
			store, err := blobstore.New(account, blobstore.Config{Container: "bodies-" + name, Endpoint: azurite.BlobURL()})
			if err != nil {
				t.Fatal(err)
			}
			q, err := account.Queue("large-"+name, queue.Config{CreateIfMissing: true, BodyStore: store, Compress: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			for _, body := range []string{marker + strings.Repeat("\x00\r\n\xff", 50_000), noise(100_000), noise(1_000_000)} {
				if _, err := q.Send(ctx, body, queue.SendOptions{Headers: map[string]string{"tenant": "contoso"}}); err != nil {
					t.Fatal(err)
				}
				receive := func() *queue.Message {
					t.Helper()
					ms, err := q.Receive(ctx, 1, time.Minute)
					if err != nil || len(ms) != 1 {
						t.Fatalf("received %d, error %v", len(ms), err)
					}
					if m := ms[0]; m.Err != nil || string(m.Body) != body || m.Headers["tenant"] != "contoso" {
						t.Fatalf("%d bytes came back as %d, error %v", len(body), len(m.Body), m.Err)
					}
					return ms[0]
				}
				m := receive()
				if strings.HasPrefix(body, marker) { // compressed, it fits
					if err := m.Complete(ctx); err != nil {
						t.Fatal(err)
					}
					continue
				}
				ref := reference(t, m)
				if len(m.Text) > 400 || strings.Contains(m.Text, "sig=") {
					t.Errorf("on the queue: %.500s", m.Text)
				}
				if err := m.Renew(ctx, time.Minute); err != nil {
					t.Fatal(err)
				}
				if err := m.Abandon(ctx, 0); err != nil {
					t.Fatal(err)
				}
				m = receive()
				if err := m.Complete(ctx); err != nil {
					t.Fatal(err)
				}
				if _, err := store.Fetch(ctx, ref, 10_000_000); !errors.Is(err, queue.ErrUnreadable) || !strings.Contains(err.Error(), "404 BlobNotFound") {
					t.Errorf("after completion the blob: %v", err)
				}
				if err := store.Delete(ctx, ref); err != nil {
					t.Errorf("deleting it again: %v", err)
				}
			}
			if err := store.Check(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// Q10: large bodies keep every guarantee of the processor: delivered whole, retried, dead-lettered with
// their blobs, and what cannot be had is dead-lettered without calling the handler.
func TestLargeBodiesThroughAProcessor(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	store, err := blobstore.New(account, blobstore.Config{Endpoint: azurite.BlobURL()})
	if err != nil {
		t.Fatal(err)
	}
	key, err := encryption.NewAESKey("key", []byte(marker + "0123456789abcdef")[:32])
	if err != nil {
		t.Fatal(err)
	}
	q, err := account.Queue("orders", queue.Config{CreateIfMissing: true, BodyStore: store, KeyWrapper: key})
	if err != nil {
		t.Fatal(err)
	}
	good, bad := "good"+noise(300_000), "bad"+noise(300_000)
	for _, body := range []string{good, bad, "small"} {
		if _, err := q.Send(t.Context(), body, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	foreign := `{"$azqs-envelope":1,"blob":"` + azurite.BlobURL() + `/others/x"}`
	if _, err := q.SendText(t.Context(), foreign, queue.SendOptions{}); err != nil {
		t.Fatal(err)
	}

	var handled, refused atomic.Int32
	p, err := processor.New(q, processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
		switch string(m.Body) {
		case good, "small":
			handled.Add(1)
			return nil
		case bad:
			refused.Add(1)
			return processor.Permanent(errors.New("bad order"))
		default:
			t.Errorf("a handler got %d bytes: %.40q", len(m.Body), m.Body)
			return nil
		}
	}), processor.Config{Concurrency: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- p.Run(ctx) }()
	for count(t, q) != 0 && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if handled.Load() != 2 || refused.Load() != 1 {
		t.Errorf("handled %d, refused %d", handled.Load(), refused.Load())
	}

	l, err := poison.List(t.Context(), q)
	if err != nil || len(l.Entries) != 2 {
		t.Fatalf("poison %+v, error %v", l, err)
	}
	for _, e := range l.Entries {
		switch e.Category {
		case poison.CategoryHandler:
			if string(e.Message().Body) != bad || strings.Contains(e.Message().Text, "bad order") {
				t.Errorf("the poisoned body has %d bytes; on the queue: %.100s", len(e.Message().Body), e.Message().Text)
			}
		case poison.CategoryDeserialization:
			if !strings.Contains(e.Reason, "points to another container") {
				t.Errorf("reason %q", e.Reason)
			}
		default:
			t.Errorf("category %s: %s", e.Category, e.Reason)
		}
	}
}

// noise is text of n bytes that cannot be compressed by much.
func noise(n int) string {
	var b strings.Builder
	sum := sha256.Sum256(nil)
	for b.Len() < n {
		sum = sha256.Sum256(sum[:])
		b.WriteString(base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:n]
}

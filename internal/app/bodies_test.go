package app_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// blobs is a Blob service before the queues of a rig: it has the container bodies once it was created.
type blobs struct {
	queues *queuetest.Server

	mu        sync.Mutex
	container bool
	bodies    map[string]string
	fetched   int
}

func (b *blobs) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Port() != "10000" {
		return b.queues.Do(r)
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	status, code, answer := 201, "", ""
	switch _, exists := b.bodies[r.URL.Path]; {
	case r.URL.Path == "/devstoreaccount1/bodies" && r.URL.Query().Get("restype") == "container":
		b.container = true
	case !b.container || !strings.HasPrefix(r.URL.Path, "/devstoreaccount1/bodies/"):
		status, code = 404, "ContainerNotFound"
	case r.Method == http.MethodPut:
		b.bodies[r.URL.Path] = string(body)
	case !exists:
		status, code = 404, "BlobNotFound"
	case r.Method == http.MethodDelete:
		status = 202
		delete(b.bodies, r.URL.Path)
	default:
		status, answer = 200, b.bodies[r.URL.Path]
		b.fetched++
	}
	h := http.Header{}
	if code != "" {
		h.Set("x-ms-error-code", code)
	}
	return &http.Response{StatusCode: status, Header: h, Request: r, Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer))}, nil
}

// state returns how many bodies there are, and how often one was fetched.
func (b *blobs) state() (kept, fetched int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bodies), b.fetched
}

const bodiesText = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, consumer: {handler: {exec: {command: [none]}}}}
      - {name: watched}
defaults: [{match: "*", compress: true, largeMessages: {container: bodies}}]
`

func TestCompressedAndLargeMessagesPassThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		storage := &blobs{bodies: map[string]string{}}
		r := startOn(t, bodiesText, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			got = append(got, string(m.Body))
			if len(got) > 2 {
				return processor.Permanent(errors.New("no"))
			}
			return nil
		})}, func(s *queuetest.Server) policy.Transporter {
			storage.queues = s
			return storage
		})
		fleet, err := app.OpenFleet(parse(t, r.storage, bodiesText), app.FleetOptions{Transport: storage})
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close()
		send := func(name, body string) {
			t.Helper()
			q, err := fleet.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := q.Send(t.Context(), []byte(body), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		compressible := strings.Repeat("again and again ", 10_000)
		large := noise(200 << 10)
		send("acct/orders", compressible)
		settle(2 * time.Minute)
		if kept, _ := storage.state(); kept != 0 {
			t.Errorf("%d bodies are in the store, want none: this one can be compressed", kept)
		}
		send("acct/orders", large)
		settle(2 * time.Minute)
		if len(got) != 2 || got[0] != compressible || got[1] != large {
			t.Fatalf("the handler was given %d messages, want the compressed and the large one, unharmed", len(got))
		}
		if kept, fetched := storage.state(); kept != 0 || fetched != 1 {
			t.Errorf("%d bodies are left after %d fetches, want none after one", kept, fetched)
		}

		// One that is dead-lettered keeps its body, which its record leads to.
		send("acct/orders", large)
		settle(2 * time.Minute)
		q, err := fleet.Find("acct/orders-poison")
		if err != nil {
			t.Fatal(err)
		}
		peeked, err := q.Peek(t.Context(), 32)
		if err != nil || len(peeked.Messages) != 1 || string(peeked.Messages[0].Body) != large {
			t.Errorf("the poison queue has %d messages (%v), want one with the large body", len(peeked.Messages), err)
		}

		// Watching looks at the messages again and again, and never at their bodies.
		send("acct/watched", large)
		_, before := storage.state()
		settle(10 * time.Minute)
		r.want("http://main/metrics", 200, `queue_peeked_messages{account="acct",queue_kind="main",queue_name="watched"} 1`)
		q, err = fleet.Find("acct/watched")
		if err != nil {
			t.Fatal(err)
		}
		if d := app.DepthOf(t.Context(), q); d.Visible == nil || *d.Visible != 1 {
			t.Errorf("depth %+v, want one visible message", d)
		}
		if _, after := storage.state(); after != before {
			t.Errorf("watching fetched %d bodies", after-before)
		}
		r.end()
	})
}

// noise is text that does not get smaller.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = 'A' + byte(x>>59)
	}
	return string(b)
}

func TestEncryptedMessagesPassThroughARotationOfKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, fill := range map[string]string{"old": "o", "new": "n"} {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32))) + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const queues = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues: [{name: orders, consumer: {handler: {exec: {command: [none]}}}}]
defaults: [{match: "*", encryption: `
	before := queues + "{keyFile: " + dir + "/old, keyID: old}}]\n"
	after := queues + "{keyFile: " + dir + "/new, keyID: new, required: true, olderKeys: [{keyFile: " + dir + "/old, keyID: old}]}}]\n"
	synctest.Test(t, func(t *testing.T) {
		var got []string
		r := start(t, after, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			got = append(got, string(m.Body))
			return nil
		})})
		for _, text := range []string{before, after} {
			fleet, err := app.OpenFleet(parse(t, r.storage, text), app.FleetOptions{Transport: r.storage})
			if err != nil {
				t.Fatal(err)
			}
			defer fleet.Close()
			if _, err := fleet.Queues[0].Send(t.Context(), []byte("confidential"), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
			settle(2 * time.Minute)
		}
		r.send("orders", "in the open")
		settle(2 * time.Minute)
		if diff := cmp.Diff([]string{"confidential", "confidential"}, got); diff != "" {
			t.Errorf("the handler was given (-want +got):\n%s", diff)
		}
		r.want("http://main/metrics", 200, `queue_messages_dead_lettered_total{account="acct",queue_dead_letter_reason="deserialization",queue_name="orders"} 1`)
		for _, m := range r.storage.Messages(queuetest.AccountName, "orders-poison") {
			if strings.Contains(m.Text, "reason") {
				t.Errorf("the poison message tells its record in the open: %s", m.Text)
			}
		}
		r.end()
	})
}

func TestFaultsOfBodySettingsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"a SAS that is for queues alone": {
			text: `accounts:
  - name: acct
    endpoint: https://acct.queue.core.windows.net
    sas: "sv=2025-01-05&ss=q&srt=sco&sp=rp&se=2999-01-01&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D"
    queues:
      - name: orders
        largeMessages: {}
`,
			want: `qwatch.yaml:7: accounts[0].queues[0].largeMessages: body store: blob service of account "acct": the SAS is not for blobs: its services (ss=q) lack b`,
		},
		"a default for an endpoint that tells nothing": {
			text: `accounts:
  - {name: acct, endpoint: "http://queues.example/acct", accountName: acct, accountKey: "AAAA", queues: [{name: orders}]}
defaults:
  - {match: "*", largeMessages: {}}
`,
			want: `qwatch.yaml:4: defaults[0].largeMessages: body store: blob service of account "acct": its endpoint cannot be told from the queue endpoint http://queues.example/acct: set the blob endpoint`,
		},
		"key files that hold no key": {
			text: `accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - name: orders
        encryption:
          keyFile: testdata/keys/short
          keyID: short
          olderKeys: [{keyFile: testdata/keys/text, keyID: text}, {keyFile: testdata/keys/absent, keyID: absent}]
`,
			want: `qwatch.yaml:7: accounts[0].queues[0].encryption.keyFile: AES key "short": it has 5 bytes, not 16, 24 or 32
qwatch.yaml:9: accounts[0].queues[0].encryption.olderKeys[0].keyFile: testdata/keys/text does not hold a key in Base64, as openssl rand -base64 32 makes one
qwatch.yaml:9: accounts[0].queues[0].encryption.olderKeys[1].keyFile: open testdata/keys/absent: no such file or directory`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := app.OpenFleet(parse(t, queuetest.New(queuetest.Options{}), tt.text), app.FleetOptions{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\nwant    %s", err, tt.want)
			}
		})
	}
}

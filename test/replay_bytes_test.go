package test_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/test/peer"
)

// A variety is a message as it was first sent.
type variety struct {
	text    string // the exact wire text; filled in by the first look
	body    []byte
	headers map[string]string
}

// varied makes n bodies of every kind, some with headers.
func varied(n int, random *rand.Rand) []variety {
	word := func(alphabet string, n int) []byte {
		runes := []rune(alphabet)
		var b bytes.Buffer
		for b.Len() < n {
			b.WriteRune(runes[random.IntN(len(runes))])
		}
		return b.Bytes()
	}
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	headers := map[string]string{"message-type": "order", "tenant": "nörth\r\n\"<&>\u2028", "empty": ""}
	all := make([]variety, n)
	for i := range all {
		size := 1 + random.IntN(2000)
		switch i % 10 {
		case 0:
			all[i].body = word("aäßЖ漢字🎉\u202e\u00a0\u2028e\u0301", size)
		case 1:
			all[i].body = []byte(strings.Repeat("a\r\nb\n\rc\r", 1+size/50))
		case 2:
			all[i].body = word(" \t\r\n", size)
		case 3:
			all[i].body = []byte(base64.StdEncoding.EncodeToString(noise(size)))
		case 4:
			all[i] = variety{body: noise(size), headers: headers} // binary, through the envelope
		case 5:
			all[i].body = fmt.Appendf(nil, "{\"n\": %d,\t\"s\":\"<é>\\u0000\\ud83c\"}", i)
		case 6:
			all[i] = variety{body: fmt.Appendf(nil, "  [%d, null]\r\n", i), headers: headers}
		case 7:
			all[i].body = word("<>&\"']]>{}[]\\", size)
		case 8:
			all[i] = variety{body: word("xyz", 30_000), headers: headers}
		default:
			all[i].body = []byte(base64.StdEncoding.EncodeToString(noise(3 * queue.MaxTextBytes / 4))) // 64 KiB that do not compress
			if i%20 == 19 {
				all[i].body = word("ab", queue.MaxTextBytes)
			}
		}
		all[i].body = append(fmt.Appendf(nil, "%04d", i), all[i].body...)[:min(len(all[i].body)+4, queue.MaxTextBytes)]
	}
	return all
}

// Must-show 2 of triage: every byte and header survives poison, list, export, import and replay.
func TestEveryByteSurvivesTriage(t *testing.T) {
	for encoding, n := range map[queue.Encoding]int{queue.EncodingNone: 1000, queue.EncodingBase64: 200} {
		t.Run("queuetest, encoding "+encoding.String(), func(t *testing.T) {
			service := queuetest.New(queuetest.Options{})
			server := httptest.NewServer(service)
			defer server.Close()
			surviveTriage(t, service.ConnectionStringAt(server.URL), encoding, n, false)
		})
	}
}

// The same where a running qwatch does it all.
func TestEveryByteSurvivesTriageThroughTheServer(t *testing.T) {
	service := queuetest.New(queuetest.Options{})
	server := httptest.NewServer(service)
	defer server.Close()
	surviveTriage(t, service.ConnectionStringAt(server.URL), queue.EncodingNone, 1000, true)
}

// The same where a message costs real storage's time.
func TestEveryByteSurvivesTriageOnAzurite(t *testing.T) {
	surviveTriage(t, peer.Azurite(t).ConnectionString(), queue.EncodingNone, 60, false)
}

func surviveTriage(t *testing.T, connection string, encoding queue.Encoding, n int, through bool) {
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(connection)})
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	q, err := account.Queue("orders", queue.Config{CreateIfMissing: true, Encoding: encoding})
	if err != nil {
		t.Fatal(err)
	}
	sent := varied(n, rand.New(rand.NewPCG(1, 2)))
	for i, v := range sent {
		if encoding == queue.EncodingBase64 {
			sent[i].body = v.body[:min(len(v.body), 3*queue.MaxTextBytes/4)]
		}
		if _, err := q.Send(t.Context(), sent[i].body, queue.SendOptions{Headers: v.headers}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		ms, err := q.Receive(t.Context(), 1, 0)
		if err != nil || len(ms) != 1 || !bytes.Equal(ms[0].Body, sent[i].body) {
			t.Fatalf("message %d: received %v, %v", i, ms, err)
		}
		sent[i].text = ms[0].Text
		if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, "a reason\nwith <é> and \u202e"); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}

	folder := t.TempDir()
	config, exported := filepath.Join(folder, "qwatch.yaml"), filepath.Join(folder, "export.jsonl")
	text := strings.Replace(replayConfig, "createIfMissing: true", "createIfMissing: true, encoding: "+encoding.String(), 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"ORDERS_CONNECTION_STRING=" + connection, "QWATCH_CONFIG=" + config}
	if through {
		_, env = serveOperator(t, connection)
	}
	qwatch := func(args ...string) string {
		t.Helper()
		r := run(t, env, append([]string{"poison"}, args...)...)
		if r.status != 0 {
			t.Fatalf("qwatch poison %q: status %d\n%s", args, r.status, r.stderr)
		}
		return r.stdout
	}

	listed := 0
	for line := range strings.Lines(qwatch("list", "orders/orders", "--all", "--body", "-o", "jsonl")) {
		var e struct {
			Body    *string           `json:"body"`
			Body64  []byte            `json:"body64"`
			Headers map[string]string `json:"headers"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		body := e.Body64
		if e.Body != nil {
			body = []byte(*e.Body)
		}
		var at int
		if _, err := fmt.Sscanf(string(body[:4]), "%04d", &at); err != nil || !bytes.Equal(body, sent[at].body) {
			t.Errorf("message %d is listed otherwise: %v", at, err)
		}
		if d := cmp.Diff(sent[at].headers, e.Headers); d != "" {
			t.Errorf("headers of message %d: %s", at, d)
		}
		listed++
	}
	if listed != n {
		t.Errorf("%d listed, want %d", listed, n)
	}
	before := texts(t, q.Poison())
	qwatch("export", "orders/orders", "--all", "--file", exported)
	qwatch("purge", "orders/orders", "--yes")
	qwatch("import", "orders/orders", exported)
	if d := cmp.Diff(before, texts(t, q.Poison())); d != "" {
		t.Fatal("an export and import changed what lies on the poison queue")
	}
	qwatch("replay", "orders/orders", "--all", "--yes")
	got := map[string]int{}
	for _, m := range drain(t, q) {
		got[m.Text]++
	}
	for i, v := range sent {
		if got[v.text] != 1 {
			t.Errorf("message %d was replayed %d times as it was first sent: %.60q", i, got[v.text], v.text)
		}
	}
	if len(got) != n {
		t.Errorf("%d different messages are on the queue, want %d", len(got), n)
	}
}

// texts counts the exact texts on a queue, and leaves them there.
func texts(t *testing.T, q *queue.Queue) map[string]int {
	t.Helper()
	all := map[string]int{}
	var taken []*queue.Message
	for {
		ms, err := q.Receive(t.Context(), queue.MaxReceive, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(ms) == 0 {
			break
		}
		for _, m := range ms {
			all[m.Text]++
		}
		taken = append(taken, ms...)
	}
	for _, m := range taken {
		if err := m.Abandon(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

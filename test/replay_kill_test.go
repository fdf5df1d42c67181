package test_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const replayConfig = `
accounts:
  - name: orders
    connectionString: ${ORDERS_CONNECTION_STRING}
    queues: [{name: orders, createIfMissing: true}]
`

// A gate stands before a queue service, and stops at one request: before it is carried out, or after.
type gate struct {
	service http.Handler

	mu      sync.Mutex
	method  string // of the request to stop at; "" for none
	path    string // a part of its path
	skip    int    // such requests to let pass first
	after   bool
	reached chan struct{}
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // or nobody would notice that the client is gone
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch g.stops(r) {
	case "before":
		close(g.reached)
		<-r.Context().Done()
	case "after":
		g.service.ServeHTTP(httptest.NewRecorder(), r)
		close(g.reached)
		<-r.Context().Done()
	default:
		g.service.ServeHTTP(w, r)
	}
}

func (g *gate) stops(r *http.Request) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.method == "" || r.Method != g.method || !strings.Contains(r.URL.Path, g.path) || r.URL.Query().Get("peekonly") != "" {
		return ""
	}
	if g.skip > 0 {
		g.skip--
		return ""
	}
	g.method = ""
	if g.after {
		return "after"
	}
	return "before"
}

// arm has the gate stop once, and returns what is closed when it does.
func (g *gate) arm(method, path string, skip int, after bool) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.method, g.path, g.skip, g.after, g.reached = method, path, skip, after, make(chan struct{})
	return g.reached
}

// Must-show 1 of triage: a replay killed at every step between receive, send and delete loses nothing, doubles at
// most one message a kill, and says which; run again it finishes.
func TestReplayKilledAtEveryStepLosesNothing(t *testing.T) {
	killReplays(t, 24, []killStep{
		{"receive", http.MethodGet, "/orders-poison/messages"},
		{"mark", http.MethodPut, "/orders-poison/messages/"},
		{"send", http.MethodPost, "/orders/messages"},
		{"delete", http.MethodDelete, "/orders-poison/messages/"},
	})
}

// What a killed run hid comes back behind the hundred others, and the next run finds it there.
func TestReplayKilledOnADeepPoisonQueueIsFinishedByTheNext(t *testing.T) {
	killReplays(t, 100, []killStep{{"receive", http.MethodGet, "/orders-poison/messages"}})
}

// killStep is a request of a replay, at which it is killed: once before it is carried out, and once after.
type killStep struct{ name, method, path string }

func killReplays(t *testing.T, messages int, steps []killStep) {
	t.Helper()
	service := queuetest.New(queuetest.Options{})
	g := &gate{service: service}
	server := httptest.NewServer(g)
	defer server.Close()
	connection := service.ConnectionStringAt(server.URL)
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(connection)})
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	orders := createQueue(t, account, "orders")
	ids := poisonForReplay(t, service, orders, messages)

	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	if err := os.WriteFile(config, []byte(replayConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func() (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
		stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
		cmd = command([]string{"ORDERS_CONNECTION_STRING=" + connection},
			"poison", "replay", "orders/orders", "-c", config, "--all", "--yes", "--lease", "1s", "-o", "json")
		cmd.Stdout, cmd.Stderr = stdout, stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, stdout, stderr
	}

	var said strings.Builder
	kills := 0
	for _, step := range steps {
		for _, after := range []bool{false, true} {
			// The first walk, which only looks, receives and releases too.
			skip := 1
			if step.name == "mark" {
				skip = len(service.Texts(queuetest.AccountName, "orders-poison")) + 1
			}
			reached := g.arm(step.method, step.path, skip, after)
			process, _, stderr := replay()
			select {
			case <-reached:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s, after %v: it was not reached\n%s", step.name, after, stderr.String())
			}
			if err := process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = process.Wait() // killed
			kills++
			said.WriteString(stderr.String())
			if lost := missing(service, ids); len(lost) > 0 {
				t.Errorf("killed at the %s, after %v: lost %v", step.name, after, lost)
			}
		}
	}
	process, stdout, stderr := replay()
	if err := process.Wait(); err != nil {
		t.Fatalf("the last run: %v\n%s", err, stderr.String())
	}
	said.WriteString(stderr.String())
	var result poison.Result
	if err := json.Unmarshal(stdout.Bytes(), &result); err != nil || result.Left != 0 || result.Unseen != 0 || len(result.Skipped) > 0 {
		t.Errorf("the last run: %+v, %v", result, err)
	}
	if left := service.Len(queuetest.AccountName, "orders-poison"); left != 0 {
		t.Errorf("%d messages are left on the poison queue", left)
	}

	reported := map[string]bool{}
	for _, m := range regexp.MustCompile(`message (\S+) may have been sent before`).FindAllStringSubmatch(said.String(), -1) {
		reported[m[1]] = true
	}
	sent := map[string]int{}
	for _, text := range service.Texts(queuetest.AccountName, "orders") {
		sent[text]++
	}
	doubled := 0
	for text, id := range ids {
		switch n := sent[text]; {
		case n == 0:
			t.Errorf("%s is lost", text)
		case n > 1:
			doubled += n - 1
			if !reported[id] {
				t.Errorf("%s was sent %d times, which nobody said", text, n)
			}
		}
	}
	if doubled > kills {
		t.Errorf("%d doubled by %d kills", doubled, kills)
	}
	t.Logf("%d kills, %d doubled, %d reported", kills, doubled, len(reported))
}

// poisonForReplay dead-letters n messages, every fifth with a copy that a crash left, and some without a record.
// It returns the original's id of each text.
func poisonForReplay(t *testing.T, service *queuetest.Server, q *queue.Queue, n int) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for i := range n {
		text := fmt.Sprintf(`{"order":%d}`, i)
		if i%7 == 6 {
			text = "plain text " + text
		}
		if _, err := q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		ms, err := q.Receive(t.Context(), 1, 0)
		if err != nil || len(ms) != 1 {
			t.Fatalf("received %d, %v", len(ms), err)
		}
		if i%5 == 4 && i%6 != 5 { // a bare copy beside it would be another message
			remove := service.Inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})
			if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, "r"); err == nil {
				t.Fatal("it was deleted")
			}
			remove()
		}
		if i%6 == 5 { // as Azure Functions leaves them
			r, err := q.Poison().SendText(t.Context(), text, queue.SendOptions{})
			if err := errors.Join(err, ms[0].Complete(t.Context())); err != nil {
				t.Fatal(err)
			}
			ids[text] = r.ID
			continue
		}
		if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, "no such article"); err != nil {
			t.Fatal(err)
		}
		ids[text] = ms[0].ID
	}
	return ids
}

// missing are the texts that are on neither queue.
func missing(service *queuetest.Server, ids map[string]string) []string {
	all := strings.Join(service.Texts(queuetest.AccountName, "orders"), "\n") + strings.Join(service.Texts(queuetest.AccountName, "orders-poison"), "\n")
	var lost []string
	for text := range ids {
		if !strings.Contains(all, text) && !strings.Contains(all, base64.StdEncoding.EncodeToString([]byte(text))) {
			lost = append(lost, text)
		}
	}
	return lost
}

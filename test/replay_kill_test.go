package test_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	killReplays(t, replayHere, 24, everyStep)
}

// The same where a running qwatch replays, and that is killed.
func TestReplayWhoseServerIsKilledAtEveryStepLosesNothing(t *testing.T) {
	killReplays(t, replayThere, 24, everyStep)
}

// What a killed run hid comes back behind the hundred others, and the next run finds it there.
func TestReplayKilledOnADeepPoisonQueueIsFinishedByTheNext(t *testing.T) {
	killReplays(t, replayHere, 100, everyStep[:1])
}

// killStep is a request of a replay, at which it is killed: once before it is carried out, and once after.
type killStep struct{ name, method, path string }

var everyStep = []killStep{
	{"receive", http.MethodGet, "/orders-poison/messages"},
	{"mark", http.MethodPut, "/orders-poison/messages/"},
	{"send", http.MethodPost, "/orders/messages"},
	{"delete", http.MethodDelete, "/orders-poison/messages/"},
}

// A replaying is a replay that has begun.
type replaying struct {
	kill func()                                    // what sends and deletes
	wait func() (stdout, stderr string, err error) // for the command to end
}

var replayArgs = []string{"poison", "replay", "orders/orders", "--all", "--yes", "--lease", "1s", "-o", "json"}

// replayHere replays by the command itself.
func replayHere(t *testing.T, connection string) replaying {
	t.Helper()
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	if err := os.WriteFile(config, []byte(replayConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, wait := replayBegins(t, []string{"ORDERS_CONNECTION_STRING=" + connection, "QWATCH_CONFIG=" + config})
	return replaying{func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}, wait}
}

// replayThere replays through a running qwatch.
func replayThere(t *testing.T, connection string) replaying {
	t.Helper()
	qwatch, env := serveOperator(t, connection)
	_, wait := replayBegins(t, env)
	return replaying{qwatch.Kill, func() (string, string, error) {
		stdout, stderr, err := wait()
		if err != nil && !strings.Contains(stderr, "broke off") {
			t.Errorf("the command does not say that its server is gone: %s", stderr)
		}
		return stdout, stderr, err
	}}
}

// serveOperator starts a qwatch with an operator, and returns it with the environment of a command that asks it.
func serveOperator(t *testing.T, connection string) (*service, []string) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("- {name: ann, role: operator, token: ann-is-an-operator}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	qwatch := serveWith(t, replayConfig, "tokensFile: "+tokens, "ORDERS_CONNECTION_STRING="+connection)
	return qwatch, []string{"QWATCH_SERVER=" + qwatch.main, "QWATCH_TOKEN=ann-is-an-operator"}
}

func replayBegins(t *testing.T, env []string) (*exec.Cmd, func() (stdout, stderr string, err error)) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(env, replayArgs...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() (string, string, error) {
		err := cmd.Wait()
		return stdout.String(), stderr.String(), err
	}
}

// killedAt begins a replay, kills it where the gate stops it, and returns what it had said.
func killedAt(t *testing.T, begin func(*testing.T, string) replaying, connection string, reached <-chan struct{}) string {
	t.Helper()
	r := begin(t, connection)
	select {
	case <-reached:
	case <-time.After(30 * time.Second):
		r.kill()
		_, stderr, _ := r.wait() // it was killed
		t.Fatalf("it was not reached\n%s", stderr)
	}
	r.kill()
	_, stderr, _ := r.wait() // it was killed
	return stderr
}

// A text without room for the mark, sent and not deleted when the replay is killed: the killed run itself has said that
// it may be doubled.
func TestReplayKilledAtAMessageThatCannotBeMarked(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, string) replaying{"by the command": replayHere, "by the server": replayThere} {
		t.Run(name, func(t *testing.T) {
			service, g, connection, account := gated(t)
			orders := createQueue(t, account, "orders")
			text := string(varied(20, rand.New(rand.NewPCG(3, 4)))[9].body)
			if _, err := orders.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
			ms, err := orders.Receive(t.Context(), 1, 0)
			if err != nil || len(ms) != 1 {
				t.Fatalf("received %d, %v", len(ms), err)
			}
			if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, "no such article"); err != nil {
				t.Fatal(err)
			}
			said := killedAt(t, begin, connection, g.arm(http.MethodPost, "/orders/messages", 0, true))
			id := regexp.MustCompile(`message (\S+) could not be marked`).FindStringSubmatch(said)
			l, err := poison.List(t.Context(), orders)
			for err == nil && len(l.Entries) == 0 { // until the killed run's lease is over
				time.Sleep(50 * time.Millisecond)
				l, err = poison.List(t.Context(), orders)
			}
			if err != nil || id == nil || l.Entries[0].MessageID != id[1] {
				t.Fatalf("it said %q of %+v, %v", said, l.Entries, err)
			}
			if _, stderr, err := begin(t, connection).wait(); err != nil {
				t.Fatalf("the next run: %v\n%s", err, stderr)
			}
			if sent := service.Texts(queuetest.AccountName, "orders"); len(sent) != 2 || sent[0] != text || sent[1] != text {
				t.Errorf("%d are on the queue, want it twice", len(sent))
			}
		})
	}
}

// gated is a queue service behind a gate.
func gated(t *testing.T) (*queuetest.Server, *gate, string, *queue.Account) {
	t.Helper()
	service := queuetest.New(queuetest.Options{})
	g := &gate{service: service}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	connection := service.ConnectionStringAt(server.URL)
	account, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(connection)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return service, g, connection, account
}

func killReplays(t *testing.T, begin func(*testing.T, string) replaying, messages int, steps []killStep) {
	t.Helper()
	service, g, connection, account := gated(t)
	orders := createQueue(t, account, "orders")
	ids := poisonForReplay(t, service, orders, messages)

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
			said.WriteString(killedAt(t, begin, connection, reached))
			kills++
			if n := doubles(service); n > kills {
				t.Errorf("killed at the %s, after %v: %d doubled by %d kills", step.name, after, n, kills)
			}
			if lost := missing(service, ids); len(lost) > 0 {
				t.Errorf("killed at the %s, after %v: lost %v", step.name, after, lost)
			}
		}
	}
	stdout, stderr, err := begin(t, connection).wait()
	if err != nil {
		t.Fatalf("the last run: %v\n%s", err, stderr)
	}
	said.WriteString(stderr)
	var result poison.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || result.Left != 0 || result.Unseen != 0 || len(result.Skipped) > 0 {
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

// doubles is how many messages are on the queue beside others of the same text.
func doubles(service *queuetest.Server) (n int) {
	seen := map[string]bool{}
	for _, text := range service.Texts(queuetest.AccountName, "orders") {
		if seen[text] {
			n++
		}
		seen[text] = true
	}
	return n
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

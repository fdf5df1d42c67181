package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"qwatch": main})
}

// TestScript runs the scripts of testdata/script. Each has a queue service of its own,
// whose connection string is $STORAGE, a handler at $HANDLER that refuses bodies holding
// "bad" with 422 and at $HANDLER/hang never answers, and addresses nothing listens at: $CLOSED, $MAIN and $PROBES.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":      cmdAwait,
			"democonfig": cmdDemoConfig,
			"expand":     cmdExpand,
			"freeze":     cmdFreeze,
			"hostile":    cmdHostile,
			"poison":     cmdPoison,
			"poisonid":   cmdPoisonID,
			"signal":     cmdSignal,
			"status":     cmdStatus,
		},
	})
}

type serverKey struct{}

func setup(env *testscript.Env) error {
	service := queuetest.New(queuetest.Options{})
	server := httptest.NewServer(service)
	env.Defer(server.Close)
	env.Values[serverKey{}] = service
	env.Setenv("STORAGE", service.ConnectionStringAt(server.URL))
	handler := httptest.NewServer(http.HandlerFunc(handle))
	env.Defer(handler.Close)
	env.Setenv("HANDLER", handler.URL)
	for _, name := range []string{"CLOSED", "MAIN", "PROBES"} {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		env.Setenv(name, address)
	}
	env.Setenv("HOME", env.WorkDir)
	return nil
}

func handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.URL.Path == "/hang" {
		<-r.Context().Done()
		return
	}
	if err != nil || strings.Contains(string(body), "bad") {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
}

// nextPort is below the ports that the kernel hands out, which other scripts' servers get: one of theirs
// would answer in the place of a qwatch that is not there yet.
var nextPort atomic.Uint32

// freeAddress returns a loopback address that nothing listens at, another each time.
func freeAddress() (string, error) {
	nextPort.CompareAndSwap(0, 20_000+uint32(os.Getpid())%8_000)
	for range 1_000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("no free port")
}

// cmdStatus runs a qwatch command and checks its exit status: status N ARGS...
// Its output is compared by the commands stdout and stderr as after exec.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N qwatch ARGS...")
	}
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != want {
		ts.Fatalf("exit status %s, want %s", got, want)
	}
}

// cmdExpand rewrites files with the environment variables in them replaced.
func cmdExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// cmdPoison sends a message and dead-letters it: poison QUEUE CATEGORY REASON BODY.
func cmdPoison(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: poison QUEUE CATEGORY REASON BODY")
	}
	q := openQueue(ts, args[0])
	ctx := context.Background()
	_, err := q.Send(ctx, []byte(args[3]), queue.SendOptions{})
	ts.Check(err)
	messages, err := q.Receive(ctx, 1, 0)
	ts.Check(err)
	if len(messages) != 1 {
		ts.Fatalf("received %d messages, want 1", len(messages))
	}
	ts.Check(poison.Move(ctx, messages[0], poison.Category(args[1]), args[2]))
}

// cmdPoisonID sets a variable to the id of a queue's oldest dead-lettered message:
// poisonid QUEUE NAME.
func cmdPoisonID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: poisonid QUEUE NAME")
	}
	l, err := poison.List(context.Background(), openQueue(ts, args[0]))
	ts.Check(err)
	if len(l.Entries) == 0 {
		ts.Fatalf("nothing is poisoned in %s", args[0])
	}
	ts.Setenv(args[1], l.Entries[0].MessageID)
}

func openQueue(ts *testscript.TestScript, name string) *queue.Queue {
	service := ts.Value(serverKey{}).(*queuetest.Server)
	account, err := queue.NewAccount(queue.AccountConfig{
		Name: "script", ConnectionString: queue.Secret(service.ConnectionString()), Transport: service,
	})
	ts.Check(err)
	q, err := account.Queue(name, queue.Config{CreateIfMissing: true})
	ts.Check(err)
	return q
}

// cmdFreeze lets the queue service answer nothing any more.
func cmdFreeze(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: freeze")
	}
	ts.Defer(ts.Value(serverKey{}).(*queuetest.Server).Inject(queuetest.Fault{Hang: true}))
}

// hostileText is everything a terminal may act upon, and a little it may not.
const hostileText = "\x1b[31mred\x1b[0m\a\n\r\t\u009b31m\u202eevil\x7f\b end"

// cmdHostile writes text that attacks a terminal: hostile FILE; bytes that are no text:
// hostile -binary FILE; or dead-letters a message with such a reason: hostile -poison QUEUE.
func cmdHostile(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 1:
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(hostileText), 0o600))
	case !neg && len(args) == 2 && args[0] == "-binary":
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte{0xff, 0, 0xfe}, 0o600))
	case !neg && len(args) == 2 && args[0] == "-poison":
		cmdPoison(ts, false, []string{args[1], "handler", hostileText, "{}"})
	default:
		ts.Fatalf("usage: hostile [-binary|-poison] NAME")
	}
}

// cmdDemoConfig sets a variable to the configuration file of the running demo; negated, it checks that
// no demo left one: democonfig NAME, or ! democonfig.
func cmdDemoConfig(ts *testscript.TestScript, neg bool, args []string) {
	if neg != (len(args) == 0) || len(args) > 1 {
		ts.Fatalf("usage: democonfig NAME, or ! democonfig")
	}
	if neg {
		left, err := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "qwatch-demo-*"))
		ts.Check(err)
		if len(left) > 0 {
			ts.Fatalf("left behind: %q", left)
		}
		return
	}
	files, err := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "qwatch-demo-*", "qwatch.yaml"))
	ts.Check(err)
	if len(files) != 1 {
		ts.Fatalf("found %d demo configurations, want 1", len(files))
	}
	ts.Setenv(args[0], files[0])
}

// cmdSignal sends TERM or HUP to every background command.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|HUP|INT")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}

// cmdAwait waits for something: await FILE TEXT for a file to hold a text, await URL TEXT
// for an answer to hold it.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE|URL TEXT")
	}
	var last string
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		last = look(ts, args[0])
		if strings.Contains(last, args[1]) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Fatalf("%s never held %q; last:\n%s", args[0], args[1], last)
}

func look(ts *testscript.TestScript, where string) string {
	if !strings.HasPrefix(where, "http://") {
		b, err := os.ReadFile(filepath.Clean(ts.MkAbs(where)))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	resp, err := http.Get(where)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d\n%s", resp.StatusCode, b)
}

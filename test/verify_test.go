package test_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/test/peer"
)

// O3 on a real service: every check passes, and nothing is left, also when it is interrupted or killed.
func TestVerifyOnAzurite(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	if err := os.WriteFile(config, []byte(replayConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"ORDERS_CONNECTION_STRING=" + azurite.ConnectionString(), "QWATCH_CONFIG=" + config}
	temporary := func() (names []string) {
		for q, err := range account.Queues(t.Context(), queue.ListOptions{Prefix: "qwatch-verify-"}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, q.Name)
		}
		return names
	}
	begin := func() func(syscall.Signal) {
		cmd := command(env, "verify")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "there are temporary queues", func() bool { return len(temporary()) > 5 })
		return func(s syscall.Signal) {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was ended
		}
	}
	begin()(syscall.SIGINT)
	if left := temporary(); len(left) > 0 {
		t.Errorf("interrupted, it leaves %q", left)
	}
	begin()(syscall.SIGKILL)
	if len(temporary()) == 0 {
		t.Error("it was killed too late to leave anything")
	}
	r := run(t, env, "verify", "-o", "json")
	var outcomes []struct {
		Check string
		OK    bool
		Error string
	}
	if err := json.Unmarshal([]byte(r.stdout), &outcomes); err != nil || r.status != 0 || len(outcomes) == 0 {
		t.Fatalf("status %d, %v\n%s%s", r.status, err, r.stdout, r.stderr)
	}
	for _, o := range outcomes {
		if !o.OK {
			t.Errorf("%s: %s", o.Check, o.Error)
		}
	}
	if !strings.Contains(r.stderr, "which a run that was killed left behind") {
		t.Errorf("it does not tell what it removed: %s", r.stderr)
	}
	if left := temporary(); len(left) > 0 {
		t.Errorf("it leaves %q", left)
	}
}

// O4: the same through a running qwatch, which ends it with its client and cleans up.
func TestVerifyThroughTheServerOnAzurite(t *testing.T) {
	azurite := peer.Azurite(t)
	account := openAccount(t, azurite)
	_, env := serveOperator(t, azurite.ConnectionString())
	temporary := func() (n int) {
		for _, err := range account.Queues(t.Context(), queue.ListOptions{Prefix: "qwatch-verify-"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	cmd := command(env, "verify", "--lease", "20s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "there are temporary queues", func() bool { return temporary() > 5 })
	if err := cmd.Process.Kill(); err != nil { // it cannot say goodbye
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, 10*time.Second, "the server has removed its queues", func() bool { return temporary() == 0 })

	r := run(t, env, "verify", "-o", "jsonl")
	if n := strings.Count(r.stdout, `"ok":true`); r.status != 0 || n != 9 || n != strings.Count(r.stdout, "\n") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if n := temporary(); n > 0 {
		t.Errorf("it leaves %d queues", n)
	}
}

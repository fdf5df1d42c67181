package test_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/qwatch/qwatch/test/peer"
)

// binary is the program under test, built once as a release is: without the race detector.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	switch { // is this process a worker of a test's?
	case os.Getenv(workerEnv) != "":
		return dedupWorker()
	case os.Getenv(failingEnv) != "":
		return failingWorker()
	case os.Getenv(fatalEnv) != "":
		return fatalWorker()
	}
	folder, err := os.MkdirTemp("", "qwatch-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	binary = filepath.Join(folder, "qwatch")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/qwatch")
	build.Dir = ".." // the module of the program
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build qwatch: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// command is qwatch with arguments and an environment that holds nothing of the developer's.
func command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "NO_COLOR=1"}, env...)
	return cmd
}

// A result is what a command that ended left behind.
type result struct {
	status         int
	stdout, stderr string
}

// run runs a command of qwatch to its end, half a minute at most.
func run(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	template := command(env, args...)
	cmd := exec.CommandContext(ctx, template.Path, args...)
	cmd.Env = template.Env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("qwatch %q: %v\n%s", args, err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A service is a running `qwatch run`.
type service struct {
	*peer.Process

	main, probes string // URLs
	grpc         string // address
	config       string // the file, for other commands
}

// serve starts `qwatch run`, logging all it can, on a configuration without its server section, which
// serve adds with free addresses, and waits until it is ready.
func serve(t *testing.T, configuration string, env ...string) *service {
	t.Helper()
	return serveWith(t, configuration, "", env...)
}

// serveWith is serve with more of the server section.
func serveWith(t *testing.T, configuration, server string, env ...string) *service {
	t.Helper()
	s := &service{config: filepath.Join(t.TempDir(), "qwatch.yaml")}
	var addrs []string
	s.Process, addrs = peer.Serve(t, "qwatch run", 3,
		func(addrs []string) *exec.Cmd {
			text := fmt.Sprintf("%s\nserver: {listen: %q, probes: %q, grpc: %q, %s}\n", configuration, addrs[0], addrs[1], addrs[2], server)
			if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return command(env, "run", "-c", s.config, "--log-level", "debug")
		},
		func(addrs []string) string { return "http://" + addrs[1] + "/readyz" }, false)
	s.main, s.probes, s.grpc = "http://"+addrs[0], "http://"+addrs[1], addrs[2]
	return s
}

// eventually returns once the condition holds, and fails the test when it does not in time.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

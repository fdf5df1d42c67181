package forward_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// shell returns a handler that runs a script.
func shell(t *testing.T, script string, timeout time.Duration) processor.Handler {
	t.Helper()
	h, err := forward.Exec(forward.ExecConfig{Command: []string{"sh", "-c", script}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestTheExitStatusDecides(t *testing.T) {
	const usual = 100 * time.Second
	large := strings.Repeat("x", 40<<10)
	tests := map[string]struct {
		script string
		body   string
		want   delivery
	}{
		"0 completes": {"cat >/dev/null; exit 0", "x", delivery{Outcome: completed}},
		"0 completes whatever is on standard error": {"echo oops >&2", "x", delivery{Outcome: completed}},
		"65 dead-letters":      {"exit 65", "x", delivery{Outcome: deadLettered, Category: "handler", Reason: "the command ended with exit status 65"}},
		"65 gives its reason":  {"echo no such customer >&2; echo more >&2; exit 65", "x", delivery{Outcome: deadLettered, Category: "handler", Reason: "no such customer"}},
		"1 retries":            {"echo database is away >&2; exit 1", "x", delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"64 and 66 are not 65": {"exit 66", "x", delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"127, a command missing in the shell, retries": {"no-such-command-at-all", "x", delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"a signal retries":                  {"kill -SEGV $$", "x", delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"the body is on standard input":     {`test "$(cat)" = "` + bodySecret + `"`, bodySecret, delivery{Outcome: completed}},
		"a large body arrives whole":        {`test "$(wc -c)" -eq 40960`, large, delivery{Outcome: completed}},
		"a body that is not read is fine":   {"exit 0", large, delivery{Outcome: completed}},
		"a body that is not wanted is fine": {"exec <&-; sleep 0.05", large, delivery{Outcome: completed}},
		"much output is discarded":          {"head -c 1000000 /dev/zero", "x", delivery{Outcome: completed}},
		"much complaint is cut off":         {"printf 'line of %s' $(head -c 100000 /dev/zero | tr '\\0' x) >&2; exit 65", "x", delivery{Outcome: deadLettered, Category: "handler", Reason: "line of " + strings.Repeat("x", 1013) + "…"}},
		"blank lines are not a reason":      {`printf '\n  \n\001\033[31mred\033[0m \377 end\r\n' >&2; exit 65`, "x", delivery{Outcome: deadLettered, Category: "handler", Reason: "[31mred[0m \uFFFD end"}},
		"a reason without a line's end":     {`printf half >&2; exit 65`, "x", delivery{Outcome: deadLettered, Category: "handler", Reason: "half"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := deliver(t, shell(t, tt.script, 30*time.Second), options{body: tt.body})
			hidden(t, got.Err)
			if name == "1 retries" && got.Err.Error() != "database is away" {
				t.Errorf("error %q, want the first line of standard error", got.Err)
			}
			got.Err, got.Took = nil, 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheEnvironmentTellsAboutTheMessage(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	dir := t.TempDir()
	env := func(t *testing.T, o options) map[string]string {
		t.Helper()
		h, err := forward.Exec(forward.ExecConfig{Command: []string{"sh", "-c", "env -0 >out"}, Dir: dir, Env: []string{
			"PATH=" + os.Getenv("PATH"), "KEPT=yes", "QWATCH_QUEUE=old", "QWATCH_HEADER_OLD=old", "TRACEPARENT=old", "QWATCH_OTHER=kept",
		}})
		if err != nil {
			t.Fatal(err)
		}
		if d := deliver(t, h, o); d.Outcome != completed {
			t.Fatalf("outcome %q: %v", d.Outcome, d.Err)
		}
		out, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for v := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			if name == "KEPT" || strings.HasPrefix(name, "QWATCH_") || strings.HasPrefix(name, "TRACE") {
				got[name] = value
			}
		}
		if len(got["QWATCH_MESSAGE_ID"]) != 36 {
			t.Errorf("message id %q", got["QWATCH_MESSAGE_ID"])
		}
		if _, err := time.Parse(time.RFC3339, got["QWATCH_INSERTED_AT"]); err != nil {
			t.Errorf("inserted at %q", got["QWATCH_INSERTED_AT"])
		}
		delete(got, "QWATCH_MESSAGE_ID")
		delete(got, "QWATCH_INSERTED_AT")
		return got
	}
	plain := env(t, options{body: "{}", deliver: 1})
	want := map[string]string{
		"KEPT": "yes", "QWATCH_OTHER": "kept", "QWATCH_ACCOUNT": "shop", "QWATCH_QUEUE": "orders", "QWATCH_DEQUEUE_COUNT": "1",
		"QWATCH_LAST_ATTEMPT": "true", "QWATCH_CONTENT_TYPE": "application/json",
	}
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Errorf("a plain message (-want +got):\n%s", diff)
	}
	hostile := env(t, options{
		body:  "x",
		trace: queue.TraceContext{Parent: parent, State: "a=1"},
		headers: map[string]string{
			"tenant": "contoso", "a-b": "first", "a_b": "second", "nul": "a\x00B=1", "lines": "a\nPATH=/evil", "é=x": "name", "PATH": "/evil", "": "none",
		},
	})
	want = map[string]string{
		"KEPT": "yes", "QWATCH_OTHER": "kept", "QWATCH_ACCOUNT": "shop", "QWATCH_QUEUE": "orders", "QWATCH_DEQUEUE_COUNT": "1",
		"QWATCH_LAST_ATTEMPT": "false", "QWATCH_CONTENT_TYPE": "text/plain; charset=utf-8",
		"QWATCH_TRACEPARENT": parent, "TRACEPARENT": parent, "QWATCH_TRACESTATE": "a=1", "TRACESTATE": "a=1",
		"QWATCH_HEADER_TENANT": "contoso", "QWATCH_HEADER_A_B": "first", "QWATCH_HEADER_NUL": "a\uFFFDB=1", "QWATCH_HEADER_LINES": "a\nPATH=/evil",
		"QWATCH_HEADER___X": "name", "QWATCH_HEADER_PATH": "/evil",
	}
	if diff := cmp.Diff(want, hostile); diff != "" {
		t.Errorf("a hostile message (-want +got):\n%s", diff)
	}
}

func TestACommandThatTakesTooLongIsKilledWithItsGroup(t *testing.T) {
	tests := map[string]struct {
		cancelled bool
		timeout   time.Duration
		is        error
		want      string
		category  string
	}{
		"by its timeout": {false, 300 * time.Millisecond, context.DeadlineExceeded, "sh did not end within 300ms", "timeout"},
		"by shutdown":    {true, time.Minute, processor.ErrDraining, "run sh: the processor is shutting down", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			h := shell(t, `sleep 60 & echo $! >"`+pid+`.new"; mv "`+pid+`.new" "`+pid+`"; wait; exit 0`, tt.timeout)
			started := processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
				if tt.cancelled { // shutdown must not come before the child is there
					var stop context.CancelCauseFunc
					outer := ctx
					ctx, stop = context.WithCancelCause(context.WithoutCancel(ctx))
					go func() {
						defer func() { stop(context.Cause(outer)) }()
						<-outer.Done()
						waitFor(pid)
					}()
				}
				return h.Handle(ctx, m)
			})
			d := deliver(t, started, options{body: "x", cancelled: tt.cancelled})
			if d.Outcome != retried || d.Category != tt.category || !errors.Is(d.Err, tt.is) || d.Err.Error() != tt.want {
				t.Errorf("outcome %q, category %q, error %v; want %q", d.Outcome, d.Category, d.Err, tt.want)
			}
			if d.Took > 20*time.Second {
				t.Errorf("the call took %v", d.Took)
			}
			child, err := strconv.Atoi(strings.TrimSpace(waitFor(pid)))
			if err != nil {
				t.Fatal(err)
			}
			if !ends(child) {
				t.Errorf("the command's child %d still runs", child)
			}
		})
	}
}

// waitFor returns a file's content once it is there.
func waitFor(path string) string {
	for range 500 {
		if data, err := os.ReadFile(path); err == nil {
			return string(data)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

// ends says whether a process goes away; one that only waits to be reaped has.
func ends(pid int) bool {
	for range 500 {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return true
		}
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestAChildLeftBehindDoesNotHoldTheMessage(t *testing.T) {
	d := deliver(t, shell(t, "sleep 20 & echo left >&2; exit 65", time.Minute), options{body: "x"})
	if d.Outcome != deadLettered || d.Reason != "left" || d.Took > 15*time.Second {
		t.Errorf("outcome %q for %q after %v", d.Outcome, d.Reason, d.Took)
	}
}

func TestACommandThatCannotBeStartedIsAnOutage(t *testing.T) {
	dir := t.TempDir()
	notExecutable := filepath.Join(dir, "plain.txt")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	badFormat := filepath.Join(dir, "garbage")
	if err := os.WriteFile(badFormat, []byte("\x00\x01"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg  forward.ExecConfig
		want string
	}{
		"not in PATH":       {forward.ExecConfig{Command: []string{"no-such-command-at-all"}}, "start no-such-command-at-all: command not found in PATH"},
		"no such file":      {forward.ExecConfig{Command: []string{"./absent"}, Dir: dir}, "start ./absent: no such command or directory"},
		"no such directory": {forward.ExecConfig{Command: []string{"cat"}, Dir: filepath.Join(dir, "absent")}, "start cat: no such command or directory"},
		"not executable":    {forward.ExecConfig{Command: []string{notExecutable}}, "start " + notExecutable + ": permission denied"},
		"not a program":     {forward.ExecConfig{Command: []string{badFormat}}, "start " + badFormat + ": exec format error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := forward.Exec(tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			d := deliver(t, h, options{body: bodySecret})
			if d.Outcome != retried || d.Category != "transient" || d.Err.Error() != tt.want {
				t.Errorf("outcome %q, category %q, error %q, want %q", d.Outcome, d.Category, d.Err, tt.want)
			}
		})
	}
}

func TestARelativeCommandIsFoundFromTheDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "handle"), []byte("#!/bin/sh\ntest \"$(pwd -P)\" = \"$(cd \"$1\" && pwd -P)\" && test \"$2\" = '$HOME; exit 1'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := forward.Exec(forward.ExecConfig{Command: []string{"./handle", dir, "$HOME; exit 1"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if d := deliver(t, h, options{body: "x"}); d.Outcome != completed {
		t.Errorf("outcome %q: %v", d.Outcome, d.Err)
	}
}

func TestBadExecConfigurations(t *testing.T) {
	tests := map[string]struct {
		cfg  forward.ExecConfig
		want string
	}{
		"no command":         {forward.ExecConfig{}, "the handler's command is empty"},
		"an empty command":   {forward.ExecConfig{Command: []string{""}}, "the handler's command is empty"},
		"a NUL":              {forward.ExecConfig{Command: []string{"a", "b\x00c"}}, "argument 1 of the handler's command has a NUL character"},
		"a negative timeout": {forward.ExecConfig{Command: []string{"a"}, Timeout: -1}, "the handler's timeout -1ns is negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := forward.Exec(tt.cfg)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// terminal is a command line with somebody at it, who answers as given.
func terminal(answer string, env map[string]string) (c *cli, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &cli{
		stdin: strings.NewReader(answer), stdout: out, stderr: errs, getenv: func(k string) string { return env[k] },
		stdinTerminal: true, stdoutTerminal: true, stderrTerminal: true,
	}, out, errs
}

// storage serves a queue with three messages and writes the configuration for it.
func storage(t *testing.T) (service *queuetest.Server, file string) {
	t.Helper()
	service = queuetest.New(queuetest.Options{})
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	file = filepath.Join(t.TempDir(), "qwatch.yaml")
	text := fmt.Sprintf("accounts: [{name: acct, connectionString: %q, queues: [{name: orders, createIfMissing: true}]}]\n",
		service.ConnectionStringAt(server.URL))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, _, errs := terminal("", nil)
		if status := c.main(t.Context(), []string{"queue", "send", "-c", file, "acct/orders", "hello"}); status != exitDone {
			t.Fatalf("send: status %d: %s", status, errs)
		}
	}
	return service, file
}

func TestClearAsksOnATerminal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		status int
		left   int
		errs   string
	}{
		"y":              {"y\n", exitDone, 0, "delete about 3 messages of acct/orders? [y/N] "},
		"YES":            {" YES \n", exitDone, 0, "delete about 3 messages of acct/orders? [y/N] "},
		"n":              {"n\n", exitFailed, 3, "delete about 3 messages of acct/orders? [y/N] qwatch: not agreed to: nothing was done\n"},
		"just enter":     {"\n", exitFailed, 3, "delete about 3 messages of acct/orders? [y/N] qwatch: not agreed to: nothing was done\n"},
		"end of input":   {"", exitFailed, 3, "delete about 3 messages of acct/orders? [y/N] qwatch: not agreed to: nothing was done\n"},
		"something else": {"yellow\n", exitFailed, 3, "delete about 3 messages of acct/orders? [y/N] qwatch: not agreed to: nothing was done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, file := storage(t)
			c, _, errs := terminal(tt.answer, nil)
			if status := c.main(t.Context(), []string{"queue", "clear", "-c", file, "acct/orders"}); status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			if diff := cmp.Diff(tt.errs, errs.String()); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if n := service.Len(queuetest.AccountName, "orders"); n != tt.left {
				t.Errorf("%d messages are left, want %d", n, tt.left)
			}
		})
	}
}

func TestAnInterruptedQuestionDoesNothing(t *testing.T) {
	t.Parallel()
	service, file := storage(t)
	c, _, errs := terminal("", nil)
	ctx, cancel := context.WithCancel(t.Context())
	c.stdin = readerFunc(func([]byte) (int, error) { // somebody presses Ctrl-C instead of answering
		cancel()
		select {}
	})
	if status := c.main(ctx, []string{"queue", "clear", "-c", file, "acct/orders"}); status != exitFailed {
		t.Errorf("status %d, want %d", status, exitFailed)
	}
	if got := errs.String(); !strings.HasSuffix(got, "\nqwatch: interrupted\n") {
		t.Errorf("standard error: %q", got)
	}
	if n := service.Len(queuetest.AccountName, "orders"); n != 3 {
		t.Errorf("%d messages are left, want 3", n)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestColourIsForTerminalsThatWantIt(t *testing.T) {
	t.Parallel()
	_, file := storage(t)
	for name, tt := range map[string]struct {
		terminal bool
		env      map[string]string
		args     []string
		want     bool
	}{
		"a terminal":             {terminal: true, want: true},
		"a pipe":                 {terminal: false},
		"NO_COLOR":               {terminal: true, env: map[string]string{"NO_COLOR": "1"}},
		"a dumb terminal":        {terminal: true, env: map[string]string{"TERM": "dumb"}},
		"JSON on a terminal":     {terminal: true, args: []string{"-o", "json"}},
		"an empty NO_COLOR is 0": {terminal: true, env: map[string]string{"NO_COLOR": ""}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, out, errs := terminal("", tt.env)
			c.stdoutTerminal = tt.terminal
			if status := c.main(t.Context(), append([]string{"queue", "list", "-c", file}, tt.args...)); status != exitDone {
				t.Fatalf("status %d: %s", status, errs)
			}
			if got := strings.Contains(out.String(), "\x1b["); got != tt.want {
				t.Errorf("coloured: %v, want %v:\n%q", got, tt.want, out)
			}
		})
	}
}

func TestDurationsAreWrittenInTwoUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                           "0s",
		400 * time.Millisecond:      "0s",
		59*time.Second + 600*1e6:    "1m0s",
		90 * time.Second:            "1m30s",
		5 * time.Hour:               "5h0m",
		26*time.Hour + time.Minute:  "1d2h",
		30 * 24 * time.Hour:         "30d0h",
		59*time.Minute + 59*1e9 + 5: "59m59s",
	} {
		if got := brief(d); got != want {
			t.Errorf("brief(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestDurationsTakeDays(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "0.5d": 12 * time.Hour, "1h30m": 90 * time.Minute, "1d12h": 36 * time.Hour} {
		if got, err := config.ParseDuration(s); err != nil || got != want {
			t.Errorf("the duration %q = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "d", "xd", "1e300d", "NaNd", "-40000d", "7 days", "5"} {
		if got, err := config.ParseDuration(s); err == nil {
			t.Errorf("the duration %q = %v, want an error", s, got)
		}
	}
}

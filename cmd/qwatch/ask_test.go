package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// Consent is a y or a yes on a terminal, or --yes; everything else is none.
func TestWhatIsConsent(t *testing.T) {
	t.Parallel()
	const terminal, elsewhere = true, false
	for name, tt := range map[string]struct {
		answer        string
		stdin, stderr bool
		yes           bool
		agreed        bool
		err           string
		asks          bool
	}{
		"y":                           {"y\n", terminal, terminal, false, true, "", true},
		"YES with spaces":             {"  YES \r\n", terminal, terminal, false, true, "", true},
		"y without an end of line":    {"y", terminal, terminal, false, true, "", true},
		"n":                           {"n\n", terminal, terminal, false, false, "not agreed to: nothing was done", true},
		"nothing":                     {"\n", terminal, terminal, false, false, "not agreed to", true},
		"the end of input":            {"", terminal, terminal, false, false, "not agreed to", true},
		"a word that begins like yes": {"yesterday\n", terminal, terminal, false, false, "not agreed to", true},
		"a second line":               {"\ny\n", terminal, terminal, false, false, "not agreed to", true},
		"--yes":                       {"n\n", terminal, terminal, true, true, "", false},
		"--yes elsewhere":             {"", elsewhere, elsewhere, true, true, "", false},
		"a y that is piped in":        {"y\n", elsewhere, terminal, false, false, "this would delete x: add --yes to do it, or --dry-run to only see", false},
		"nobody sees the question":    {"y\n", terminal, elsewhere, false, false, "this would delete x: add --yes", false},
	} {
		var said bytes.Buffer
		c := &cli{stdin: strings.NewReader(tt.answer), stderr: &said, stdinTerminal: tt.stdin, stderrTerminal: tt.stderr}
		err := c.ask(t.Context(), consent{yes: tt.yes}, "delete x")
		if (err == nil) != tt.agreed || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
		if want := map[bool]string{true: "delete x? [y/N] "}[tt.asks]; said.String() != want {
			t.Errorf("%s: it asked %q, want %q", name, said.String(), want)
		}
		if usage := new(usageError); errors.As(err, usage) == tt.asks && err != nil {
			t.Errorf("%s: exit status of %v", name, err)
		}
	}
}

// Ctrl-C at the question is a no, without waiting for an answer.
func TestCtrlCAtTheQuestion(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	said := notify{done: cancel}
	c := &cli{stdin: r, stderr: &said, stdinTerminal: true, stderrTerminal: true}
	if err := c.ask(ctx, consent{}, "delete x"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// notify calls done when something is written.
type notify struct{ done func() }

// Write implements io.Writer.
func (n *notify) Write(p []byte) (int, error) { n.done(); return len(p), nil }

// peeker is a triager that has some messages, and notes what it is asked for.
type peeker struct {
	total   int64
	entries int
	done    []triage.Command
}

// String implements fmt.Stringer.
func (*peeker) String() string { return "demo/orders" }

func (l *peeker) run(_ context.Context, cmd triage.Command, sink func(triage.Event) error) error {
	l.done = append(l.done, cmd)
	if cmd.Operation != triage.List {
		return sink(triage.Event{Result: &poison.Result{Chosen: l.entries, Done: l.entries}})
	}
	for i := range l.entries {
		if err := sink(triage.Event{Entry: &triage.Entry{Entry: poison.Entry{MessageID: string(rune('a' + i)), Queue: "orders"}}}); err != nil {
			return err
		}
	}
	return sink(triage.Event{Summary: &triage.Summary{Total: l.total, Peeked: l.entries, Partial: l.total > int64(l.entries)}})
}

func (*peeker) load(context.Context, io.Reader, triage.ImportOptions) (triage.Imported, error) {
	return triage.Imported{}, nil
}

// The question says what it is about, and a no leaves everything as it is.
func TestTheQuestionSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cmd  triage.Command
		verb string
		l    peeker
		want string
	}{
		"what a peek sees":           {triage.Command{Operation: triage.Replay}, "replay", peeker{total: 3, entries: 3}, "replay 3 messages of demo/orders"},
		"one by its id":              {triage.Command{Operation: triage.Delete, IDs: []string{"x\x1b[2J"}}, "delete", peeker{total: 40, entries: 1}, `delete 1 message of demo/orders (id x\x1b[2J)`},
		"many ids":                   {triage.Command{Operation: triage.Delete, IDs: []string{"1", "2", "3", "4", "5"}}, "delete", peeker{total: 5, entries: 5}, "delete 5 messages of demo/orders (id 1, 2, 3 and 2 more)"},
		"all, and a peek shows them": {triage.Command{Operation: triage.Replay, All: true}, "replay", peeker{total: 2, entries: 2}, "replay 2 messages of demo/orders"},
		"all of many":                {triage.Command{Operation: triage.Replay, All: true, Limit: 10}, "replay", peeker{total: 5000, entries: 32}, "replay what is chosen (at most 10) of about 5000 messages on the poison queue of demo/orders"},
		"all that a filter chooses": {
			triage.Command{Operation: triage.Delete, All: true, Categories: []poison.Category{"handler"}, Reason: "a \"b\"", OlderThan: triage.Duration(90 * 24 * 3600e9)},
			"delete",
			peeker{total: 2, entries: 2},
			`delete what is chosen (category handler; reason "a \"b\""; older than 90d0h) of about 2 messages on the poison queue of demo/orders`,
		},
		"a purge": {triage.Command{Operation: triage.Purge}, "delete", peeker{total: 1, entries: 1}, "delete about 1 message of the poison queue of demo/orders for good"},
	} {
		for _, answer := range []string{"y\n", "n\n"} {
			l := tt.l
			var out, said bytes.Buffer
			c := &cli{stdin: strings.NewReader(answer), stdout: &out, stderr: &said, stdinTerminal: true, stderrTerminal: true, getenv: func(string) string { return "dumb" }, timeout: 1e9}
			err := c.perform(t.Context(), &l, tt.cmd, consent{}, tt.verb, "done")
			if !strings.HasPrefix(said.String(), tt.want+"? [y/N] ") {
				t.Errorf("%s: it asked %q, want %q", name, said.String(), tt.want)
			}
			acted := l.done[len(l.done)-1].Operation == tt.cmd.Operation
			if yes := answer == "y\n"; acted != yes || errors.Is(err, errNotAgreed) == yes {
				t.Errorf("%s, answer %q: it acted: %v, %v", name, answer, acted, err)
			}
			if l.done[0].Operation != triage.List || l.done[0].All || l.done[0].Body {
				t.Errorf("%s: to ask, it did %+v", name, l.done[0])
			}
		}
	}
}

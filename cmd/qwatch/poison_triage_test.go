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

// scripted tells events and fails.
type scripted struct {
	events []triage.Event
	err    error
}

// String implements fmt.Stringer.
func (scripted) String() string { return "demo/orders" }

func (s scripted) run(_ context.Context, _ triage.Command, sink func(triage.Event) error) error {
	for _, e := range s.events {
		if err := sink(e); err != nil {
			return err
		}
	}
	return s.err
}

func (s scripted) load(context.Context, io.Reader, triage.ImportOptions) (triage.Imported, error) {
	return triage.Imported{Imported: 256, Next: 257}, s.err
}

// Whatever ends a command, it says how far it came, and that there may be more.
func TestWhatACommandSaysWhenItEndsEarly(t *testing.T) {
	broke := errors.New("the answer of http://localhost broke off")
	perform := func(c *cli, s scripted) error {
		return c.perform(t.Context(), s, triage.Command{Operation: triage.Replay, All: true}, consent{yes: true}, "replay", "replayed")
	}
	for name, tc := range map[string]struct {
		does func(*cli, scripted) error
		s    scripted
		says string
		err  error
	}{
		"the server ends in a replay": {
			perform,
			scripted{[]triage.Event{{Progress: &triage.Progress{Done: 3, Of: 40}}, {Progress: &triage.Progress{Done: 17, Of: 40}}}, broke},
			"qwatch: 17 of 40 messages of demo/orders were replayed when it was last heard of; run it again to go on\n", broke,
		},
		"the server ends before it began": {perform, scripted{err: broke}, "", broke},
		"a replay that could not see everything": {
			perform,
			scripted{events: []triage.Event{{Result: &poison.Result{Chosen: 68, Done: 68, Unseen: 32}}}},
			"qwatch: about 32 messages on the poison queue of demo/orders were not seen, somebody hides them: run it again in half a minute\n", errReported,
		},
		"the server ends in an import": {
			func(c *cli, s scripted) error {
				return c.importLines(t.Context(), s, strings.NewReader(""), 0, triage.ImportOptions{})
			},
			scripted{err: broke},
			"qwatch: go on with --from-line 257\n", broke,
		},
		"the server ends in an export": {
			func(c *cli, s scripted) error {
				return c.poisonExport(t.Context(), s, triage.Command{Operation: triage.Export, All: true}, "")
			},
			scripted{[]triage.Event{{Line: []byte("{}")}, {Line: []byte("{}")}}, broke},
			"qwatch: 2 messages of demo/orders were written before it ended\n", broke,
		},
	} {
		var out, said bytes.Buffer
		c := &cli{stdin: strings.NewReader(""), stdout: &out, stderr: &said, getenv: func(string) string { return "" }}
		if err := tc.does(c, tc.s); !errors.Is(err, tc.err) || said.String() != tc.says {
			t.Errorf("%s: %v\n%s", name, err, said.String())
		}
	}
}

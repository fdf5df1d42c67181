package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// then calls f when it is read, and reads as nothing.
type then func()

// Read implements io.Reader.
func (f then) Read([]byte) (int, error) { f(); return 0, io.EOF }

// An import through the server that is cut off tells with which line to go on, and goes on there.
func TestTheClientGoesOnWithAnImport(t *testing.T) {
	t.Parallel()
	const n = 600
	export := func(from, to int) io.Reader {
		var b bytes.Buffer
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, `{"format":"qwatch-poison/1","text":"%d %s"}`+"\n", i, strings.Repeat("x", 1000))
		}
		return &b
	}
	s := tend(t)
	c := s.client(operatorToken)
	load := func(ctx context.Context, r io.Reader, from int) (triage.Imported, error) {
		return c.Import(ctx, "acct", "orders", r, triage.ImportOptions{From: from})
	}
	there := func() []string { return s.storage.Texts(queuetest.AccountName, "orders-poison") }

	// Ctrl-C, when a part has been put back.
	ctx, cancel := context.WithCancel(t.Context())
	done, err := load(ctx, io.MultiReader(export(1, 400), then(cancel), export(401, n)), 1)
	if !errors.Is(err, context.Canceled) || done.Imported == 0 || done.Next != done.Imported+1 || len(there()) != done.Imported {
		t.Errorf("interrupted: %+v, %v; %d are there", done, err, len(there()))
	}

	// Storage fails far into it: the line is the file's, not the request's.
	failing := queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Skip: 300 - done.Imported, Status: 403, Code: "AuthorizationFailure"}
	remove := s.storage.Inject(failing)
	next, err := load(t.Context(), export(1, n), done.Next)
	if err == nil || !strings.Contains(err.Error(), "line 301: ") || next.Next != 301 || done.Imported+next.Imported != 300 {
		t.Errorf("failed: %+v, %v", next, err)
	}
	remove()
	if next, err = load(t.Context(), export(1, n), next.Next); err != nil || next.Next != n+1 || next.Imported != 300 {
		t.Errorf("to the end: %+v, %v", next, err)
	}
	for i, text := range there() {
		if !strings.HasPrefix(text, fmt.Sprint(i+1, " ")) {
			t.Fatalf("message %d is %.10q", i+1, text)
		}
	}
	if len(there()) != n {
		t.Errorf("%d are there", len(there()))
	}

	// Nothing was begun where nobody answers, and by whom it is refused.
	if done, err := s.client(readerToken).Import(t.Context(), "acct", "orders", export(1, 3), triage.ImportOptions{}); err == nil || done.Next != 0 {
		t.Errorf("as a reader: %+v, %v", done, err)
	}
	if done, err := load(t.Context(), strings.NewReader(""), 1); err != nil || done.Next != 1 {
		t.Errorf("nothing: %+v, %v", done, err)
	}
}

// Storage that fails is no fault of the request: a line that is none is.
func TestTheStatusOfAnImportTellsWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	s := tend(t)
	ask := func(line string) (int, string) {
		return s.ask("POST", poisonPath+"/import", line+"\n", "Qwatch-Token", operatorToken)
	}
	const good = `{"format":"qwatch-poison/1","text":"x"}`
	if status, text := ask("x"); status != 400 || !strings.Contains(text, "line 1: ") {
		t.Errorf("a line that is none: %d %s", status, text)
	}
	remove := s.storage.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Status: 403, Code: "AuthorizationFailure"})
	if status, text := ask(good); status != 502 || !strings.Contains(text, "line 1: ") {
		t.Errorf("storage refuses: %d %s", status, text)
	}
	remove()
	if status, text := ask(good); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

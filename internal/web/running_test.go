package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// Whoever looks at a queue's page sees what an operator does to its poison and how far it is, without a token and
// without script, until it is over.
func TestThePageShowsAReplayAtWork(t *testing.T) {
	t.Parallel()
	s := tend(t, "one", "two", "three")
	var view struct {
		Work *struct {
			Text, Note string
			Done, Of   int64
		}
	}
	look := func() (page string) {
		t.Helper()
		_, text := s.ask("GET", "/view/queues/acct/orders", "")
		if err := json.Unmarshal([]byte(text), &view); err != nil {
			t.Fatal(err)
		}
		_, page = s.ask("GET", "/queues/acct/orders", "")
		return page
	}
	if page := look(); view.Work != nil || strings.Contains(page, "<progress") {
		t.Errorf("before it: %+v\n%s", view.Work, page)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := false
	// So slow that the second message is not sent while the test looks.
	err := s.client(operatorToken).Triage(ctx, "acct", "orders", triage.Command{Operation: triage.Replay, Rate: .01, Canary: 1}, func(e triage.Event) error {
		if e.Progress == nil || e.Progress.Done != 1 {
			return nil
		}
		seen = true
		page := look()
		if w := view.Work; w == nil || w.Text != "ann replays dead-lettered messages" || w.Done != 1 || w.Of != 3 || !strings.Contains(w.Note, "1 of 3 messages done") || !strings.Contains(w.Note, "watching whether the first fail again") {
			t.Errorf("amid it: %+v", w)
		}
		if !strings.Contains(page, "<b>ann replays dead-lettered messages</b>") || !strings.Contains(page, `<progress value="1" max="3"`) {
			t.Errorf("amid it:\n%s", page)
		}
		cancel()
		return nil
	})
	if !seen || !errors.Is(err, context.Canceled) {
		t.Errorf("progress seen: %t; %v", seen, err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		page := look()
		if view.Work == nil && !strings.Contains(page, "<progress") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after it: %+v\n%s", view.Work, page)
		}
	}
	if n := s.storage.Len("devstoreaccount1", "orders-poison"); n != 2 {
		t.Errorf("%d left on the poison queue", n)
	}
}

// TestAnInterruptedCommandHearsItsResult: Ctrl-C has the server stop the work, and what was done is told exactly.
func TestAnInterruptedCommandHearsItsResult(t *testing.T) {
	t.Parallel()
	s := tend(t, "one", "two", "three")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var result *poison.Result
	err := s.client(operatorToken).Triage(ctx, "acct", "orders", triage.Command{Operation: triage.Replay, Rate: .01}, func(e triage.Event) error {
		if e.Progress != nil && e.Progress.Done == 1 {
			cancel()
		}
		if e.Result != nil {
			result = e.Result
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || result == nil || result.Done != 1 || result.Chosen != 3 {
		t.Errorf("it told %+v, %v", result, err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the line comes after the last event
		s.mu.Lock()
		last := s.actions[len(s.actions)-1]
		s.mu.Unlock()
		if last.Operation == "replay" && last.Messages == 1 && strings.HasPrefix(last.Error, "ann stopped it: ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the audit log ends with %+v", last)
		}
	}
}

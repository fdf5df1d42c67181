package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/verify"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const verifyPath = "/api/v1/verify"

func (s *tended) audited(operation string) (n int, failure string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.actions {
		if a.Operation == operation && a.Operator == "ann" && a.Account == "acct" && a.Queue == "" {
			n, failure = n+1, a.Error
		}
	}
	return n, failure
}

func (s *tended) temporary() (names []string) {
	for _, name := range s.storage.Queues(queuetest.AccountName) {
		if strings.HasPrefix(name, "qwatch-verify-") {
			names = append(names, name)
		}
	}
	return names
}

// O3, O4: an operator has a running qwatch rehearse, event by event or at once; nothing is left behind.
func TestARehearsalThroughTheServer(t *testing.T) {
	t.Parallel()
	s := tend(t, "kept")
	var outcomes []verify.Outcome
	begun := 0
	err := s.client(operatorToken).Verify(t.Context(), "acct", time.Second, func(e verify.Event) error {
		begun += e.Begun
		if e.Outcome != nil {
			outcomes = append(outcomes, *e.Outcome)
		}
		return nil
	})
	if err != nil || begun != len(verify.Checks()) || len(outcomes) != begun {
		t.Errorf("%d checks begun, %d are over: %v", begun, len(outcomes), err)
	}
	for _, o := range outcomes {
		if !o.OK || o.Account != "acct" {
			t.Errorf("%+v", o)
		}
	}
	status, text := s.ask("POST", verifyPath, `{"lease":"1s"}`, "Qwatch-Token", operatorToken)
	var answer struct{ Outcomes []verify.Outcome }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 || len(answer.Outcomes) != begun {
		t.Fatalf("%d %v %s", status, err, text)
	}
	for i, c := range verify.Checks() {
		if o := answer.Outcomes[i]; o.Check != c[0] || !o.OK {
			t.Errorf("outcome %d is %+v, want %s", i, o, c[0])
		}
	}
	if n, failure := s.audited("verify"); n != 2 || failure != "" {
		t.Errorf("the audit log has %d rehearsals, %s", n, failure)
	}
	if left := s.temporary(); len(left) > 0 || s.storage.Len(queuetest.AccountName, "orders-poison") != 1 {
		t.Errorf("left behind %q; the user's own poison queue holds %d", left, s.storage.Len(queuetest.AccountName, "orders-poison"))
	}
}

// A client that goes away ends its rehearsal, whose queues are removed; until then there is no other.
func TestARehearsalEndsWithItsClient(t *testing.T) {
	t.Parallel()
	s := tend(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		ended <- s.client(operatorToken).Verify(ctx, "", 30*time.Second, func(verify.Event) error {
			if first {
				close(began)
			}
			first = false
			return nil
		})
	}()
	<-began
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	until("there are no temporary queues", func() bool { return len(s.temporary()) > 0 })
	if status, text := s.ask("POST", verifyPath, "{}", "Qwatch-Token", operatorToken); status != 429 || !strings.Contains(text, "a rehearsal is at work") {
		t.Errorf("a second one: %d %s", status, text)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client: %v", err)
	}
	until("it is not in the audit log", func() bool { n, _ := s.audited("verify"); return n == 1 })
	if _, failure := s.audited("verify"); !strings.Contains(failure, "the client went away") {
		t.Errorf("the audit log says %q", failure)
	}
	if left := s.temporary(); len(left) > 0 {
		t.Errorf("left behind %q", left)
	}
}

// What fails is told, and is no failure of the request; what cannot be rehearsed on is.
func TestARehearsalThatFails(t *testing.T) {
	t.Parallel()
	s := tend(t)
	remove := s.storage.Inject(queuetest.Fault{Operation: queuetest.OpSend, Status: 403, Code: "AuthorizationFailure"})
	status, text := s.ask("POST", verifyPath, `{"lease":"1s"}`, "Qwatch-Token", operatorToken)
	if status != 200 || strings.Count(text, `"ok":false`) != len(verify.Checks()) {
		t.Errorf("messages cannot be sent: %d %s", status, text)
	}
	remove()
	defer s.storage.Inject(queuetest.Fault{Operation: queuetest.OpList, Status: 403, Code: "AuthorizationFailure"})()
	if status, text = s.ask("POST", verifyPath, "{}", "Qwatch-Token", operatorToken); status != 502 || !strings.Contains(text, `"error":"acct: list queues of acct: `) {
		t.Errorf("queues cannot be listed: %d %s", status, text)
	}
	var told []string
	err := s.client(operatorToken).Verify(t.Context(), "", 0, func(e verify.Event) error {
		if e.Error != "" {
			told = append(told, e.Account+": "+e.Error)
		}
		return nil
	})
	if err != nil || len(told) != 1 || !strings.HasPrefix(told[0], "acct: list queues") {
		t.Errorf("in a stream: %q, %v", told, err)
	}
}

func TestARehearsalIsAskedForProperly(t *testing.T) {
	t.Parallel()
	s := tend(t)
	s.storage.ResetCounts()
	for name, tt := range map[string]struct {
		body   string
		status int
		part   string
	}{
		"nothing":               {"", 400, "send account and lease, or {}"},
		"null":                  {"null", 400, "send account and lease, or {}"},
		"two":                   {"{}{}", 400, "more than one"},
		"another field":         {`{"queue":"orders"}`, 400, `unknown field \"queue\"`},
		"a lease too short":     {`{"lease":"10ms"}`, 400, "must be whole seconds from 1s to 30s"},
		"no duration":           {`{"lease":"soon"}`, 400, "is not a duration"},
		"too much":              {`{"account":"` + strings.Repeat("x", 5000) + `"}`, 400, "too large"},
		"an account unheard of": {`{"account":"nosuch"}`, 404, "account nosuch is not configured"},
	} {
		if status, text := s.ask("POST", verifyPath, tt.body, "Qwatch-Token", operatorToken); status != tt.status || !strings.Contains(text, tt.part) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := s.ask("GET", verifyPath, "", "Qwatch-Token", operatorToken); status != 405 {
		t.Errorf("by GET: %d %s", status, text)
	}
	if n := len(s.storage.Counts()); n != 0 {
		t.Errorf("storage was called: %v", s.storage.Counts())
	}
}

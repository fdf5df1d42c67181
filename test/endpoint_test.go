package test_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A body is what the tests' messages carry.
type body struct {
	ID   string `json:"id"`
	Note string `json:"note"` // what must never be seen in a log
}

// An answer is what the endpoint says to one call.
type answer struct {
	status int
	reason string // Qwatch-Reason
}

// An endpoint is the HTTP handler of a configured consumer. It remembers how often each message came.
type endpoint struct {
	*httptest.Server

	mu     sync.Mutex
	calls  map[string]int
	faults []string // what should not have arrived
}

// newEndpoint starts an endpoint. respond is called with the message's id and how often it has come,
// concurrently; it may take its time.
func newEndpoint(t *testing.T, note string, respond func(id string, call int) answer) *endpoint {
	t.Helper()
	e := &endpoint{calls: make(map[string]int)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b body
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &b)
		}
		e.mu.Lock()
		if err != nil || r.Method != http.MethodPost || b.Note != note {
			e.faults = append(e.faults, fmt.Sprintf("%s with %q (%v)", r.Method, raw, err))
		}
		e.calls[b.ID]++
		call := e.calls[b.ID]
		e.mu.Unlock()
		a := respond(b.ID, call)
		if a.reason != "" {
			w.Header().Set("Qwatch-Reason", a.reason)
		}
		w.WriteHeader(a.status)
	}))
	t.Cleanup(e.Close)
	return e
}

// seen returns how often each message came.
func (e *endpoint) seen() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.calls)
}

// check fails the test when something arrived that should not have.
func (e *endpoint) check(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.faults {
		t.Errorf("the endpoint got %s", f)
	}
}

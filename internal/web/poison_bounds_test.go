package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// An answer that is made as a whole holds so many bytes of bodies, and says that it is not everything.
func TestAnAnswerWithBodiesIsBounded(t *testing.T) {
	t.Parallel()
	s := tend(t)
	if err := s.q.Poison().Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = 300 // 18 MiB
	for range n {
		if _, err := s.q.Poison().SendText(t.Context(), strings.Repeat("x", 60<<10), queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		path     string
		min, max int
		partial  bool
	}{
		"with bodies":    {"?all=true&body=true", 200, 290, true},
		"without bodies": {"?all=true", n, n, false},
	} {
		status, text := s.ask("GET", poisonPath+tt.path, "", "Qwatch-Token", operatorToken)
		var v struct {
			Entries []poison.Entry
			Partial bool
			Total   int
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v", name, status, err)
		}
		if len(v.Entries) < tt.min || len(v.Entries) > tt.max || v.Partial != tt.partial || v.Total != n || len(text) > 17<<20 {
			t.Errorf("%s: %d entries of %d, %d bytes, partial %t", name, len(v.Entries), v.Total, len(text), v.Partial)
		}
	}
}

// Who read which body: of a look, of a stream, and of a dry run.
func TestReadingABodyIsAudited(t *testing.T) {
	t.Parallel()
	s := tend(t, "one", "two")
	l, err := poison.List(t.Context(), s.q)
	if err != nil || len(l.Entries) != 2 {
		t.Fatal(l, err)
	}
	id := l.Entries[1].MessageID
	token := []string{"Qwatch-Token", operatorToken}
	s.ask("GET", poisonPath+"?body=true&id="+id, "", token...)
	s.ask("GET", poisonPath+"?body=true&id="+id, "", append(token, "Accept", "application/jsonl")...)
	s.ask("POST", poisonPath+"/replay", `{"dryRun":true,"body":true,"ids":["`+id+`"]}`, token...)
	s.ask("GET", poisonPath+"?id="+id, "", token...) // shows no body
	var got []string
	for _, a := range s.actions {
		got = append(got, fmt.Sprint(a.Operator, a.Operation, a.MessageID == id))
	}
	if d := cmp.Diff([]string{"annread-bodytrue", "annread-bodytrue", "annread-bodytrue"}, got); d != "" {
		t.Error(d)
	}
}

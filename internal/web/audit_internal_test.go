package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// An id is what a message's record says, however long that is: the log has the beginning, and the copy's own id.
func TestALongIDIsClippedInTheLog(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	var told Action
	h := &handler{Options: Options{Logger: slog.New(slog.NewTextHandler(&logs, nil)), Audited: func(a Action) { told = a }}}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	h.audit(r, Action{Operator: "ann", Operation: "replay", Account: "acct", Queue: "orders", MessageID: "x" + strings.Repeat("\u00e9", 25_000), PoisonMessageID: "copy"})
	if line := logs.String(); len(line) > 500 || !strings.Contains(line, "poison_message_id=copy") || !strings.Contains(line, "…") {
		t.Errorf("the line: %.600s", line)
	}
	if len(told.MessageID) > 140 || !utf8.ValidString(told.MessageID) || told.PoisonMessageID != "copy" {
		t.Errorf("told %+v", told)
	}
	logs.Reset()
	h.audit(r, Action{Operator: "ann", Operation: "replay", Account: "acct", Queue: "orders", MessageID: "same", PoisonMessageID: "same"})
	if line := logs.String(); !strings.Contains(line, " message_id=same") || strings.Contains(line, "poison_message_id") {
		t.Errorf("the line: %s", line)
	}
}

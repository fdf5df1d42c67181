package test_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/test/peer"
)

// A hostileText is a text that somebody else decides, and that qwatch may come to show.
type hostileText struct {
	Name string `json:"name"`
	Text string `json:"text"` // script with the name in it, up to a comma
	// Page and Shows are the address and the selector of what shows it as it is written. Without, nothing needs to.
	Page  string `json:"page"`
	Shows string `json:"shows"`
}

// scripted is what would run, were it ever taken for markup, an attribute, a template or a script.
func scripted(name string) string {
	return `"'></td></script><script>pwned='` + strings.ReplaceAll(name, " ", "-") + `'</script><img src=x onerror=pwned=1>{{pwned=1}}`
}

// TestBrowserTakesNoTextForMarkup has script in every text that a page may show and somebody else decides: whoever sends
// messages, handles them, writes on a poison queue, owns a queue, answers for the service, or made up a link.
func TestBrowserTakesNoTextForMarkup(t *testing.T) {
	const (
		fleet, orders     = "/", "/queues/hostile/orders"
		operator          = "correct-horse-battery"
		summaries         = "#triage-out summary"
		entries, outcomes = "#triage-out .entry", "#replay-result"
	)
	texts := []hostileText{
		{Name: "team in the file", Page: fleet, Shows: "#rows"},
		{Name: "team in the file, on the queue's page", Page: orders, Shows: "#facts"},
		{Name: "reason of a handler", Page: fleet, Shows: "#clusters"},
		{Name: "reason of a handler, on the queue's page", Page: orders, Shows: "#clusters"},
		{Name: "reason of a handler, in triage", Page: orders, Shows: summaries},
		{Name: "reason in a record", Page: orders, Shows: summaries},
		{Name: "message id in a record", Page: orders, Shows: entries + " code"},
		{Name: "business key in a record", Page: orders, Shows: entries},
		{Name: "error of an attempt", Page: orders, Shows: entries + " li"},
		{Name: "category of an attempt", Page: orders, Shows: entries + " li"},
		{Name: "name of a header", Page: orders, Shows: entries},
		{Name: "value of a header", Page: orders, Shows: entries},
		{Name: "body", Page: orders, Shows: entries + " pre"},
		{Name: "body without an envelope", Page: orders, Shows: entries + " pre"},
		{Name: "message id in a record, told by a replay", Page: orders, Shows: outcomes},
		{Name: "message id in a history", Page: orders, Shows: entries + " .earlier"},
		{Name: "reason in a history", Page: orders, Shows: entries + " .earlier"},
		{Name: "category in a history", Page: orders, Shows: entries + " .earlier"},
		{Name: "error in a history", Page: orders, Shows: entries + " .earlier li"},
		{Name: "failure of the records", Page: orders, Shows: entries + " [role=status]"},
		{Name: "words filtered for", Page: "/?q=", Shows: "#q"},
		// Those are refused, left out, or another queue's.
		{Name: "category in a record"},
		{Name: "queue in a record"},
		{Name: "worker of an attempt"},
		{Name: "team in metadata"},
		{Name: "owner in metadata"},
		{Name: "queue that a listing tells of"},
		{Name: "message of the service's error"},
		{Name: "code of the service's error"},
		{Name: "account asked for", Page: "/?account="},
		{Name: "status asked for", Page: "/?status="},
		{Name: "order asked for", Page: "/?sort="},
		{Name: "offset asked for", Page: "/?offset="},
		{Name: "queue in the address", Page: "/queues/hostile/"},
		{Name: "account in the address", Page: "/queues/"},
		{Name: "fragment of the address", Page: "/#"},
		{Name: "path that is none", Page: "/api/v1/"},
	}
	text := map[string]string{}
	for i := range texts {
		name, _, _ := strings.Cut(texts[i].Name, ",")
		texts[i].Text = scripted(name)
		text[name] = texts[i].Text
	}
	take := func(name string) string {
		t.Helper()
		s, ok := text[name]
		if !ok {
			t.Fatalf("the table has no %s", name)
		}
		delete(text, name)
		return s
	}

	reason := take("reason of a handler")
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Qwatch-Reason", reason)
		w.WriteHeader(http.StatusUnprocessableEntity)
	}))
	t.Cleanup(handler.Close)
	storage, address := lyingService(t, take("queue that a listing tells of"), take("message of the service's error"), take("code of the service's error"))
	put := func(name, metadata, value string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, queuetest.EndpointAt(address, queuetest.AccountName)+"/"+name+metadata, nil)
		if err != nil {
			t.Fatal(err)
		}
		if metadata != "" {
			req.Header.Set("X-Ms-Meta-Qwatch_team", value)
			req.Header.Set("X-Ms-Meta-Owner", take("owner in metadata"))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode >= 300 {
			b, _ := io.ReadAll(resp.Body) // it is about to fail anyway
			t.Fatalf("%s: %s: %s", name, resp.Status, b)
		}
	}
	for _, name := range []string{"orders", "orders-poison", "owned"} {
		put(name, "", "")
	}
	put("owned", "?comp=metadata", take("team in metadata"))

	account, err := queue.NewAccount(queue.AccountConfig{Name: "hostile", ConnectionString: queue.Secret(connection(address))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	q, err := account.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(q *queue.Queue, text string) {
		t.Helper()
		if _, err := q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	body := take("body")
	send(q, body)
	record := func(id, queue, category, reason string) string {
		b, err := json.Marshal(map[string]any{
			"$azqs-envelope": 1, "headers": map[string]string{text["name of a header"]: text["value of a header"]},
			"deadLetter": map[string]any{
				"reason": reason, "category": category, "messageId": id, "dequeueCount": 3, "queue": queue, "at": time.Now().UTC(),
				"businessKey": text["business key in a record"], "replayed": "2026-11-30T03:00:00Z",
				"attempts": []map[string]any{
					{"number": 1, "at": time.Now().UTC(), "category": "handler", "error": text["error of an attempt"], "worker": text["worker of an attempt"]},
					{"number": 2, "at": time.Now().UTC(), "category": text["category of an attempt"]},
				},
			},
			"body": map[string]int{"order": 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	// The marker comes first; a map would sort it so as well.
	send(q.Poison(), record(take("message id in a record"), "orders", take("category in a record"), take("reason in a record")))
	send(q.Poison(), record("another-queues", take("queue in a record"), "handler", "of another queue"))
	send(q.Poison(), take("body without an envelope"))

	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "- {name: ann, role: operator, token: %s}\n", operator), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWith(t, fmt.Sprintf(`
accounts:
  - name: hostile
    connectionString: %q
    discovery: {interval: 10s}
    queues:
      - name: orders
        team: %q
        consumer: {handler: {http: {url: %q}}, visibilityTimeout: 30s}
      - name: owned
      - name: broken
watch: {interval: 1s, idleInterval: 1s}
`, connection(address), take("team in the file"), handler.URL), "strictReadiness: false, tokensFile: "+tokens)
	for _, name := range []string{"name of a header", "value of a header", "business key in a record", "error of an attempt", "category of an attempt", "worker of an attempt"} {
		take(name) // by record
	}
	for _, h := range texts {
		name, _, _ := strings.Cut(h.Name, ",")
		if strings.HasPrefix(h.Page, "/") && (strings.HasSuffix(h.Page, "=") || strings.HasSuffix(h.Page, "/") && h.Page != "/" || strings.HasSuffix(h.Page, "#")) {
			delete(text, name) // by address
		}
	}
	for _, name := range []string{"message id in a history", "reason in a history", "category in a history", "error in a history", "failure of the records"} {
		take(name) // by the scenario
	}
	for name := range text {
		t.Errorf("nobody uses the %s", name)
	}
	eventually(t, 30*time.Second, "the message of the queue has died", func() bool { return storage.Len(queuetest.AccountName, "orders-poison") == 4 })
	eventually(t, 30*time.Second, "the broken queue is told of", func() bool {
		return strings.Contains(string(mustGet(t, s.main+"/api/v1/fleet")), `"broken"`)
	})
	var seen struct{ Looked int }
	peer.Browse(t, "hostile.js", shots(), map[string]any{"url": s.main, "operator": operator, "texts": texts, "entries": 3}, &seen)
	if seen.Looked < len(texts) {
		t.Errorf("%d texts looked for, there are %d", seen.Looked, len(texts))
	}
	for _, path := range []string{"/", orders, "/queues/hostile/broken", "/queues/hostile/owned"} { // without a browser: as sent
		if page := string(mustGet(t, s.main+path)); strings.Contains(page, "<img") || strings.Contains(page, "<script>") || strings.Contains(page, "onload=\"") {
			t.Errorf("%s holds markup of others", path)
		}
	}
	if page := string(mustGet(t, s.main+orders)); !strings.Contains(page, html.EscapeString(reason)[:40]) {
		t.Error("the reason is not on the page as it was sent")
	}
}

// lyingService is an embedded queue service whose listing tells of a queue that no service would name so, and whose
// queue "broken" answers with an error that says what nobody should believe.
func lyingService(t *testing.T, listed, message, code string) (storage *queuetest.Server, address string) {
	t.Helper()
	storage = queuetest.New(queuetest.Options{NoAuth: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("comp") == "list":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Queues><Queue><Name>%s</Name></Queue><Queue><Name>%s</Name></Queue></Queues><NextMarker/></EnumerationResults>`,
				html.EscapeString(listed), url.PathEscape("javascript:window.pwned=1")) // a client that is gone is its own affair
		case strings.Contains(r.URL.Path, "/broken"):
			w.Header().Set("X-Ms-Error-Code", code)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, html.EscapeString(code), html.EscapeString(message))
		default:
			storage.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return storage, server.URL
}

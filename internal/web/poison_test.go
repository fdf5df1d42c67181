package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// tended is a server whose operators may look after acct/orders, with dead-lettered messages in it.
type tended struct {
	*testing.T
	storage  *queuetest.Server
	q        *queue.Queue
	handler  http.Handler
	url      string
	mu       sync.Mutex
	logs     bytes.Buffer
	actions  []web.Action
	replayed int
}

// Write implements io.Writer, for the log.
func (s *tended) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(p)
}

const hostileReason = "<script>alert(1)</script>\u202e"

func tend(t *testing.T, bodies ...string) *tended {
	t.Helper()
	s := &tended{T: t, storage: queuetest.New(queuetest.Options{})}
	account, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(s.storage.ConnectionString()), Transport: s.storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	if s.q, err = account.Queue("orders", queue.Config{CreateIfMissing: true}); err != nil {
		t.Fatal(err)
	}
	for _, b := range bodies {
		if _, err := s.q.Send(t.Context(), b, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		ms, err := s.q.Receive(t.Context(), 1, 0)
		if err != nil || len(ms) != 1 {
			t.Fatalf("received %d, %v", len(ms), err)
		}
		if err := poison.Move(t.Context(), ms[0], poison.CategoryHandler, hostileReason); err != nil {
			t.Fatal(err)
		}
	}
	c, err := collector.New(collector.Config{Targets: []collector.Target{{Queue: s.q}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	text := "- {name: ann, role: operator, token: " + operatorToken + "}\n- {name: grafana, role: reader, token: " + readerToken + "}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := web.OpenTokens(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = web.Handler(web.Options{
		Registry: prometheus.NewRegistry(), Collector: c, Health: health.New(health.Config{}), Tokens: tokens,
		Logger: slog.New(slog.NewTextHandler(s, nil)),
		Storage: &web.Storage{
			Queue: func(account, queue string) (triage.Queue, error) {
				if account != "acct" || queue != "orders" {
					return triage.Queue{}, fmt.Errorf("queue %q is not configured", account+"/"+queue)
				}
				return triage.Queue{Queue: s.q}, nil
			},
			Accounts: func(name string) ([]*queue.Account, error) {
				if name != "" && name != "acct" {
					return nil, fmt.Errorf("account %s is not configured", name)
				}
				return []*queue.Account{account}, nil
			},
			Replayed: func(context.Context, string, string, poison.Replayed) { s.replayed++ },
		},
		Audited: func(a web.Action) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.actions = append(s.actions, a)
		},
	})
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ask makes a request and returns its status and body.
func (s *tended) ask(method, path, body string, header ...string) (int, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (s *tended) client(token string) *client.Client {
	s.Helper()
	c, err := client.New(client.Config{URL: s.url, Token: token})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

const (
	poisonPath   = "/api/v1/poison/acct/orders"
	messagesPath = "/api/v1/queues/acct/orders/messages"
)

// Every request that calls storage.
var storageRequests = [][2]string{
	{"GET", poisonPath},
	{"GET", poisonPath + "/export"},
	{"POST", poisonPath + "/replay"},
	{"POST", poisonPath + "/delete"},
	{"POST", poisonPath + "/purge"},
	{"POST", poisonPath + "/import"},
	{"GET", messagesPath},
	{"POST", messagesPath},
	{"DELETE", messagesPath},
	{"POST", verifyPath},
}

// O5, O7: who may not look after messages; storage is not called for them.
func TestWhoMayNotLookAfterMessages(t *testing.T) {
	t.Parallel()
	s := tend(t, "secret body")
	s.storage.ResetCounts()
	for name, tt := range map[string]struct {
		header []string
		status int
	}{
		"nobody":                      {nil, 401},
		"a reader":                    {[]string{"Qwatch-Token", readerToken}, 403},
		"an operator's, in the query": {nil, 401},
		"another site's page":         {[]string{"Qwatch-Token", operatorToken, "Sec-Fetch-Site", "cross-site"}, 403},
		"another origin's page":       {[]string{"Qwatch-Token", operatorToken, "Origin", "https://evil.example"}, 403},
		"a page of the same site":     {[]string{"Qwatch-Token", operatorToken, "Sec-Fetch-Site", "same-site"}, 403},
	} {
		for _, r := range storageRequests {
			if r[0] == "GET" && strings.Contains(name, "page") || r[0] == "GET" && strings.Contains(name, "origin") {
				continue // it changes nothing, and cannot be read there
			}
			path := r[1]
			if strings.Contains(name, "query") {
				path += "?token=" + operatorToken
			}
			status, text := s.ask(r[0], path, "{}", tt.header...)
			if status != tt.status || strings.Contains(text, "secret") {
				t.Errorf("%s: %s %s: %d %s, want %d", name, r[0], r[1], status, text, tt.status)
			}
		}
	}
	if n := len(s.storage.Counts()); n != 0 {
		t.Errorf("storage was called: %v", s.storage.Counts())
	}
	// A line for each refusal: who wanted what.
	for _, want := range []string{
		`operation=list operator=grafana reason="role reader"`, `operation=export operator=grafana`, `operation=delete operator=grafana`,
		`operation=peek operator=grafana`, `operation=purge operator=ann reason=cross-site`, `operation=clear operator=ann reason=cross-site`,
	} {
		if !strings.Contains(s.logs.String(), `level=WARN msg="operator command refused" `+want) {
			t.Errorf("no line of the log has %s:\n%s", want, s.logs.String())
		}
	}
	if len(s.actions) > 0 {
		t.Errorf("audited: %+v", s.actions)
	}
}

func TestAnOperatorLooksAfterPoison(t *testing.T) {
	t.Parallel()
	s := tend(t, hostileReason, "two", "three", "four")
	token := []string{"Authorization", "Bearer " + operatorToken}
	var list struct {
		PoisonQueue string
		Total       int
		Entries     []struct {
			MessageID, Reason string
			Body              *string
		}
	}
	status, text := s.ask("GET", poisonPath, "", token...)
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 || len(list.Entries) != 4 || list.PoisonQueue != "orders-poison" {
		t.Fatalf("%d %s", status, text)
	}
	if list.Entries[0].Reason != hostileReason || list.Entries[0].Body != nil {
		t.Errorf("listed %+v", list.Entries[0])
	}
	if _, text = s.ask("GET", poisonPath+"?body=true&all=true&limit=1", "", token...); strings.Count(text, `"body":`) != 1 {
		t.Errorf("with the body: %s", text)
	}
	status, text = s.ask("POST", poisonPath+"/replay", `{"dryRun":true,"ids":["`+list.Entries[1].MessageID+`"]}`, token...)
	if status != 200 || !strings.Contains(text, `"chosen":1,"done":0`) || !strings.Contains(text, list.Entries[1].MessageID) {
		t.Errorf("dry run: %d %s", status, text)
	}
	status, text = s.ask("POST", poisonPath+"/replay", `{"ids":["`+list.Entries[1].MessageID+`"]}`, token...)
	if status != 200 || !strings.Contains(text, `"done":1`) {
		t.Errorf("replay: %d %s", status, text)
	}
	if got := s.storage.Texts(queuetest.AccountName, "orders"); len(got) != 1 || got[0] != "two" {
		t.Errorf("on the queue: %q", got)
	}
	if status, text = s.ask("POST", poisonPath+"/delete", `{"ids":["`+list.Entries[0].MessageID+`"]}`, token...); status != 200 {
		t.Errorf("delete: %d %s", status, text)
	}
	_, exported := s.ask("GET", poisonPath+"/export", "", token...)
	if n := strings.Count(exported, "\n"); n != 2 {
		t.Errorf("exported %s", exported)
	}
	if status, text = s.ask("POST", poisonPath+"/purge", "{}", token...); status != 200 || !strings.Contains(text, `"done":2`) {
		t.Errorf("purge: %d %s", status, text)
	}
	if status, text = s.ask("POST", poisonPath+"/import", exported+"nonsense\n", token...); status != 400 || !strings.Contains(text, `"imported":2,"next":3,"error":"line 3: `) {
		t.Errorf("import: %d %s", status, text)
	}
	if n := s.storage.Len(queuetest.AccountName, "orders-poison"); n != 2 {
		t.Errorf("%d on the poison queue", n)
	}

	// Who did what to which message.
	var got []string
	for _, a := range s.actions {
		got = append(got, fmt.Sprintf("%s %s %s/%s id %t new %t n %d", a.Operator, a.Operation, a.Account, a.Queue, a.MessageID != "", a.NewMessageID != "", a.Messages))
	}
	want := []string{
		"ann read-body acct/orders id true new false n 0", "ann list acct/orders id false new false n 1",
		"ann replay acct/orders id true new true n 0", "ann replay acct/orders id false new false n 1",
		"ann delete acct/orders id true new false n 0", "ann delete acct/orders id false new false n 1",
		"ann export acct/orders id false new false n 2",
		"ann purge acct/orders id true new false n 0", "ann purge acct/orders id true new false n 0", "ann purge acct/orders id false new false n 2",
		"ann import acct/orders id true new false n 0", "ann import acct/orders id true new false n 0", "ann import acct/orders id false new false n 2",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if log := s.logs.String(); strings.Contains(log, operatorToken) || strings.Contains(log, "two\"") || strings.Contains(log, "script") {
		t.Errorf("the log tells too much:\n%s", log)
	}
	if s.replayed != 1 {
		t.Errorf("%d counted as replayed", s.replayed)
	}
}

func TestCommandsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	s := tend(t, "one")
	for name, tt := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"an unknown queue":            {"GET", "/api/v1/poison/acct/nosuch", "", 404, "is not configured"},
		"a path that climbs":          {"GET", "/api/v1/poison/acct/..%2forders", "", 404, "is not configured"},
		"a parameter that is none":    {"GET", poisonPath + "?all=maybe", "", 400, "all is not true or false"},
		"a duration that is none":     {"GET", poisonPath + "?olderThan=soon", "", 400, "olderThan: "},
		"a category that is none":     {"GET", poisonPath + "?category=x", "", 400, "is none"},
		"a field that is none":        {"POST", poisonPath + "/replay", `{"al":true}`, 400, "unknown field"},
		"two commands":                {"POST", poisonPath + "/replay", `{}{}`, 400, "more than one"},
		"not JSON":                    {"POST", poisonPath + "/delete", `all`, 400, "not a command"},
		"a body without an end":       {"POST", poisonPath + "/replay", `{"reason":"` + strings.Repeat("x", 2<<20) + `"}`, 400, "too large"},
		"a replay of nothing said":    {"POST", poisonPath + "/replay", ``, 400, "send a JSON object"},
		"a replay of null":            {"POST", poisonPath + "/replay", `null`, 400, "send a JSON object"},
		"a replay of a list":          {"POST", poisonPath + "/replay", `[]`, 400, "send a JSON object"},
		"a replay of no ids":          {"POST", poisonPath + "/replay", `{"all":true,"ids":[]}`, 400, "ids is empty"},
		"a replay of null ids":        {"POST", poisonPath + "/replay", `{"all":true,"ids":null}`, 400, "is null; leave it out"},
		"a replay of no categories":   {"POST", poisonPath + "/replay", `{"all":true,"categories":[]}`, 400, "categories is empty"},
		"a deletion of nothing said":  {"POST", poisonPath + "/delete", ``, 400, "send a JSON object"},
		"a deletion of no ids":        {"POST", poisonPath + "/delete", `{"all":true,"ids":[]}`, 400, "ids is empty"},
		"a deletion of everything":    {"POST", poisonPath + "/delete", `{"all":true}`, 400, "say which"},
		"a deletion by empty filters": {"POST", poisonPath + "/delete", `{"all":true,"reason":"","olderThan":"0s","limit":5}`, 400, "say which"},
		"a purge of nothing said":     {"POST", poisonPath + "/purge", ``, 400, "send a JSON object"},
		"a purge with a filter":       {"POST", poisonPath + "/purge", `{"reason":"x"}`, 400, "use delete"},
		"a rehearsal and none":        {"POST", poisonPath + "/replay", `{"dryRun":true,"DRYRUN":false}`, 400, `dryrun\" more than once`},
		"a name twice by folding":     {"POST", poisonPath + "/replay", `{"ids":["x"],"idſ":["y"]}`, 400, `ids\" more than once`},
		"half a surrogate pair":       {"POST", poisonPath + "/replay", `{"reason":"\ud800"}`, 400, "surrogate"},
		"a rate that becomes 0":       {"POST", poisonPath + "/replay", `{"rate":1e-400}`, 400, "rate 1e-400 is 0"},
		"a rate of less than 0":       {"POST", poisonPath + "/replay", `{"rate":-0}`, 400, "rate -0 is 0"},
		"a limit of 0":                {"POST", poisonPath + "/replay", `{"Limit":0}`, 400, "limit 0 is 0"},
		"an id that is null":          {"POST", poisonPath + "/replay", `{"ids":[null]}`, 400, "an id is empty"},
		"an id that is empty":         {"GET", poisonPath + "?id=", "", 400, "an id is empty"},
		"two messages in one":         {"POST", messagesPath, `{"body":"a","Body":"b"}`, 400, `body\" more than once`},
		"clearing, perhaps":           {"DELETE", messagesPath + "?dryRun=maybe", "", 400, "dryRun is not"},
		"clearing and not":            {"DELETE", messagesPath + "?dryRun=true&dryRun=false", "", 400, "dryRun is not"},
		"an import and none":          {"POST", poisonPath + "/import?dryRun=true&dryRun=false", "", 400, "dryRun is not"},
		"another method":              {"PUT", poisonPath, "", 405, "use GET"},
		"no message":                  {"POST", messagesPath, `{}`, 400, "neither body nor body64"},
		"a message that is too big":   {"POST", messagesPath, `{"body":"` + strings.Repeat("x", 70_000) + `"}`, 413, "too large"},
		"a peek at too many":          {"GET", messagesPath + "?max=33", "", 400, "1 to 32"},
	} {
		time.Sleep(20 * time.Millisecond) // within the limit of requests
		status, text := s.ask(tt.method, tt.path, tt.body, "Qwatch-Token", operatorToken)
		if status != tt.status || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %.200s, want %d and %q", name, status, text, tt.status, tt.says)
		}
	}
	if n := s.storage.Len(queuetest.AccountName, "orders-poison"); n != 1 {
		t.Errorf("%d on the poison queue", n)
	}
}

func TestTheClientHearsOfEverything(t *testing.T) {
	t.Parallel()
	var bodies []string
	for i := range 40 {
		bodies = append(bodies, fmt.Sprint("b", i))
	}
	s := tend(t, bodies...)
	c := s.client(operatorToken)
	var entries, lines int
	var summary *triage.Summary
	err := c.Triage(t.Context(), "acct", "orders", triage.Command{Operation: triage.List, All: true, Body: true}, func(e triage.Event) error {
		if e.Entry != nil && e.Entry.Body != nil {
			entries++
		}
		if e.Summary != nil {
			summary = e.Summary
		}
		return nil
	})
	if err != nil || entries != 40 || summary == nil || summary.Total != 40 {
		t.Errorf("%d entries, summary %+v, %v", entries, summary, err)
	}
	var kept bytes.Buffer
	err = c.Triage(t.Context(), "acct", "orders", triage.Command{Operation: triage.Export, All: true}, func(e triage.Event) error {
		if e.Line != nil {
			lines++
			kept.Write(append(e.Line, '\n'))
		}
		return nil
	})
	if err != nil || lines != 40 {
		t.Errorf("%d lines, %v", lines, err)
	}

	// What is cut off there is told here, with what was done before.
	remove := s.storage.Inject(queuetest.Fault{Queue: "orders", Operation: queuetest.OpSend, Skip: 3, Status: 403, Code: "AuthorizationFailure"})
	var result *poison.Result
	keep := func(e triage.Event) error {
		if e.Result != nil {
			result = e.Result
		}
		return nil
	}
	err = c.Triage(t.Context(), "acct", "orders", triage.Command{Operation: triage.Replay, All: true}, keep)
	if err == nil || !strings.Contains(err.Error(), "AuthorizationFailure") || result == nil || result.Done != 3 {
		t.Errorf("result %+v, %v", result, err)
	}
	remove()
	if err := c.Triage(t.Context(), "acct", "orders", triage.Command{Operation: triage.Purge}, keep); err != nil || result.Done != 37 {
		t.Errorf("purged: %+v, %v", result, err)
	}
	done, err := c.Import(t.Context(), "acct", "orders", &kept, triage.ImportOptions{})
	if err != nil || done.Imported != 40 || done.Next != 41 {
		t.Errorf("imported %+v, %v", done, err)
	}

	// Its end is the end there.
	ctx, cancel := context.WithCancel(t.Context())
	err = c.Triage(ctx, "acct", "orders", triage.Command{Operation: triage.Replay, All: true, Rate: 20}, func(e triage.Event) error {
		if e.Progress != nil && e.Progress.Done >= 1 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		visible := 0
		for _, m := range s.storage.Messages(queuetest.AccountName, "orders-poison") {
			if m.Visible {
				visible++
			}
		}
		if left := s.storage.Len(queuetest.AccountName, "orders-poison"); visible == left {
			if left == 0 {
				t.Error("it went on to the end")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("messages stay hidden after the client went away")
		}
	}
}

func TestOnePieceOfWorkAQueueAtATime(t *testing.T) {
	t.Parallel()
	s := tend(t, "a", "b", "c", "d")
	c := s.client(operatorToken)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		ended <- c.Triage(ctx, "acct", "orders", triage.Command{Operation: triage.Replay, Rate: .1}, func(triage.Event) error {
			once.Do(func() { close(began) })
			return nil
		})
	}()
	<-began
	if status, text := s.ask("POST", poisonPath+"/purge", "{}", "Qwatch-Token", operatorToken); status != 429 || !strings.Contains(text, "somebody is at work") {
		t.Errorf("%d %s", status, text)
	}
	cancel()
	<-ended
}

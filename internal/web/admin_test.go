package web_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const (
	operatorToken = "correct-horse-battery"
	readerToken   = "1234567890123456"
)

// fakeConsumer remembers what it was told.
type fakeConsumer struct{ state processor.State }

func (f *fakeConsumer) Pause()  { f.state = processor.StatePaused }
func (f *fakeConsumer) Resume() { f.state = processor.StateRunning }
func (f *fakeConsumer) Status() processor.Status {
	return processor.Status{Account: "acct", Queue: "orders", State: f.state, MaxHandlers: 4}
}

// logged is a log that timers write to as well.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was logged.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// steered is a handler with a consumer of acct/orders; acct/watched has none.
func steered(t *testing.T, withTokens bool) (http.Handler, *fakeConsumer, *logged) {
	t.Helper()
	storage := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(storage.ConnectionString()), Transport: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	var targets []collector.Target
	for _, name := range []string{"orders", "watched"} {
		q, err := account.Queue(name, queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, collector.Target{Queue: q})
	}
	c, err := collector.New(collector.Config{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	logs, consumer := &logged{}, &fakeConsumer{state: processor.StateRunning}
	o := web.Options{
		Registry: prometheus.NewRegistry(), Collector: c, Health: health.New(health.Config{}),
		Logger: slog.New(slog.NewTextHandler(logs, nil)),
		Consumer: func(account, queue string) web.Consumer {
			if account == "acct" && queue == "orders" {
				return consumer
			}
			return nil
		},
	}
	if withTokens {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		text := "- {name: ann, role: operator, token: " + operatorToken + "}\n- {name: grafana, role: reader, token: " + readerToken + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if o.Tokens, err = web.OpenTokens(path, o.Logger); err != nil {
			t.Fatal(err)
		}
	}
	return web.Handler(o), consumer, logs
}

const (
	pausePath = "/api/v1/processors/acct/orders/pause"
	statePath = "/api/v1/processors/acct/orders"
)

func TestAnOperatorPausesAndResumesAConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, logs := steered(t, true)
		for _, tt := range []struct{ method, path, state string }{
			{"GET", statePath, "running"},
			{"POST", pausePath, "paused"},
			{"POST", pausePath, "paused"},
			{"GET", statePath, "paused"},
			{"POST", statePath + "/resume", "running"},
		} {
			var header []string
			if tt.method == "POST" {
				header = []string{"Authorization", "bearer " + operatorToken}
			}
			resp := do(h, tt.method, tt.path, header...)
			want := `{"account":"acct","queue":"orders","state":"` + tt.state + `","handlers":0,"maxHandlers":4,`
			if got := body(t, resp); resp.StatusCode != 200 || !strings.HasPrefix(got, want) {
				t.Errorf("%s %s: %d %s, want 200 and %s…", tt.method, tt.path, resp.StatusCode, got, want)
			}
		}
		for line, n := range map[string]int{
			`level=INFO msg="operator command" operation=pause account=acct queue=orders operator=ann addr=`:  2,
			`level=INFO msg="operator command" operation=resume account=acct queue=orders operator=ann addr=`: 1,
		} {
			if got := strings.Count(logs.String(), line); got != n {
				t.Errorf("the log has %s… %d times, want %d:\n%s", line, got, n, logs)
			}
		}
		if strings.Contains(logs.String(), operatorToken) {
			t.Error("the log shows a token")
		}
	})
}

func TestWhoMayNotSteerAConsumer(t *testing.T) {
	t.Parallel()
	const auth, bearer = "Authorization", "Bearer " + operatorToken
	for name, tt := range map[string]struct {
		method, path string
		header       []string
		noTokens     bool
		status       int
		part         string // of the body
		challenge    string // WWW-Authenticate
	}{
		"without a token":           {status: 401, part: "send the token", challenge: `Bearer realm="qwatch"`},
		"with a password":           {header: []string{auth, "Basic " + operatorToken}, status: 401, part: "send the token", challenge: `Bearer realm="qwatch"`},
		"with an empty token":       {header: []string{auth, "Bearer "}, status: 401, part: "send the token", challenge: `Bearer realm="qwatch"`},
		"with a wrong token":        {header: []string{auth, bearer + "x"}, status: 401, part: "not valid", challenge: `Bearer realm="qwatch", error="invalid_token"`},
		"a reader":                  {header: []string{auth, "Bearer " + readerToken}, status: 403, part: "grafana has the role reader"},
		"without a tokens file":     {header: []string{auth, bearer}, noTokens: true, status: 403, part: "server.tokensFile is not configured"},
		"another site's page":       {header: []string{auth, bearer, "Sec-Fetch-Site", "cross-site"}, status: 403, part: "another site"},
		"a sibling's page":          {header: []string{auth, bearer, "Sec-Fetch-Site", "same-site"}, status: 403, part: "another site"},
		"an old browser's page":     {header: []string{auth, bearer, "Origin", "https://evil.example"}, status: 403, part: "another site"},
		"by GET":                    {method: "GET", header: []string{auth, bearer}, status: 405, part: "use POST"},
		"the state by POST":         {path: statePath, header: []string{auth, bearer}, status: 405, part: "use GET"},
		"a queue that is unknown":   {path: "/api/v1/processors/acct/nosuch/pause", header: []string{auth, bearer}, status: 404, part: "acct/nosuch is not watched"},
		"a queue without consumer":  {path: "/api/v1/processors/acct/watched/pause", header: []string{auth, bearer}, status: 404, part: "has no consumer in this process"},
		"the state of no consumer":  {method: "GET", path: "/api/v1/processors/acct/watched", status: 404, part: "has no consumer in this process"},
		"what cannot be done":       {path: statePath + "/explode", header: []string{auth, bearer}, status: 404, part: "there is no"},
		"an unknown queue unproven": {path: "/api/v1/processors/acct/nosuch/pause", status: 401, part: "send the token", challenge: `Bearer realm="qwatch"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, consumer, _ := steered(t, !tt.noTokens)
				if tt.method == "" {
					tt.method = "POST"
				}
				if tt.path == "" {
					tt.path = pausePath
				}
				resp := do(h, tt.method, tt.path, tt.header...)
				got := body(t, resp)
				if resp.StatusCode != tt.status || !strings.HasPrefix(got, `{"error":`) || !strings.Contains(got, tt.part) {
					t.Errorf("answered %d %s, want %d and %q", resp.StatusCode, got, tt.status, tt.part)
				}
				if got := resp.Header.Get("WWW-Authenticate"); got != tt.challenge {
					t.Errorf("WWW-Authenticate: %q, want %q", got, tt.challenge)
				}
				if consumer.state != processor.StateRunning {
					t.Error("the consumer was paused")
				}
			})
		})
	}
}

func TestAPageOfTheSameOriginMaySteer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := steered(t, true)
		for _, header := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://example.com"}} {
			if resp := do(h, "POST", pausePath, append(header, "Authorization", "Bearer "+operatorToken)...); resp.StatusCode != 200 {
				t.Errorf("%s: %d, want 200", header, resp.StatusCode)
			}
		}
	})
}

func TestATokenTravelsBesideAPassword(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header []string
		status int
	}{
		"a token of its own header":                {[]string{"Qwatch-Token", operatorToken}, 200},
		"beside the password for the listener":     {[]string{"Authorization", "Basic YW5uOngK", "Qwatch-Token", operatorToken}, 200},
		"a wrong one, though the other is right":   {[]string{"Authorization", "Bearer " + operatorToken, "Qwatch-Token", "wrong-horse-battery"}, 401},
		"an empty one, though the other is right":  {[]string{"Authorization", "Bearer " + operatorToken, "Qwatch-Token", ""}, 401},
		"a reader's, though the other is operator": {[]string{"Authorization", "Bearer " + operatorToken, "Qwatch-Token", readerToken}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, consumer, _ := steered(t, true)
				if got := do(h, "POST", pausePath, tt.header...).StatusCode; got != tt.status || (consumer.state == processor.StatePaused) != (tt.status == 200) {
					t.Errorf("answered %d, want %d", got, tt.status)
				}
			})
		})
	}
}

func TestGuessingTokensIsSlowedDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, consumer, logs := steered(t, true)
		post := func(token string) *http.Response {
			return do(h, "POST", pausePath, "Authorization", "Bearer "+token)
		}
		for range 20 { // right ones and none at all are not counted
			if got := post(operatorToken).StatusCode; got != 200 {
				t.Fatalf("a right token: %d", got)
			}
			do(h, "POST", pausePath)
		}
		for i := range 40 {
			want, retry := 401, ""
			if i >= 10 {
				want, retry = 429, "1"
			}
			if resp := post("wrong-horse-battery"); resp.StatusCode != want || resp.Header.Get("Retry-After") != retry {
				t.Errorf("guess %d: %d, Retry-After %q, want %d and %q", i+1, resp.StatusCode, resp.Header.Get("Retry-After"), want, retry)
			}
			// Nobody is locked out by what others guess.
			consumer.Resume()
			if resp := post(operatorToken); resp.StatusCode != 200 || consumer.state != processor.StatePaused {
				t.Errorf("a right token after %d wrong ones: %d", i+1, resp.StatusCode)
			}
			if resp := post(readerToken); resp.StatusCode != 403 {
				t.Errorf("a reader's token after %d wrong ones: %d, want 403", i+1, resp.StatusCode)
			}
		}
		if n := strings.Count(logs.String(), "wrong token refused"); n != 10 {
			t.Errorf("%d guesses are in the log, want 10", n)
		}
		time.Sleep(time.Second)
		for i := range 6 {
			want := 401
			if i >= 5 {
				want = 429
			}
			if got := post("wrong-horse-battery").StatusCode; got != want {
				t.Errorf("guess %d a second later: %d, want %d", i+1, got, want)
			}
		}
	})
}

// Who is refused is in the log, without what was sent as a token, and strangers cannot fill it.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		noTokens bool
		header   []string
		status   int
		line     string
		lines    int // of 100 requests
	}{
		"without a tokens file": {true, []string{"Qwatch-Token", "wrong-horse-battery"}, 403, `operation=pause operator="" reason="no tokens file"`, 10},
		"without a token":       {false, nil, 401, `operation=pause operator="" reason="no token"`, 10},
		"a stranger's page":     {false, []string{"Sec-Fetch-Site", "cross-site", "Qwatch-Token", "wrong-horse-battery"}, 403, `operation=pause operator="" reason=cross-site`, 10},
		"an operator's browser": {false, []string{"Sec-Fetch-Site", "cross-site", "Qwatch-Token", operatorToken}, 403, `operation=pause operator=ann reason=cross-site`, 40},
		"a reader":              {false, []string{"Qwatch-Token", readerToken}, 403, `operation=pause operator=grafana reason="role reader"`, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, _, logs := steered(t, !tt.noTokens)
				for range 100 {
					if got := do(h, "POST", pausePath, tt.header...).StatusCode; got != tt.status {
						t.Fatalf("answered %d, want %d", got, tt.status)
					}
				}
				line := `level=WARN msg="operator command refused" ` + tt.line + " addr="
				if n := strings.Count(logs.String(), line); n != tt.lines {
					t.Errorf("%d lines of %s, want %d:\n%.500s", n, line, tt.lines, logs)
				}
				for _, secret := range []string{"wrong-horse", operatorToken, readerToken} {
					if strings.Contains(logs.String(), secret) {
						t.Error("the log shows a token")
					}
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if more := fmt.Sprintf(`level=WARN msg="more operator commands were refused" count=%d`, 100-tt.lines); strings.Count(logs.String(), more) != 1 {
					t.Errorf("the log does not tell how many have no line:\n%.2000s", logs)
				}
				before := strings.Count(logs.String(), line)
				do(h, "POST", pausePath, tt.header...)
				if n := strings.Count(logs.String(), line); n != before+1 {
					t.Error("later there is no line")
				}
			})
		})
	}
}

// A flood of strangers, from another site's page too, hides nothing that is refused to those with a token.
func TestStrangersHideNoRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, logs := steered(t, true)
		for range 5000 {
			do(h, "POST", "/api/v1/processors/"+strings.Repeat("a", 200)+"/"+strings.Repeat("%1b", 80)+"/pause", "Origin", "http://evil.example")
		}
		do(h, "POST", pausePath, "Qwatch-Token", readerToken)
		if n := len(logs.String()); n > 11*700 || !strings.Contains(logs.String(), "operator=grafana") {
			t.Errorf("%d bytes of log:\n%.500s", n, logs)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if !strings.Contains(logs.String(), "were refused\" count=4990") {
			t.Error("the log does not tell how many have no line")
		}
	})
}

func TestTwoTokensAreNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := steered(t, true)
		r := httptest.NewRequest("POST", pausePath, nil)
		r.Header["Authorization"] = []string{"Bearer " + operatorToken, "Bearer " + readerToken}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 401 {
			t.Errorf("answered %d, want 401", w.Code)
		}
	})
}

func TestTheBodyOfACommandIsIgnoredButBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, consumer, _ := steered(t, true)
		for size, want := range map[int]int{64 << 10: 200, 64<<10 + 1: 413} {
			consumer.Resume()
			r := httptest.NewRequest("POST", pausePath, strings.NewReader(strings.Repeat("x", size)))
			r.Header.Set("Authorization", "Bearer "+operatorToken)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if paused := consumer.state == processor.StatePaused; w.Code != want || paused != (want == 200) {
				t.Errorf("%d bytes: %d, paused %v, want %d", size, w.Code, paused, want)
			}
		}
	})
}

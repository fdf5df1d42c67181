package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// hostile is markup, script and what ends strings and attributes.
const hostile = `"'></td><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}javascript:alert(1)`

// fleetOf is a handler over queues q00, q01, …, with as many messages as their number, that were read once.
func fleetOf(t *testing.T, n int, change func(*story.Recorder)) http.Handler {
	t.Helper()
	storage := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(storage.ConnectionString()), Transport: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	var targets []collector.Target
	for i := range n {
		q, err := account.Queue(fmt.Sprintf("q%02d", i), queue.Config{NoPoison: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range i {
			if _, err := q.Send(t.Context(), []byte("x"), queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		targets = append(targets, collector.Target{Queue: q, Team: map[bool]string{true: "Even", false: hostile}[i%2 == 0]})
	}
	c, err := collector.New(collector.Config{Targets: targets, RequestsPerSecond: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s := story.New(story.Config{Snapshot: c.Snapshot, Queue: c.Queue})
	if change != nil {
		change(s)
	}
	return web.Handler(web.Options{Registry: prometheus.NewRegistry(), Collector: c, Story: s, Health: health.New(health.Config{})})
}

func TestTheFleetIsSortedFilteredAndPagedByTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := fleetOf(t, 12, nil)
		for query, want := range map[string]string{
			"sort=queue&limit=3":                  "q00 q01 q02 of 12",
			"sort=queue&desc=1&limit=3":           "q11 q10 q09 of 12",
			"sort=messages&desc=1&limit=2":        "q11 q10 of 12",
			"sort=messages&limit=2&offset=4":      "q04 q05 of 12",
			"sort=queue&q=Q0+ACCT&limit=500":      "q00 q01 q02 q03 q04 q05 q06 q07 q08 q09 of 10",
			"sort=queue&q=even&limit=2":           "q00 q02 of 6",
			"q=nosuch":                            " of 0",
			"status=stalled":                      " of 0",
			"status=unknown&sort=queue&limit=1":   "q00 of 12",
			"account=nosuch":                      " of 0",
			"sort=queue&offset=11":                "q11 of 12",
			"sort=queue&offset=999999":            " of 12",
			"sort=team&limit=1":                   "q01 of 12",
			"limit=0":                             " of 12",
			"sort=queue&limit=2&unknown=parts":    "q00 q01 of 12",
			"sort=oldest&desc=true&q=q03&limit=1": "q03 of 1",
		} {
			var got struct {
				Matched int
				Rows    []struct{ Queue string }
			}
			resp := do(h, "GET", "/api/v1/fleet?"+query)
			if err := json.Unmarshal([]byte(body(t, resp)), &got); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %d, %v", query, resp.StatusCode, err)
			}
			names := make([]string, 0, len(got.Rows))
			for _, r := range got.Rows {
				names = append(names, r.Queue)
			}
			if text := fmt.Sprintf("%s of %d", strings.Join(names, " "), got.Matched); text != want {
				t.Errorf("%s: %s, want %s", query, text, want)
			}
		}
		for query, part := range map[string]string{
			"sort=nosuch": "there are: drain, handlers,", "desc=maybe": "desc", "limit=-1": "limit", "limit=x": "limit", "offset=99999999999": "offset", "q=" + strings.Repeat("x", 201): "200 bytes",
		} {
			for _, path := range []string{"/api/v1/fleet?", "/view/fleet?", "/?"} {
				resp := do(h, "GET", path+query)
				if text := body(t, resp); resp.StatusCode != 400 || !strings.Contains(text, part) {
					t.Errorf("%s%.30s: %d %s, want 400 with %q", path, query, resp.StatusCode, text, part)
				}
			}
		}
		page := body(t, do(h, "GET", "/?sort=queue&limit=5&offset=5&q=q"))
		for _, part := range []string{`href="/?limit=5&amp;q=q&amp;sort=queue" rel="prev"`, `href="/?limit=5&amp;offset=10&amp;q=q&amp;sort=queue" rel="next"`, `aria-sort="ascending"`, `value="q"`} {
			if !strings.Contains(page, part) {
				t.Errorf("the page without script lacks %s", part)
			}
		}
	})
}

// TestWhatOthersSayIsInert: everything that is not ours is text, on pages and in the policy they come with.
func TestWhatOthersSayIsInert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := fleetOf(t, 4, func(s *story.Recorder) {
			s.Note(story.Event{Account: "acct", Queue: "q01", Text: hostile, By: hostile, Level: story.LevelBad})
			s.Note(story.Event{Account: hostile, Queue: hostile, Text: "x", Level: story.LevelWarn})
			hook := s.Hook("acct", "q01", nil)
			for i := range 8 {
				m := &processor.Message{Message: &queue.Message{ID: fmt.Sprint(i)}}
				hook.DeadLettered(t.Context(), m, poison.Category(hostile), hostile, nil, time.Time{}, 0)
			}
		})
		tag := regexp.MustCompile(`(?i)<(script|img|iframe|object|style|base|form)\b[^>]*>`)
		ours := regexp.MustCompile(`^(<script src="/assets/(page|replay|triage)\.js\?[0-9a-f]{12}" defer>|<form method="(get|dialog)".*)$`)
		for _, target := range []string{"/", "/?q=" + url.QueryEscape(hostile), "/?account=" + url.QueryEscape(hostile), "/?status=" + url.QueryEscape(hostile), "/queues/acct/q01"} {
			resp := do(h, "GET", target)
			text := body(t, resp)
			if resp.StatusCode != 200 {
				t.Errorf("%s: %d", target, resp.StatusCode)
			}
			for _, found := range tag.FindAllString(text, -1) {
				if !ours.MatchString(found) {
					t.Errorf("%s has %s", target, found)
				}
			}
			text = regexp.MustCompile(`"[^"<>]*"`).ReplaceAllString(text, `""`) // what is quoted well is a value
			if strings.Contains(text, " style=") || regexp.MustCompile(`<[^>]*\son\w+=`).MatchString(text) {
				t.Errorf("%s has inline style or a handler", target)
			}
			policy := resp.Header.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("the policy lacks %s", part)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Errorf("the policy is %s", policy)
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", target, name, got, want)
				}
			}
		}
	})
}

func TestTricksWithPathsAndHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := fleetOf(t, 2, nil)
		server := httptest.NewUnstartedServer(h) // for its parsing alone
		defer server.Close()
		for target, want := range map[string]int{
			"/queues/acct/q01":                          200,
			"/queues/acct/q01/":                         404,
			"/queues/acct/..%2fq01":                     404,
			"/queues/%2e%2e/q01":                        404,
			"/queues/acct/q01%00":                       404,
			"/queues/acct%2Fq01/x":                      404,
			"/queues/acct/%3Cscript%3E":                 404,
			"/view/queues/acct/%3Cscript%3E":            404,
			"/assets/":                                  404,
			"/assets/../page.go":                        404, // by way of where it points
			"/assets/%2e%2e/page.go":                    404,
			"/assets/page.html":                         404,
			"/assets/layout.html":                       404,
			"/.git/config":                              404,
			"/api/v1/why/acct/" + url.PathEscape("<b>"): 404,
			"/api/v1/tune/acct/q01":                     404,
		} {
			r := httptest.NewRequest("GET", target, nil)
			r.Header.Set("X-Forwarded-Host", "evil.example")
			r.Header.Set("X-Original-URL", "/metrics")
			r.Header.Set("X-HTTP-Method-Override", "POST")
			r.Host = "evil.example"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			text := w.Body.String()
			if w.Code != want && (want != 404 || w.Code != 301 && w.Code != 307) {
				t.Errorf("%s: %d, want %d", target, w.Code, want)
			}
			if strings.Contains(text, "evil.example") || strings.Contains(w.Header().Get("Location"), "evil.example") || strings.Contains(text, "<script>") && !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
				t.Errorf("%s: what the client sent comes back: %s", target, text)
			}
			if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s lacks its headers", target)
			}
		}
	})
}

func TestAssetsAreKeptForAsLongAsTheyAreTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := fleetOf(t, 1, nil)
		page := body(t, do(h, "GET", "/queues/acct/q00"))
		named := regexp.MustCompile(`/assets/[a-z.]+\?[0-9a-f]{12}`).FindAllString(page, -1)
		if len(named) != 4 {
			t.Fatalf("the page names %v", named)
		}
		for _, target := range named {
			resp := do(h, "GET", target)
			if got := resp.Header.Get("Cache-Control"); resp.StatusCode != 200 || !strings.Contains(got, "immutable") || !strings.Contains(resp.Header.Get("Content-Type"), "text/") {
				t.Errorf("%s: %d, %s, %s", target, resp.StatusCode, got, resp.Header.Get("Content-Type"))
			}
			bare, _, _ := strings.Cut(target, "?")
			again := do(h, "GET", bare, "If-None-Match", resp.Header.Get("ETag"))
			if again.StatusCode != 304 || again.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s again: %d, %s", bare, again.StatusCode, again.Header.Get("Cache-Control"))
			}
			if got := do(h, "POST", bare).StatusCode; got != 405 {
				t.Errorf("POST %s: %d", bare, got)
			}
		}
		total := 0
		for _, target := range append(named, "/") {
			total += len(body(t, do(h, "GET", target, "Accept-Encoding", "gzip")))
		}
		if total > 40<<10 {
			t.Errorf("the page has %d bytes as sent, all its files together: it is to be small", total)
		}
	})
}

func TestAPageAsksForNothingElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := fleetOf(t, 1, nil)
		page := body(t, do(h, "GET", "/queues/acct/q00"))
		for _, target := range regexp.MustCompile(`/assets/[a-z.]+`).FindAllString(page, -1) {
			page += body(t, do(h, "GET", target))
		}
		for _, found := range regexp.MustCompile(`https?://[^\s"'<]+`).FindAllString(page, -1) {
			if found != "http://www.w3.org/2000/svg" { // a name, not an address
				t.Errorf("it names %s", found)
			}
		}
		for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
			if strings.Contains(page, sink) {
				t.Errorf("its script uses %s", sink)
			}
		}
	})
}

func TestWhoamiTellsNobodyMoreThanTheirOwnRole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := steered(t, true)
		for token, want := range map[string]string{
			operatorToken: `{"name":"ann","role":"operator"}`, readerToken: `{"name":"grafana","role":"reader"}`,
			"wrong-horse-battery": `{"error":"the token is not valid"}`,
		} {
			if got := strings.TrimSpace(body(t, do(h, "GET", "/api/v1/whoami", "Qwatch-Token", token))); got != want {
				t.Errorf("%s: %s, want %s", token, got, want)
			}
		}
		for range 12 { // guessing there is slowed down as elsewhere
			do(h, "GET", "/api/v1/whoami", "Qwatch-Token", "wrong-horse-battery")
		}
		for token, want := range map[string]int{"wrong-horse-battery": 429, operatorToken: 200} {
			if resp := do(h, "GET", "/api/v1/whoami", "Qwatch-Token", token); resp.StatusCode != want {
				t.Errorf("%s after a dozen wrong ones: %d, want %d", token, resp.StatusCode, want)
			}
		}
	})
}

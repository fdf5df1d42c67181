package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/config"
)

const (
	bertToken = "battery-staple-horse"
	asBoth    = asAnn + "- {name: bert, role: operator, token: " + bertToken + "}\n"
)

// streamed is what a stream of events came to.
type streamed struct {
	work   string // by which to stop it
	done   int
	result bool
	fault  string
}

// streaming has a command carried out as a stream, in the background; begun has the answer's header.
func (r *rig) streaming(path, command string) (begun <-chan string, end <-chan streamed) {
	r.t.Helper()
	work, out := make(chan string, 1), make(chan streamed, 1)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://main/api/v1/poison/"+path, strings.NewReader(command))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	req.Header.Set("Accept", "application/jsonl")
	go func() {
		var s streamed
		defer func() { out <- s }()
		resp, err := r.client.Do(req)
		if err != nil {
			s.fault = err.Error()
			close(work)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		s.work = resp.Header.Get("Qwatch-Work")
		work <- s.work
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			var e struct {
				Result *struct{ Done int }
				Error  string
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				s.fault = err.Error()
				return
			}
			if e.Result != nil {
				s.result, s.done = true, e.Result.Done
			}
			s.fault = e.Error
		}
	}()
	return work, out
}

// postAsBert posts nothing as bert, and returns the status and what was answered.
func (r *rig) postAsBert(path string) (int, map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://main"+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bertToken)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var v map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, v
}

// TestAnyOperatorStopsAReplay: it ends with its exact result, nothing held, and both are in the log.
func TestAnyOperatorStopsAReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, withTokens(t, oneQueue, asBoth), idle())
		r.deadLettered("watched", 20)
		const stop = "/api/v1/poison/acct/watched/stop"
		if status, v := r.postAsBert(stop); status != 404 {
			t.Errorf("nothing to stop: %d %v", status, v)
		}
		begun, got := r.streaming("acct/watched/replay", `{"all":true,"rate":1}`)
		work := <-begun
		settle(4500 * time.Millisecond)
		if status, v := r.postAsBert(stop + "?work=another"); work == "" || status != 404 {
			t.Errorf("stopping other work than %q: %d %v", work, status, v)
		}
		if status, v := r.postAsBert(stop + "?work=" + work); status != 200 || v["operator"] != "ann" || v["operation"] != "replay" {
			t.Errorf("stopping it: %d %v", status, v)
		}
		s := <-got
		if !s.result || s.done < 3 || s.done > 6 || !strings.HasPrefix(s.fault, "bert stopped it: ") {
			t.Errorf("the operator was told %+v", s)
		}
		settle(time.Second)
		if main, dead := r.visible("watched"), r.visible("watched-poison"); main != s.done || dead != 20-s.done {
			t.Errorf("%d were replayed, %d are visible there and %d on the poison queue", s.done, main, dead)
		}
		for _, want := range []string{`"operation":"stop","account":"acct","queue":"watched","operator":"bert"`, `"error":"bert stopped it: `} {
			if !strings.Contains(r.logs.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, r.logs)
			}
		}
		r.end()
	})
}

// TestARevokedOperatorsWorkEnds: what goes on when the token is taken out of the file ends within seconds.
func TestARevokedOperatorsWorkEnds(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]string{
		"taken out":     "[]\n",
		"another token": strings.Replace(asAnn, operatorToken, "correct-horse-staple", 1),
		"a reader now":  strings.Replace(asAnn, "operator,", "reader,", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				text := withTokens(t, oneQueue, asAnn)
				r := start(t, text, idle())
				r.deadLettered("watched", 20)
				_, got := r.streaming("acct/watched/replay", `{"all":true,"rate":1}`)
				settle(3500 * time.Millisecond)
				if err := os.WriteFile(tokensOf(t, text), []byte(left), 0o600); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				s := <-got
				if took := time.Since(began); took > 4*time.Second || !s.result || !strings.HasPrefix(s.fault, "the token of ann is not an operator's any more: ") {
					t.Errorf("after %v it ended with %+v", took, s)
				}
				if !strings.Contains(r.logs.String(), `"error":"the token of ann is not an operator's any more: `) {
					t.Errorf("the log does not tell why it ended:\n%s", r.logs)
				}
				r.end()
			})
		})
	}
}

// tokensOf returns the tokens file that a configuration names.
func tokensOf(t *testing.T, text string) string {
	t.Helper()
	cfg, _, err := config.Parse("qwatch.yaml", []byte(text), func(string) (string, bool) { return "UseDevelopmentStorage=true", true })
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(cfg.Server.TokensFile)
}

// TestWorkOnAQueueEndsWithIt: a reload that takes the queue out of the configuration ends what is done there.
func TestWorkOnAQueueEndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := withTokens(t, oneQueue, asAnn)
		r := start(t, text, idle())
		r.deadLettered("watched", 20)
		_, got := r.streaming("acct/watched/replay", `{"all":true,"rate":1}`)
		settle(3500 * time.Millisecond)
		less := strings.Replace(text, "      - name: watched\n", "", 1)
		r.file.Store(&less)
		r.hangup <- os.Interrupt
		s := <-got
		if !s.result || s.done > 8 || !strings.HasPrefix(s.fault, "the configuration has the queue no more: ") {
			t.Errorf("it ended with %+v", s)
		}
		r.end()
	})
}

// TestQueuesWithOnePoisonQueueAreKeptApart: two walks through it at a time would hide its messages from one another.
func TestQueuesWithOnePoisonQueueAreKeptApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const shared = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: watched}
      - {name: orders, poisonQueue: watched-poison}
      - {name: other}
  - name: alias
    connectionString: ${STORAGE}
    queues:
      - {name: payments, poisonQueue: watched-poison}
`
		r := start(t, withTokens(t, shared, asAnn), nil)
		r.deadLettered("watched", 20)
		begun, got := r.streaming("acct/watched/replay", `{"all":true,"rate":1}`)
		<-begun
		for path, want := range map[string]int{"acct/orders": 429, "alias/payments": 429, "acct/other": 200} {
			if a := <-r.asking(path+"/purge", strings.NewReader(`{}`)); a.status != want {
				t.Errorf("%s: %+v, want %d", path, a, want)
			}
		}
		if status := r.look("acct/watched"); status != 200 {
			t.Errorf("a look amid it: %d", status)
		}
		if status := r.look("acct/watched?all=true"); status != 429 {
			t.Errorf("a walk amid it: %d, want 429", status)
		}
		r.end()
		<-got
	})
}

// look asks for the list of a queue's poison.
func (r *rig) look(path string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://main/api/v1/poison/"+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// TestAClientThatLeavesIsCalledThat: the log does not say it in the words of a connection.
func TestAClientThatLeavesIsCalledThat(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"a replay": "acct/watched/replay", "an import": "acct/watched/import"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t, withTokens(t, oneQueue, asAnn), idle())
				r.deadLettered("watched", 5)
				ctx, leave := context.WithCancel(t.Context())
				var body io.Reader = strings.NewReader(`{"rate":0.1}`)
				var upload *io.PipeWriter
				if name == "an import" {
					body, upload = io.Pipe()
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://main/api/v1/poison/"+path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+operatorToken)
				left := make(chan struct{})
				go func() {
					defer close(left)
					if resp, err := r.client.Do(req); err == nil {
						t.Errorf("an answer: %d", resp.StatusCode)
						_ = resp.Body.Close()
					}
				}()
				settle(15 * time.Second)
				leave()
				if upload != nil {
					_ = upload.CloseWithError(context.Canceled) // the client waits for its body
				}
				<-left
				settle(15 * time.Second)
				if log := r.logs.String(); !strings.Contains(log, "the client went away") || strings.Contains(log, "canceled") || strings.Contains(log, "EOF") {
					t.Errorf("the log:\n%s", log)
				}
				r.end()
			})
		})
	}
}

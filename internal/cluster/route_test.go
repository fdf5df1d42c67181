package cluster_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/cluster"
)

// node is a replica with a shard's API and one question.
func (s *shard) serve() {
	mux := http.NewServeMux()
	mux.Handle(cluster.ShardPath, s.Shards)
	mux.Handle("/q/{account}/{queue}", cluster.Route(s.Shards, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "shard "+string(rune('0'+s.index))+" about "+r.PathValue("queue"))
	})))
	s.net.set(host(s.index), mux)
}

func (n *network) get(method, h, path string, hop bool) (int, string, http.Header) {
	r := httptest.NewRequest(method, "http://"+h+path, nil)
	if hop {
		r.Header.Set(cluster.HopHeader, "1")
	}
	resp, err := n.RoundTrip(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Header
}

// C8: a question about a queue of another shard is answered by that one, once passed on, never twice, and in time.
func TestRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := runShard(t, n, 0, 2), runShard(t, n, 1, 2)
		a.serve()
		b.serve()
		time.Sleep(5 * time.Second)
		var own, others string
		for _, q := range queues() {
			if a.Owns("acct", q) {
				own = q
			} else {
				others = q
			}
		}
		if code, body, _ := n.get("GET", host(0), "/q/acct/"+own, false); code != 200 || body != "shard 0 about "+own {
			t.Errorf("its own: %d %s", code, body)
		}
		code, body, head := n.get("GET", host(0), "/q/acct/"+others, false)
		if code != 200 || body != "shard 1 about "+others || !strings.HasPrefix(head.Get("Content-Type"), "text/plain") {
			t.Errorf("another's: %d %s %v", code, body, head)
		}
		if code, body, _ := n.get("GET", host(0), "/q/acct/"+others, true); code != http.StatusMisdirectedRequest {
			t.Errorf("another's, from a replica: %d %s", code, body)
		}
		if code, body, _ := n.get("POST", host(0), "/q/acct/"+others, false); code != 200 || body != "shard 0 about "+others {
			t.Errorf("another method: %d %s", code, body)
		}

		// Two replicas that each take the other for the owner do not send a question to and fro.
		n.set(host(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // owns nothing, and is asked by address
			cluster.Route(a.Shards, http.NotFoundHandler()).ServeHTTP(w, r)
		}))
		n.asked = nil
		code, body, head = n.get("GET", host(0), "/q/acct/"+others, false)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "does not watch the queue any more") || head.Get("Retry-After") == "" {
			t.Errorf("when both are wrong: %d %s", code, body)
		}
		if len(n.asked) != 2 {
			t.Errorf("asked %q", n.asked)
		}

		for why, h := range map[string]http.Handler{
			"it answers Bad Gateway":            answers(http.StatusBadGateway),
			"it answers Found":                  answers(http.StatusFound),
			"refuses this replica's credential": answers(http.StatusUnauthorized),
			"answers Too Many Requests":         answers(http.StatusTooManyRequests),
			"larger than":                       http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 32<<20+1)) }),
			"connection refused":                nil,
		} {
			n.set(host(1), h)
			if code, body, _ := n.get("GET", host(0), "/q/acct/"+others, false); code != http.StatusServiceUnavailable || !strings.Contains(body, why) {
				t.Errorf("%s: %d %.200s", why, code, body)
			}
		}
		for _, status := range []int{http.StatusOK, http.StatusNotFound, http.StatusBadRequest, http.StatusServiceUnavailable} {
			n.set(host(1), answers(status))
			if code, _, _ := n.get("GET", host(0), "/q/acct/"+others, false); code != status {
				t.Errorf("the owner answers %d, and here it is %d", status, code)
			}
		}
		n.swallow(host(1), true)
		start := time.Now()
		if code, _, _ := n.get("GET", host(0), "/q/acct/"+others, false); code != http.StatusServiceUnavailable || time.Since(start) > 500*time.Millisecond {
			t.Errorf("an owner that hangs: %d after %v", code, time.Since(start))
		}
		a.end()
		b.end()
	})
}

func answers(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://elsewhere/")
		w.WriteHeader(status)
	})
}

// Replicas that need to show who they are do so, and what they show is read again each time.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token, password := file("token", "0123456789abcdef\n"), file("password", "secret\n")
	for name, tt := range map[string]struct {
		peers cluster.PeersConfig
		want  string
	}{
		"none":           {cluster.PeersConfig{}, ""},
		"a token":        {cluster.PeersConfig{TokenFile: token}, "Bearer 0123456789abcdef"},
		"a password":     {cluster.PeersConfig{Username: "me", PasswordFile: password}, "Basic bWU6c2VjcmV0"},
		"no such file":   {cluster.PeersConfig{TokenFile: filepath.Join(dir, "nothing")}, "nobody is asked"},
		"several lines":  {cluster.PeersConfig{TokenFile: file("lines", "a\nb\n")}, "nobody is asked"},
		"a huge file":    {cluster.PeersConfig{TokenFile: file("huge", strings.Repeat("x", 100_000))}, "nobody is asked"},
		"an empty token": {cluster.PeersConfig{TokenFile: file("empty", "")}, "nobody is asked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, got := newNetwork(), "nobody is asked"
				n.set(host(1), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
				tt.peers.Transport = n
				s, err := cluster.NewShards(cluster.ShardsConfig{Count: 2, Addr: func(i int) string { return "http://" + host(i) }, Peers: tt.peers})
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Ask(t.Context(), "http://"+host(1), "/x")
				if got != tt.want {
					t.Errorf("showed %q, want %q (%v)", got, tt.want, err)
				}
				if err != nil && strings.Contains(err.Error(), "xxxx") {
					t.Errorf("the error shows a secret: %.200v", err)
				}
			})
		})
	}
}

// A target that is no path cannot lead the question elsewhere.
func TestTargets(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	s, err := cluster.NewShards(cluster.ShardsConfig{Count: 2, Addr: func(i int) string { return "http://" + host(i) }, Peers: cluster.PeersConfig{Transport: n}})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"", "x", "@elsewhere/", ".elsewhere/", "//elsewhere/", ":80/"} {
		if _, err := s.Ask(t.Context(), "http://"+host(1), target); err == nil || len(n.asked) > 0 {
			t.Errorf("%q: asked %q, %v", target, n.asked, err)
		}
	}
}

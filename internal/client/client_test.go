package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// Every fault of how a server is named is told at once, and none of its secrets.
func TestAServerThatCannotBeNamed(t *testing.T) {
	t.Parallel()
	nonsense := filepath.Join(t.TempDir(), "nonsense.pem")
	if err := os.WriteFile(nonsense, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cfg   client.Config
		parts []string
	}{
		"nothing":                {client.Config{}, []string{"the server is not a URL like http://localhost:9780"}},
		"another scheme":         {client.Config{URL: "ftp://user:SECRET@x"}, []string{"the server is not a URL"}},
		"a host alone":           {client.Config{URL: "localhost:9780"}, []string{"the server is not a URL"}},
		"what cannot be a URL":   {client.Config{URL: "http://user:SECRET@x\x00"}, []string{"the server is not a URL"}},
		"a query, and a token":   {client.Config{URL: "http://x?SECRET", Token: "SECRET with spaces"}, []string{"has a query or a fragment", "the token has characters that no token has"}},
		"no authorities":         {client.Config{URL: "https://x", CAFile: nonsense}, []string{"nonsense.pem holds no certificate"}},
		"authorities not there":  {client.Config{URL: "https://x", CAFile: "/nonexistent"}, []string{"open /nonexistent"}},
		"half a certificate":     {client.Config{URL: "https://x", CertFile: nonsense}, []string{"a client certificate and its key go together: give both"}},
		"a nonsense certificate": {client.Config{URL: "https://x", CertFile: nonsense, KeyFile: nonsense}, []string{"failed to find any PEM data"}},
	} {
		_, err := client.New(tt.cfg)
		if err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range tt.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}

// What is asked for, as it goes out: the path a proxy puts before it, names escaped, the password beside the token.
func TestHowTheServerIsAsked(t *testing.T) {
	t.Parallel()
	var got []string
	s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		if err != nil || user != "ann" || password != "p:w" || r.Header.Get("Qwatch-Token") != token {
			t.Errorf("%v, %q %q, token %q", err, user, password, r.Header.Get("Qwatch-Token"))
		}
		got = append(got, r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery+" "+string(body))
		if strings.HasSuffix(r.URL.Path, "/messages") && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "[]")
			return
		}
		_, _ = io.WriteString(w, `{"summary":{}}`+"\n")
	})
	c := asked(t, client.Config{URL: strings.Replace(s.URL, "http://", "http://ann:p%3Aw@", 1) + "/behind/", Token: token})
	if strings.Contains(c.String(), "p") && strings.Contains(c.String(), "ann") {
		t.Errorf("it shows its password: %s", c)
	}
	ctx, none := t.Context(), func(triage.Event) error { return nil }
	var v map[string]any
	body := "x"
	for what, err := range map[string]error{
		"queue": c.Queue(ctx, "a/b", "o?x", &v),
		"list": c.Triage(ctx, "acct", "orders", triage.Command{
			Operation: triage.List, All: true, Body: true, Categories: []poison.Category{"handler"}, IDs: []string{"1", "2"}, Reason: "a&b",
			OlderThan: triage.Duration(time.Hour), NewerThan: triage.Duration(2 * time.Hour), Lease: triage.Duration(time.Second), Limit: 3,
		}, none),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	got = nil // in order from here
	for _, do := range []func() error{
		func() error { return c.Queue(ctx, "a/b", "o?x", &v) },
		func() error {
			return c.Triage(ctx, "acct", "orders", triage.Command{
				Operation: triage.List, All: true, Body: true, Categories: []poison.Category{"handler"}, IDs: []string{"1", "2"}, Reason: "a&b",
				OlderThan: triage.Duration(time.Hour), Lease: triage.Duration(time.Second), Limit: 3,
			}, none)
		},
		func() error {
			return c.Triage(ctx, "acct", "orders", triage.Command{Operation: triage.Replay, Rate: 5, DryRun: true}, none)
		},
		func() error { _, err := c.Peek(ctx, "acct", "orders", 7, true); return err },
		func() error {
			_, err := c.Send(ctx, "acct", "orders", triage.Outgoing{Payload: triage.Payload{Body: &body}})
			return err
		},
		func() error { _, err := c.Clear(ctx, "acct", "orders", true); return err },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /behind/api/v1/queues/a%2Fb/o%3Fx? ",
		"GET /behind/api/v1/poison/acct/orders?all=true&body=true&category=handler&id=1&id=2&lease=1s&limit=3&olderThan=1h0m0s&reason=a%26b ",
		`POST /behind/api/v1/poison/acct/orders/replay? {"dryRun":true,"rate":5}`,
		"GET /behind/api/v1/queues/acct/orders/messages?body=true&max=7 ",
		`POST /behind/api/v1/queues/acct/orders/messages? {"body":"x"}`,
		"DELETE /behind/api/v1/queues/acct/orders/messages?dryRun=true ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	bad := "\xff"
	if _, err := c.Send(ctx, "acct", "orders", triage.Outgoing{Payload: triage.Payload{Body: &bad}}); err == nil || len(got) != len(want) {
		t.Errorf("a body that is not UTF-8: %v", err)
	}
}

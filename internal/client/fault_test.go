package client_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/internal/verify"
	"github.com/qwatch/qwatch/poison"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "correct-horse-battery"

// serve starts a server, quiet about what is wrong with its clients.
func serve(t *testing.T, start func(*httptest.Server), h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s)
	t.Cleanup(s.Close)
	return s
}

func asked(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// calls are the ways to ask: for an answer as a whole, for a stream, and by lines.
var calls = map[string]func(context.Context, *client.Client) error{
	"queues": func(ctx context.Context, c *client.Client) error {
		var v map[string]any
		return c.Queues(ctx, &v)
	},
	"triage": func(ctx context.Context, c *client.Client) error {
		return c.Triage(ctx, "acct", "orders", triage.Command{Operation: triage.List}, func(triage.Event) error { return nil })
	},
	"verify": func(ctx context.Context, c *client.Client) error {
		return c.Verify(ctx, "acct", time.Second, func(verify.Event) error { return nil })
	},
	"import": func(ctx context.Context, c *client.Client) error {
		_, err := c.Import(ctx, "acct", "orders", strings.NewReader("{}\n"), triage.ImportOptions{})
		return err
	},
}

// O4: whatever the answer's status, the error names the server, what it said, and what to do.
func TestEachStatusIsToldWithItsCure(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no token":                     {401, `{"error":"send the token of an operator"}`, "send the token of an operator; the token comes from --token-file, QWATCH_TOKEN_FILE or QWATCH_TOKEN"},
		"a wrong token":                {401, `{"error":"the token is not valid"}`, "the token is not valid; the token comes from --token-file, QWATCH_TOKEN_FILE or QWATCH_TOKEN"},
		"a password":                   {401, "Unauthorized", "it answered 401 Unauthorized; it asks for a user and a password: write https://user:password@… in --server"},
		"a role":                       {403, `{"error":"the token of rob has the role reader; this needs operator"}`, "the token of rob has the role reader; this needs operator"},
		"a proxy refuses":              {403, "<html>", "it answered 403 Forbidden; something in front of qwatch refuses it: look at the proxy there"},
		"no such queue":                {404, `{"error":"queue acct/orders is not watched"}`, "queue acct/orders is not watched"},
		"no such address":              {404, "404 page not found", "it answered 404 Not Found; it has no such address: is it qwatch's main listener, and of this version?"},
		"another version":              {404, `{"error":"there is no /api/v1/verify"}`, "there is no /api/v1/verify; is it a qwatch of this version?"},
		"an older version":             {400, `{"error":"the body is not a command: unknown field \"canary\""}`, `the body is not a command: unknown field "canary"; is it a qwatch of this version?`},
		"a method it has not":          {405, `{"error":"method DELETE is not allowed here; use GET"}`, "method DELETE is not allowed here; use GET; is it a qwatch of this version?"},
		"another method":               {405, "", "it answered 405 Method Not Allowed; is it qwatch's main listener, and of this version?"},
		"a proxy is impatient":         {408, "", "it answered 408 Request Timeout; what is in front of qwatch did not wait: try again"},
		"a canary failed":              {409, `{"error":"a canary failed"}`, "a canary failed"},
		"too large":                    {413, `{"error":"it is too large"}`, "it is too large"},
		"too much":                     {429, `{"error":"operators ask too much"}`, "operators ask too much"},
		"a proxy says too much":        {429, "slow down", "it answered 429 Too Many Requests; try again in a moment"},
		"it fails":                     {500, "", "it answered 500 Internal Server Error; its log says why"},
		"storage fails":                {502, `{"error":"list queues of acct: 403"}`, "list queues of acct: 403"},
		"a proxy without qwatch":       {502, "<html>Bad Gateway", "it answered 502 Bad Gateway; what is in front of qwatch cannot reach it: is it running? try again when it is"},
		"it is ending":                 {503, `{"error":"qwatch is ending: nothing is begun any more"}`, "qwatch is ending: nothing is begun any more"},
		"nobody is ready":              {503, "no healthy upstream", "it answered 503 Service Unavailable; qwatch is starting or ending, or what is in front cannot reach it: try again in a moment"},
		"a proxy gave up":              {504, "", "it answered 504 Gateway Timeout; what is in front of qwatch did not wait for it: try again, or raise its timeout"},
		"a status nobody has heard of": {599, "", "it answered 599 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Qwatch-Token") != token || r.Header.Get("User-Agent") != "qwatch" {
					t.Errorf("headers %v", r.Header)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			c := asked(t, client.Config{URL: s.URL, Token: token})
			for call, do := range calls {
				err := do(t.Context(), c)
				answer := new(client.Error)
				if !errors.As(err, &answer) || answer.Status != tt.status || err.Error() != "ask "+s.URL+": "+tt.want {
					t.Errorf("%s: %v\nwant %s", call, err, tt.want)
				}
			}
		})
	}
}

// Who gave a password is not told to give one, and it is not shown.
func TestARefusedPasswordIsToldAsSuch(t *testing.T) {
	t.Parallel()
	s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "ann" || password != "wrong-one" {
			t.Errorf("signed in as %q with %q", user, password)
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "Unauthorized")
	})
	c := asked(t, client.Config{URL: strings.Replace(s.URL, "://", "://ann:wrong-one@", 1), Token: token})
	want := "ask " + s.URL + ": it answered 401 Unauthorized; it refuses the user and password that --server gives: is the password right, and the user known there?"
	for call, do := range calls {
		if err := do(t.Context(), c); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", call, err, want)
		}
	}
}

// A token must not be sent on to wherever an answer points.
func TestARedirectIsToldAndNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/login?secret=1", http.StatusFound)
	})
	for call, do := range calls {
		err := do(t.Context(), asked(t, client.Config{URL: s.URL, Token: token}))
		want := "ask " + s.URL + ": it answered 302 Found; it is elsewhere, and a token is not sent on: name that address with --server (" + elsewhere.URL + ")"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// What keeps qwatch from being asked at all is told with its cure, and without the token.
func TestWhoCannotBeAskedIsToldWithTheCure(t *testing.T) {
	t.Parallel()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }
	plain := serve(t, (*httptest.Server).Start, ok)
	secure := serve(t, (*httptest.Server).StartTLS, ok)
	demanding := serve(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
		s.StartTLS()
	}, ok)
	old := serve(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		s.StartTLS()
	}, ok)
	ca := func(s *httptest.Server) string {
		path := filepath.Join(t.TempDir(), "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		cfg   client.Config
		parts []string
	}{
		"nobody listens":                   {client.Config{URL: "http://" + closed(t)}, []string{"connection refused", "is it running? --server has to name its main listener"}},
		"it speaks TLS":                    {client.Config{URL: "http" + strings.TrimPrefix(secure.URL, "https")}, []string{"it speaks TLS; write https:// in --server"}},
		"it speaks no TLS":                 {client.Config{URL: "https" + strings.TrimPrefix(plain.URL, "http")}, []string{"it speaks no TLS: write http:// in --server"}},
		"its authority is unknown":         {client.Config{URL: secure.URL}, []string{"unknown authority", "--server-ca"}},
		"its certificate is for another":   {client.Config{URL: strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), CAFile: ca(secure)}, []string{"localhost", "name it in --server as its certificate does"}},
		"it wants a client's certificate":  {client.Config{URL: demanding.URL, CAFile: ca(demanding)}, []string{"it wants a certificate of a client", "--server-cert and --server-key"}},
		"it speaks TLS older than allowed": {client.Config{URL: old.URL, CAFile: ca(old)}, []string{"it speaks TLS older than 1.2"}},
		"nobody knows its name":            {client.Config{URL: "http://no-such-host.invalid:9780"}, []string{"no-such-host.invalid", "is the name in --server right"}},
		"it ends each connection":          {client.Config{URL: "http://" + listen(t, func(c net.Conn) { _ = c.Close() })}, []string{"it ended, or speaks no HTTP"}},
		"it speaks something else": {
			client.Config{URL: "http://" + listen(t, func(c net.Conn) {
				_, _ = bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, "-ERR unknown command\r\n")
				_ = c.Close()
			})},
			[]string{"it ended, or speaks no HTTP"},
		},
		"it never answers": {
			client.Config{URL: "http://" + listen(t, func(c net.Conn) { <-t.Context().Done(); _ = c.Close() }), Timeout: 50 * time.Millisecond},
			[]string{"no answer within 50ms; give it more with --timeout"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Token = token
			c := asked(t, tt.cfg)
			for call, do := range calls {
				if call != "queues" && tt.cfg.Timeout > 0 {
					continue // such an answer may begin late
				}
				err := do(t.Context(), c)
				if err == nil || !strings.HasPrefix(err.Error(), "ask "+tt.cfg.URL+": ") || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "canceled") {
					t.Errorf("%s: %v", call, err)
				}
				for _, part := range tt.parts {
					if !strings.Contains(fmt.Sprint(err), part) {
						t.Errorf("%s: %v\nwant %q", call, err, part)
					}
				}
			}
		})
	}
}

// closed is an address where nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// listen does something with each connection.
func listen(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go do(c)
		}
	}()
	return l.Addr().String()
}

// An answer that ends in the middle is one that broke off, whatever the reader of streams calls it.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ sent, want string }{
		"before anything":              {"", "broke off"},
		"in a line":                    {`{"looking":{"done":1,"of":2}}` + "\n" + `{"progress":{"do`, "broke off"},
		"after a line":                 {`{"begun":9,"account":"a"}` + "\n", "broke off"},
		"with what is not qwatch's":    {"<html>\n</html>\n", "it is not what qwatch answers; is it qwatch's main listener, and of this version?"},
		"with a line that never stops": {`{"queues":"` + strings.Repeat("x", 1<<20), "broke off"},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, a clean end %v", name, clean), func(t *testing.T) {
				t.Parallel()
				s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, tt.sent)
					if err := http.NewResponseController(w).Flush(); err != nil {
						t.Error(err)
					}
					if !clean {
						panic(http.ErrAbortHandler)
					}
				})
				c := asked(t, client.Config{URL: s.URL})
				for _, call := range []string{"triage", "verify"} {
					if err := calls[call](t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), s.URL) {
						t.Errorf("%s: %v", call, err)
					}
				}
				if err := calls["queues"](t.Context(), c); clean && json.Valid([]byte(tt.sent)) != (err == nil) || err != nil && (!strings.Contains(err.Error(), s.URL) || strings.Contains(err.Error(), "EOF")) {
					t.Errorf("queues: %v", err)
				}
			})
		}
	}
}

// The end of the caller's context is an interrupt and nothing else, wherever it meets the request.
func TestAnInterruptIsOne(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		for call, do := range calls {
			t.Run(fmt.Sprintf("%s, the answer begun %v", call, begun), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if begun {
						_, _ = io.WriteString(w, `{"notice":"x"}`+"\n")
						_ = http.NewResponseController(w).Flush()
					}
					time.AfterFunc(20*time.Millisecond, cancel)
					<-r.Context().Done() // the work ends with the request
				})
				err := do(ctx, asked(t, client.Config{URL: s.URL}))
				if !errors.Is(err, context.Canceled) || errors.As(err, new(*client.Error)) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// What a stream says of its end is the error, in the server's words.
func TestWhatTheServerSaysOfTheEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sent, want string
		canary     bool
	}{
		"it is over":           {`{"result":{"chosen":1,"done":1,"copies":1,"left":0}}`, "", false},
		"a list is over":       {`{"summary":{"total":0,"peeked":0,"others":0,"partial":false}}`, "", false},
		"it failed":            {`{"error":"receive from acct/orders-poison: 403"}`, "receive from acct/orders-poison: 403", false},
		"it failed in between": {`{"result":{"chosen":2,"done":1,"copies":1,"left":1},"error":"qwatch is ending: this was ended"}`, "qwatch is ending: this was ended", false},
		"a canary failed":      {`{"result":{"chosen":2,"done":1,"copies":1,"left":1,"canary":{"messages":1,"outcome":"failed"}},"error":"` + poison.ErrCanary.Error() + `: 1 of 1"}`, poison.ErrCanary.Error() + ": 1 of 1", true},
		"news of a later version": {
			`{"fireworks":true}` + "\n" + `{"result":{"chosen":0,"done":0,"copies":0,"left":0,"colour":"red"}}`, "", false,
		},
	} {
		s := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.sent+"\n") })
		err := calls["triage"](t.Context(), asked(t, client.Config{URL: s.URL}))
		if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want || errors.Is(err, poison.ErrCanary) != tt.canary {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package web_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/client"
	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// raw sends bytes as they are and returns the statuses of the answers to them.
func (s *tended) raw(text string) (statuses []int) {
	s.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		s.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		s.Fatal(err)
	}
	for in := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, resp.Body) // what is wrong with it shows in the next
		_ = resp.Body.Close()
		statuses = append(statuses, resp.StatusCode)
	}
}

// O7: no trick with paths, methods, headers or the framing of requests leads past the token to what changes
// something, and none leads to storage.
func TestTricksDoNotLeadPastTheToken(t *testing.T) {
	t.Parallel()
	s := tend(t, "secret body", "another")
	s.storage.ResetCounts()
	const purge, host = poisonPath + "/purge", "Host: localhost\r\n"
	post := func(path string, header ...string) string {
		var text strings.Builder
		text.WriteString("POST " + path + " HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 2\r\n")
		for _, h := range header {
			text.WriteString(h + "\r\n")
		}
		return text.String() + "\r\n{}"
	}
	const token = "Qwatch-Token: " + operatorToken
	inner := post(purge)
	for name, text := range map[string]string{
		"no token":                               post(purge),
		"a token in the query":                   post(purge + "?token=" + operatorToken + "&Qwatch-Token=" + operatorToken),
		"a token in a cookie":                    post(purge, "Cookie: Qwatch-Token="+operatorToken+"; token="+operatorToken),
		"a token as a password":                  post(purge, "Authorization: Basic YW5uOmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ=="),
		"another name for the token":             post(purge, "X-Qwatch-Token: "+operatorToken, "X-Forwarded-User: ann", "X-Remote-User: ann"),
		"the underscore a proxy makes":           post(purge, "Qwatch_Token: "+operatorToken),
		"two tokens":                             post(purge, token, "Qwatch-Token: "+readerToken),
		"a list of tokens":                       post(purge, "Qwatch-Token: "+readerToken+", "+operatorToken),
		"a part of the token":                    post(purge, "Qwatch-Token: "+operatorToken[:len(operatorToken)-1]),
		"the token in capitals":                  post(purge, "Qwatch-Token: "+strings.ToUpper(operatorToken)),
		"a null after the token":                 post(purge, token+"\x00"),
		"a path in a header":                     post("/api/v1/queues", "X-Original-URL: "+purge, "X-Rewrite-URL: "+purge, token),
		"a method in a header":                   strings.Replace(post(purge, "X-HTTP-Method-Override: POST", "X-Method-Override: POST", token), "POST ", "GET ", 1),
		"a method in the query":                  strings.Replace(post(purge+"?_method=POST", token), "POST ", "GET ", 1),
		"a method that is not one":               strings.Replace(post(purge, token), "POST ", "post ", 1),
		"another address of the same":            post("/api/v1/processors/../poison/acct/orders/purge"),
		"its slashes doubled":                    post("//api//v1//poison//acct//orders//purge"),
		"its slashes encoded":                    post("/api/v1/poison/acct%2Forders/purge", token),
		"its dots encoded":                       post("/api/v1/poison/%2e%2e/%2e%2e/acct/orders/purge", token),
		"a slash behind it":                      post(purge + "/"),
		"capitals":                               post("/API/V1/POISON/acct/orders/PURGE", token),
		"a null in it":                           post(purge+"%00", token),
		"a whole URL of elsewhere":               post("http://evil.example" + purge),
		"behind a public address":                post("/metrics/.." + purge),
		"a cross-site form":                      post(purge, token, "Origin: https://evil.example"),
		"a sandboxed page":                       post(purge, token, "Origin: null"),
		"a cross-site page":                      post(purge, token, "Sec-Fetch-Site: cross-site"),
		"a page of another port":                 post(purge, token, "Origin: http://localhost:1"),
		"a cross-site rehearsal":                 post(verifyPath, token, "Sec-Fetch-Site: cross-site"),
		"a cross-site deletion":                  strings.Replace(post(messagesPath, token, "Origin: https://evil.example"), "POST ", "DELETE ", 1),
		"two lengths":                            "POST " + purge + " HTTP/1.1\r\n" + host + token + "\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
		"a length and chunks, with one inside":   "POST /-/healthy HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"a coding nobody knows, with one inside": "GET /livez HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n" + inner,
		"no host":                                "POST " + purge + " HTTP/1.1\r\n" + token + "\r\nContent-Length: 2\r\n\r\n{}",
		"two hosts":                              "POST " + purge + " HTTP/1.1\r\n" + host + host + token + "\r\nContent-Length: 2\r\n\r\n{}",
		"a name with a space":                    post(purge, "Qwatch-Token : "+operatorToken),
	} {
		statuses := s.raw(text)
		if len(statuses) == 0 {
			t.Errorf("%s: no answer", name)
		}
		for _, status := range statuses {
			if status < 300 && !strings.Contains(text, "livez") {
				t.Errorf("%s: answered %d", name, status)
			}
		}
	}
	if n := s.storage.Counts(); len(n) > 0 || s.storage.Len(queuetest.AccountName, "orders-poison") != 2 {
		t.Errorf("storage was called: %v", n)
	}
	if status, text := s.ask("POST", purge, "{}", "Qwatch-Token", operatorToken); status != 200 || s.storage.Len(queuetest.AccountName, "orders-poison") != 0 {
		t.Errorf("without tricks: %d %s", status, text)
	}
}

// A command comes through a listener that demands certificates of its clients, and not without one it knows.
func TestTheClientShowsItsCertificate(t *testing.T) {
	t.Parallel()
	s := tend(t, "x")
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	ours.sign("server")
	ours.sign("ann")
	theirs.sign("eve")
	proxied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 || r.TLS.PeerCertificates[0].Subject.CommonName != "ann" {
			t.Errorf("it came with %v", r.TLS.PeerCertificates)
		}
		s.handler.ServeHTTP(w, r)
	})
	address := protect(t, filepath.Join(ours.dir, "web.yaml"), `
tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert}
`, proxied)
	list := func(by *authority, name string) error {
		cfg := client.Config{URL: "https://" + address, Token: operatorToken, CAFile: filepath.Join(ours.dir, "ca.crt")}
		if by != nil {
			cfg.CertFile, cfg.KeyFile = filepath.Join(by.dir, name+".crt"), filepath.Join(by.dir, name+".key")
		}
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Triage(t.Context(), "acct", "orders", triage.Command{Operation: triage.List}, func(triage.Event) error { return nil })
	}
	if err := list(ours, "ann"); err != nil {
		t.Errorf("with a certificate of ours: %v", err)
	}
	for name, err := range map[string]error{"without one": list(nil, ""), "with another authority's": list(theirs, "eve")} {
		if err == nil || !strings.Contains(err.Error(), "give one that it knows with --server-cert and --server-key") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package forward_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func TestNoAnswerInTimeIsATimeout(t *testing.T) {
	tests := map[string]func(w http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"in its body": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, answerSecret)
			_ = http.NewResponseController(w).Flush()
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				answer(w)
				<-release
			})
			t.Cleanup(func() { close(release) })
			d := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr + "/" + urlSecret), Timeout: 50 * time.Millisecond}), options{body: bodySecret})
			hidden(t, d.Err)
			if d.Outcome != retried || d.Category != "timeout" || !errors.Is(d.Err, context.DeadlineExceeded) {
				t.Errorf("outcome %q, category %q, error %v", d.Outcome, d.Category, d.Err)
			}
			if want := "gave no answer within 50ms"; d.Err == nil || !strings.Contains(d.Err.Error(), want) {
				t.Errorf("error %q, want one with %q", d.Err, want)
			}
			if d.Took > 5*time.Second {
				t.Errorf("the call took %v", d.Took)
			}
		})
	}
}

func TestShutdownCutsACallShort(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that leaves only then
		close(called)
		select {
		case <-r.Context().Done():
		case <-release:
			t.Error("the call was not cancelled")
		}
	}))
	defer srv.Close()
	defer close(release)
	h := post(t, forward.HTTPConfig{URL: queue.Secret(srv.URL)})
	d := deliver(t, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return h.Handle(ctx, m) }), options{body: "x", cancelled: true})
	if d.Outcome != retried || !errors.Is(d.Err, processor.ErrDraining) || d.Delay != 0 {
		t.Errorf("outcome %q after %v, error %v; want it released at once for %v", d.Outcome, d.Delay, d.Err, processor.ErrDraining)
	}
}

func TestAHandlerThatCannotBeReachedIsAnOutage(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	t.Cleanup(secure.Close)
	wantsCertificate := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	wantsCertificate.Config.ErrorLog = quiet
	wantsCertificate.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert}
	wantsCertificate.StartTLS()
	t.Cleanup(wantsCertificate.Close)
	trusting := &tls.Config{RootCAs: x509.NewCertPool()}
	trusting.RootCAs.AddCert(wantsCertificate.Certificate())
	hangUp := raw(t, "")

	tests := map[string]struct {
		cfg  forward.HTTPConfig
		want string
	}{
		"connection refused":            {forward.HTTPConfig{URL: queue.Secret("http://me:" + urlSecret + "@" + closed.Addr().String() + "/?" + urlSecret)}, "connection refused"},
		"name not found":                {forward.HTTPConfig{URL: "http://no..name:8080/"}, "name not found"},
		"a certificate nobody trusts":   {forward.HTTPConfig{URL: queue.Secret(secure.URL)}, "TLS: the certificate is not trusted: "},
		"no TLS at all":                 {forward.HTTPConfig{URL: queue.Secret(strings.Replace(plain, "http:", "https:", 1))}, "TLS: the server does not speak TLS"},
		"a client certificate demanded": {forward.HTTPConfig{URL: queue.Secret(wantsCertificate.URL), TLS: trusting}, "TLS: the server refused: "},
		"hung up while shaking hands":   {forward.HTTPConfig{URL: queue.Secret("https://" + hangUp)}, "no connection"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := deliver(t, post(t, tt.cfg), options{body: bodySecret})
			hidden(t, d.Err)
			if d.Outcome != retried || d.Category != "transient" {
				t.Errorf("outcome %q, category %q", d.Outcome, d.Category)
			}
			if d.Err == nil || !strings.Contains(d.Err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", d.Err, tt.want)
			}
		})
	}
}

// raw starts a server that answers every request with the same bytes and hangs up.
func raw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func TestAnswersThatAreNoneRetry(t *testing.T) {
	tests := map[string]struct{ answer, want string }{
		"nothing":                {"", "the connection was closed before the answer was complete"},
		"half an answer":         {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + answerSecret, "the connection was closed before the answer was complete"},
		"a bad status":           {"HTTP/1.1 " + answerSecret + "\r\n\r\n", "the answer is not HTTP that can be read"},
		"a bad header":           {"HTTP/1.1 200 OK\r\n" + answerSecret + "\r\n\r\n", "the answer is not HTTP that can be read"},
		"a bad chunk":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + answerSecret + "\r\n", "the answer is not HTTP that can be read"},
		"something else":         {answerSecret, "the answer is not HTTP that can be read"},
		"headers without end":    {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat(answerSecret, 20000), "the answer is not HTTP that can be read"},
		"another protocol":       {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "handler answered 101 Switching Protocols"},
		"a length that is wrong": {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "the answer is not HTTP that can be read"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret("http://" + raw(t, tt.answer) + "/" + urlSecret)}), options{body: bodySecret})
			hidden(t, d.Err)
			if d.Outcome != retried || !strings.Contains(d.Err.Error(), tt.want) {
				t.Errorf("outcome %q, error %v; want one with %q", d.Outcome, d.Err, tt.want)
			}
		})
	}
}

func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	if d := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr)}), options{body: "x"}); d.Outcome != completed || d.Took > 5*time.Second {
		t.Errorf("outcome %q after %v: %v", d.Outcome, d.Took, d.Err)
	}
}

func TestProbeOnlyConnects(t *testing.T) {
	called := false
	addr := serve(t, func(http.ResponseWriter, *http.Request) { called = true })
	h := post(t, forward.HTTPConfig{URL: queue.Secret(addr + "/" + urlSecret)})
	prober, ok := h.(processor.Prober)
	if !ok {
		t.Fatal("the HTTP handler is no prober")
	}
	if err := prober.Probe(t.Context()); err != nil || called {
		t.Errorf("probe: %v; called: %v", err, called)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	gone := post(t, forward.HTTPConfig{URL: queue.Secret("http://user:" + urlSecret + "@" + closed.Addr().String() + "/" + urlSecret)}).(processor.Prober)
	err = gone.Probe(t.Context())
	hidden(t, err)
	if want := "connection refused"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("probe of what is not there: %v, want %q", err, want)
	}
}

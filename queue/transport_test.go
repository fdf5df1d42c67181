package queue

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
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// socket is the in-process service behind a real one.
type socket struct {
	*queuetest.Server
	acct   *Account
	q      *Queue
	url    string
	opened atomic.Int64
	closed chan struct{}
}

func overSocket(t *testing.T, wrap func(http.Handler) http.Handler) *socket {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	s := &socket{Server: queuetest.New(queuetest.Options{}), closed: make(chan struct{}, 1000)}
	h := http.Handler(s.Server)
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.opened.Add(1)
		case http.StateClosed:
			s.closed <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s.url = queuetest.EndpointAt(srv.URL, queuetest.AccountName)
	var err error
	if s.acct, err = NewAccount(AccountConfig{Name: "acct", Endpoint: s.url, AccountKey: devKey}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.acct.Close)
	if s.q, err = s.acct.Queue("orders", Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// net/http repeats a GET by itself when a kept-alive connection breaks before the answer. For a
// receive that would hide a second batch of messages and burn a delivery, unseen by anyone.
func TestReceiveIsNotRepeatedBehindOurBack(t *testing.T) {
	s := overSocket(t, nil)
	for range 2 {
		if _, err := s.q.Send(t.Context(), "x", SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Inject(queuetest.Fault{Operation: queuetest.Operation(OpReceive), DropResponse: true, Times: 1})
	if got, err := s.q.Receive(t.Context(), 1, 0); Classify(err) != ResultNetwork {
		t.Errorf("got %d messages, %v", len(got), err)
	}
	if n := s.Requests(queuetest.Op{Operation: queuetest.Operation(OpReceive)}); n != 1 {
		t.Errorf("the service saw %d receives, want 1", n)
	}
	// A read without effect may be repeated, and is.
	s.Inject(queuetest.Fault{Operation: queuetest.Operation(OpPeek), DropResponse: true, Times: 1})
	if _, err := s.q.Peek(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

func TestReceiveOverASocketSendsNoBody(t *testing.T) {
	var length atomic.Int64
	var chunked atomic.Bool
	s := overSocket(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
				length.Store(r.ContentLength)
				chunked.Store(len(r.TransferEncoding) > 0)
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := s.q.Receive(t.Context(), 1, 0); err != nil {
		t.Fatal(err)
	}
	if length.Load() != 0 || chunked.Load() {
		t.Errorf("content length %d, chunked %v", length.Load(), chunked.Load())
	}
}

// The default transport keeps ten connections a host, and dials anew for every further handler.
func TestConnectionsAreKeptForAsManyAsAsked(t *testing.T) {
	const handlers = 40
	var gate atomic.Pointer[sync.WaitGroup]
	s := overSocket(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g := gate.Load(); g != nil {
				g.Done()
				g.Wait() // until all of them are here
			}
			next.ServeHTTP(w, r)
		})
	})
	wave := func() {
		var all, done sync.WaitGroup
		all.Add(handlers)
		gate.Store(&all)
		for range handlers {
			done.Go(func() {
				if _, err := s.q.Peek(context.Background(), 1); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	}
	wave()
	before := s.opened.Load()
	if before < handlers {
		t.Fatalf("%d connections for %d requests at once", before, handlers)
	}
	for range 3 {
		wave()
	}
	if more := s.opened.Load() - before; more > 2 {
		t.Errorf("%d more connections were dialed for the same number of requests", more)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	var strayed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer srv.Close()
	a, err := NewAccount(AccountConfig{Name: "acct", Endpoint: srv.URL + "/devstoreaccount1", AccountKey: devKey})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	q, err := a.Queue("orders", Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Receive(t.Context(), 1, 0)
	if want := "receive from acct/orders: 302 Found"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if strayed.Load() != 0 {
		t.Error("a signed request went where the redirect said")
	}
}

func TestCloseLetsGoOfIdleConnections(t *testing.T) {
	s := overSocket(t, nil)
	if len(s.closed) != 0 {
		t.Fatal("the connection was not kept")
	}
	s.acct.Close()
	for range s.opened.Load() {
		<-s.closed
	}
}

// tlsServer answers over TLS with both protocols on offer.
func tlsServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proto", r.Proto)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = discardLog()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func TestTheClientSpeaksHTTP1OverModernTLS(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	srv := tlsServer(t)
	c := newHTTPClient(4)
	defer c.CloseIdleConnections()
	tr := c.Transport.(*http.Transport)
	if v := tr.TLSClientConfig.MinVersion; v != tls.VersionTLS12 {
		t.Errorf("least TLS version %x", v)
	}
	tr.TLSClientConfig.RootCAs = x509.NewCertPool()
	tr.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Proto"); got != "HTTP/1.1" {
		t.Errorf("spoke %s", got)
	}
}

// What certainly never left may be tried again even where a repetition would do harm.
func TestUnsent(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	secure := tlsServer(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	for name, c := range map[string]struct {
		url  string
		want bool
	}{
		"nobody listens":              {gone.URL, true},
		"an unknown authority":        {secure.URL, true},
		"no TLS at the other end":     {strings.Replace(plain.URL, "http:", "https:", 1), true},
		"a name that does not exist":  {"http://no-such-host.invalid", true},
		"the connection breaks after": {cut.URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := newHTTPClient(1)
			defer client.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatal("no error")
			}
			if unsent(err) != c.want || Classify(err) != ResultNetwork {
				t.Errorf("unsent is %v, class %s: %v", unsent(err), Classify(err), err)
			}
		})
	}
	if unsent(errors.New("x")) || unsent(context.DeadlineExceeded) {
		t.Error("what may have been sent is said not to be")
	}
}

// The server closes a kept connection in the instant it is taken up again: net/http then fails with
// an error it does not export, whose text unsent knows.
func TestConnectionThatWasClosedWhileIdleIsUnsent(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	conns := make(chan net.Conn, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			conns <- c
		}
	}
	srv.Start()
	defer srv.Close()
	client := newHTTPClient(1)
	closed := make(chan struct{})
	tr := client.Transport.(*http.Transport)
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return closeNotifier{c, sync.OnceFunc(func() { close(closed) })}, err
	}
	defer client.CloseIdleConnections()
	post := func(trace *httptrace.ClientTrace) error {
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}

		req.Body = &onceBody{}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := post(&httptrace.ClientTrace{}); err != nil {
		t.Fatal(err)
	}
	server := <-conns
	err := post(&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		_ = server.Close()
		<-closed // net/http has noticed
	}})
	if err == nil || !unsent(err) {
		t.Errorf("unsent is false: %v", err)
	}
}

type closeNotifier struct {
	net.Conn
	closed func()
}

func (c closeNotifier) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// onceBody is a body that net/http cannot read again, so that it cannot repeat the request.
type onceBody struct{ eof }

func (*onceBody) Close() error { return nil }

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

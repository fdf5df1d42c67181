package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a whole qwatch inside a synctest bubble: its storage is in the process, its
// listeners are pipes, its clock is fake.
type rig struct {
	t       *testing.T
	storage *queuetest.Server
	logs    *lockedBuffer
	client  *http.Client
	grpc    *pipeListener
	running app.Running
	file    atomic.Pointer[string] // what a reload reads
	hangup  chan os.Signal
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // once ended is closed
}

const oneQueue = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - name: orders
        consumer: {handler: {http: {url: "http://handler.invalid/"}}, concurrency: 2}
      - name: watched
`

func environment(storage *queuetest.Server) func(name string) (string, bool) {
	return func(name string) (string, bool) { return storage.ConnectionString(), name == "STORAGE" }
}

func parse(t *testing.T, storage *queuetest.Server, text string) *config.Config {
	t.Helper()
	cfg, warnings, err := config.Parse("qwatch.yaml", []byte(text), environment(storage))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Log(w)
	}
	return cfg
}

// start runs qwatch and returns once it has started. Call it inside a bubble.
func start(t *testing.T, text string, handlers map[string]processor.Handler, arrange ...func(*queuetest.Server)) *rig {
	t.Helper()
	return startOn(t, text, handlers, func(s *queuetest.Server) policy.Transporter { return s }, arrange...)
}

// startOn is start with something before the storage.
func startOn(t *testing.T, text string, handlers map[string]processor.Handler, before func(*queuetest.Server) policy.Transporter, arrange ...func(*queuetest.Server)) *rig {
	t.Helper()
	r := &rig{t: t, storage: queuetest.New(queuetest.Options{}), logs: &lockedBuffer{}, ended: make(chan struct{}), hangup: make(chan os.Signal)}
	cfg := parse(t, r.storage, text)
	r.file.Store(&text)
	for _, a := range cfg.Accounts {
		for _, q := range a.Queues {
			r.create(q.Name)
		}
	}
	for _, f := range arrange {
		f(r.storage)
	}
	listeners := map[string]*pipeListener{"server.listen": newPipeListener("main"), "server.probes": newPipeListener("probes"), "server.grpc": newPipeListener("grpc")}
	r.grpc = listeners["server.grpc"]
	r.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, _, _ := strings.Cut(address, ":")
			return listeners[map[string]string{"main": "server.listen", "probes": "server.probes", "grpc": "server.grpc"}[host]].dial(ctx)
		},
	}}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = app.Run(ctx, app.Options{
			Config: cfg, Reload: r.hangup,
			Load: func() (*config.Config, []config.Warning, error) {
				return config.Parse("qwatch.yaml", []byte(*r.file.Load()), environment(r.storage))
			},
			Transport: before(r.storage), Handlers: handlers, Version: "v1.2.3", Revision: "abc",
			Logger: slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Listen: func(_ context.Context, setting, _ string) (net.Listener, error) { return listeners[setting], nil },
			Started: func(running app.Running) {
				r.running = running
				close(started)
			},
		})
	}()
	select {
	case <-started:
	case <-r.ended:
		t.Fatalf("run: %v", r.err)
	}
	return r
}

// end stops qwatch and waits for it.
func (r *rig) end() {
	r.t.Helper()
	r.stop()
	<-r.ended
	if r.err != nil {
		r.t.Errorf("run: %v", r.err)
	}
}

// get asks http://main/… or http://probes/….
func (r *rig) get(url string) (status int, body string) {
	r.t.Helper()
	return r.ask(http.MethodGet, url, nil)
}

// operate posts to the API as an operator.
func (r *rig) operate(path string) (status int, body string) {
	r.t.Helper()
	return r.ask(http.MethodPost, "http://main/"+path, http.Header{"Authorization": {"Bearer " + operatorToken}})
}

func (r *rig) ask(method, url string, header http.Header) (status int, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = header
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// holds checks how many messages storage has in a queue, whoever holds them.
func (r *rig) holds(queue string, want int) {
	r.t.Helper()
	if n := r.storage.Len(queuetest.AccountName, queue); n != want {
		r.t.Errorf("%d messages are in %s, want %d", n, queue, want)
	}
}

// want asks and checks status and a part of the body.
func (r *rig) want(url string, status int, part string) {
	r.t.Helper()
	got, body := r.get(url)
	if got == status && strings.Contains(body, part) {
		return
	}
	// Of an exposition only what is about the same metric helps.
	if name, _, ok := strings.Cut(part, "{"); ok {
		var same []string
		for line := range strings.Lines(body) {
			if strings.Contains(line, name) {
				same = append(same, line)
			}
		}
		body = strings.Join(same, "")
	}
	r.t.Errorf("GET %s: %d, want %d with %q in:\n%s", url, got, status, part, body)
}

// queue opens a queue of the rig's storage for a test's own use.
func (r *rig) queue(name string) *queue.Queue {
	r.t.Helper()
	a, err := queue.NewAccount(queue.AccountConfig{Name: "test", ConnectionString: queue.Secret(r.storage.ConnectionString()), Transport: r.storage})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(a.Close)
	q, err := a.Queue(name, queue.Config{NoPoison: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

func (r *rig) create(name string) {
	r.t.Helper()
	if err := r.queue(name).Create(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) send(name, body string) {
	r.t.Helper()
	if _, err := r.queue(name).Send(r.t.Context(), []byte(body), queue.SendOptions{Headers: map[string]string{"x": body}}); err != nil {
		r.t.Fatal(err)
	}
}

// settle lets time pass and everything come to rest.
func settle(d time.Duration) {
	time.Sleep(d) // fake: rigs live in bubbles
	synctest.Wait()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pipeListener listens in memory, so that HTTP works inside a bubble.
type pipeListener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener(name string) *pipeListener {
	return &pipeListener{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.name) }

type pipeAddr string

func (a pipeAddr) Network() string { return "pipe" }
func (a pipeAddr) String() string  { return string(a) }

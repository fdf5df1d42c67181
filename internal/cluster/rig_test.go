package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/qwatch/qwatch/internal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lease is a Lease as the API server keeps it: who writes with an old version meets a conflict.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	writes  int
	fail    func(identity, deed string) error // nil: nothing fails
	hang    func(identity string) bool        // until the caller gives up
}

func (l *lease) lock(identity string) resourcelock.Interface {
	return &fakeLock{lease: l, id: identity}
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

func (l *lease) set(f func(*lease)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// fakeLock is one replica's view of a lease.
type fakeLock struct {
	lease *lease
	id    string
	known int // the version that was read or written last
}

func (k *fakeLock) enter(ctx context.Context, deed string) error {
	k.lease.mu.Lock()
	hang, fail := k.lease.hang, k.lease.fail
	k.lease.mu.Unlock()
	if hang != nil && hang(k.id) {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		return fail(k.id, deed)
	}
	return ctx.Err()
}

func (k *fakeLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := k.enter(ctx, "get"); err != nil {
		return nil, nil, err
	}
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	if k.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(leases(), "qwatch")
	}
	k.known = k.lease.version
	record := *k.lease.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (k *fakeLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := k.enter(ctx, "create"); err != nil {
		return err
	}
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	if k.lease.record != nil {
		return apierrors.NewAlreadyExists(leases(), "qwatch")
	}
	k.write(r)
	return nil
}

func (k *fakeLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := k.enter(ctx, "update"); err != nil {
		return err
	}
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	if k.known != k.lease.version {
		return apierrors.NewConflict(leases(), "qwatch", errors.New("the object has been modified"))
	}
	k.write(r)
	return nil
}

func (k *fakeLock) write(r resourcelock.LeaderElectionRecord) {
	k.lease.record = &r
	k.lease.version++
	k.lease.writes++
	k.known = k.lease.version
}

func (k *fakeLock) RecordEvent(string) {}
func (k *fakeLock) Identity() string   { return k.id }
func (k *fakeLock) Describe() string   { return "tests/qwatch" }

func leases() schema.GroupResource {
	return schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

// network connects replicas inside a bubble, by host.
type network struct {
	mu       sync.Mutex
	handlers map[string]http.Handler // by host:port; nil: nobody listens
	cut      map[string]bool         // hosts that swallow everything
	asked    []string                // host and path, in order
}

func newNetwork() *network {
	return &network{handlers: map[string]http.Handler{}, cut: map[string]bool{}}
}

func (n *network) set(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[host] = h
}

func (n *network) swallow(host string, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[host] = yes
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h, cut := n.handlers[r.URL.Host], n.cut[r.URL.Host]
	n.asked = append(n.asked, r.URL.Host+r.URL.Path)
	n.mu.Unlock()
	if cut {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if h == nil {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	return resp, nil
}

// texts keeps what is logged.
type texts struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *texts) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *texts) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func (t *texts) logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }

// candidate is one replica of an election.
type candidate struct {
	*cluster.Leader

	id   string
	logs texts
	stop context.CancelFunc
	done chan struct{}
}

// run has a replica take part in the election for a lease until it is stopped.
func run(t *testing.T, l *lease, name string, change func(*cluster.LeaderConfig, *candidate)) *candidate {
	t.Helper()
	c := &candidate{id: cluster.Identity(name, "http://"+name+":9780"), done: make(chan struct{})}
	cfg := cluster.LeaderConfig{Lock: l.lock, Logger: c.logs.logger()}
	if change != nil {
		change(&cfg, c)
	}
	var err error
	if c.Leader, err = cluster.NewLeader(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		defer close(c.done)
		if err := c.Run(ctx, c.id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}()
	return c
}

func (c *candidate) end() { c.stop(); <-c.done }

// leaders returns the names of those that lead.
func leaders(all ...*candidate) []string {
	var names []string
	for _, c := range all {
		if c.Leads() {
			names = append(names, c.id)
		}
	}
	return names
}

// watched looks every 100 ms of fake time for a while, and returns for how long nobody led, and for how long more than one.
func watched(d time.Duration, all ...*candidate) (nobody, several time.Duration) {
	const step = 100 * time.Millisecond
	for range d / step {
		time.Sleep(step)
		switch n := len(leaders(all...)); {
		case n == 0:
			nobody += step
		case n > 1:
			several += step
		}
	}
	return nobody, several
}

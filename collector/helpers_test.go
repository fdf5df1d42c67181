package collector_test

import (
	"bytes"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// storage is an in-process service with one account, called "acct" here.
type storage struct {
	*queuetest.Server
	acct *queue.Account
}

func newStorage(t testing.TB, o queuetest.Options) *storage {
	t.Helper()
	s := queuetest.New(o)
	return &storage{s, account(t, s, "acct", queuetest.AccountName)}
}

// account signs in to one of the server's accounts.
func account(t testing.TB, s *queuetest.Server, label, name string) *queue.Account {
	t.Helper()
	a, err := queue.NewAccount(queue.AccountConfig{
		Name: label, Endpoint: s.Endpoint(name), AccountKey: queue.Secret(s.Key(name)), Transport: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// open returns a queue without creating it.
func open(t testing.TB, a *queue.Account, name string, cfg queue.Config) *queue.Queue {
	t.Helper()
	q, err := a.Queue(name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// create returns a queue that exists, and so does its poison queue.
func create(t testing.TB, a *queue.Account, name string) *queue.Queue {
	t.Helper()
	q := open(t, a, name, queue.Config{})
	for _, q := range []*queue.Queue{q, q.Poison()} {
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

func send(t testing.TB, q *queue.Queue, n int, o queue.SendOptions) {
	t.Helper()
	for range n {
		if _, err := q.SendText(t.Context(), "a message", o); err != nil {
			t.Fatal(err)
		}
	}
}

// lease hides n messages for d.
func lease(t testing.TB, q *queue.Queue, n int, d time.Duration) []*queue.Message {
	t.Helper()
	ms, err := q.Receive(t.Context(), n, d)
	if err != nil || len(ms) != n {
		t.Fatalf("received %d messages, %v; want %d", len(ms), err, n)
	}
	return ms
}

func targets(queues ...*queue.Queue) []collector.Target {
	var ts []collector.Target
	for _, q := range queues {
		ts = append(ts, collector.Target{Queue: q})
	}
	return ts
}

// run starts a collector that stops with the test. Unless told otherwise, it polls idle queues like others.
func run(t testing.TB, cfg collector.Config) *collector.Collector {
	t.Helper()
	if cfg.IdleInterval == 0 {
		cfg.IdleInterval = -1
	}
	c, err := collector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(start(t, c))
	return c
}

// start runs a collector until stop is called.
func start(t testing.TB, c *collector.Collector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	}
}

func encode(t testing.TB, g prometheus.Gatherer, f expfmt.Format) []byte {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	enc := expfmt.NewEncoder(&b, f)
	for _, mf := range families {
		if err := enc.Encode(mf); err != nil {
			t.Fatal(err)
		}
	}
	if c, ok := enc.(expfmt.Closer); ok {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// samples returns every sample of the text format.
func samples(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(string(encode(t, g, expfmt.NewFormat(expfmt.TypeTextPlain)))) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		x, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, dup := out[line[:i]]; dup {
			t.Errorf("%s is there twice", line[:i])
		}
		out[line[:i]] = x
	}
	return out
}

// about returns the samples of one queue and kind, without the labels that say so.
func about(t testing.TB, g prometheus.Gatherer, q, kind string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for name, x := range samples(t, g) {
		if s, ok := strings.CutSuffix(name, `{account="acct",queue_kind="`+kind+`",queue_name="`+q+`"}`); ok {
			out[s] = x
		}
	}
	return out
}

// failures returns the failed polls of one queue and kind by reason, those that are 0 left out.
func failures(t testing.TB, g prometheus.Gatherer, q, kind string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for name, x := range samples(t, g) {
		s, ok := strings.CutPrefix(name, `queue_poll_failures_total{account="acct",queue_kind="`+kind+`",queue_name="`+q+`",reason="`)
		if ok && x != 0 {
			out[strings.TrimSuffix(s, `"}`)] = x
		}
	}
	return out
}

// expect compares some of the samples: NaN in want means that there must be none of that name.
func expect(t testing.TB, when string, got, want map[string]float64) {
	t.Helper()
	some := map[string]float64{}
	for name, x := range got {
		if _, ok := want[name]; ok {
			some[name] = x
		}
	}
	there := map[string]float64{}
	for name, x := range want {
		if !math.IsNaN(x) {
			there[name] = x
		}
	}
	if diff := cmp.Diff(there, some); diff != "" {
		t.Errorf("%s: samples (-want +got):\n%s", when, diff)
	}
}

// only returns the states of main queues, by name.
func only(s *collector.Snapshot, kind collector.Kind) map[string]collector.QueueState {
	out := map[string]collector.QueueState{}
	for _, q := range s.Queues {
		if q.Kind == kind {
			out[q.Queue] = q
		}
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// lockedBuffer is a log that is read while it is written.
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

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// fabric connects the replicas of one bubble by their names.
type fabric struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

func (f *fabric) transport() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, _ := strings.Cut(address, ":")
		f.mu.Lock()
		l := f.listeners[host]
		f.mu.Unlock()
		if l == nil {
			return nil, errors.New("no such host")
		}
		return l.dial(ctx)
	}}
}

// replica starts a replica called name on a storage that it shares with others.
func (f *fabric) replica(t *testing.T, storage *queuetest.Server, name, text string, lease func(string) resourcelock.Interface) *rig {
	t.Helper()
	r := &rig{t: t, storage: storage, logs: &lockedBuffer{}, ended: make(chan struct{})}
	cfg := parse(t, storage, text)
	r.file.Store(&text)
	listeners := map[string]*pipeListener{"server.listen": newPipeListener(name), "server.probes": newPipeListener("probes"), "server.grpc": newPipeListener("grpc")}
	r.grpc = listeners["server.grpc"]
	f.mu.Lock()
	f.listeners[name] = listeners["server.listen"]
	f.mu.Unlock()
	r.client = &http.Client{Transport: f.transport()}
	r.hangup = nil
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	started := make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = app.Run(ctx, app.Options{
			Config: cfg, Transport: storage, Lease: lease, PeerTransport: f.transport(),
			Load: func() (*config.Config, []config.Warning, error) {
				return config.Parse("qwatch.yaml", []byte(*r.file.Load()), environment(storage))
			},
			Logger:  slog.New(slog.NewJSONHandler(r.logs, nil)),
			Listen:  func(_ context.Context, setting, _ string) (net.Listener, error) { return listeners[setting], nil },
			Started: func(running app.Running) { r.running = running; close(started) },
		})
	}()
	select {
	case <-started:
	case <-r.ended:
		t.Fatalf("run: %v", r.err)
	}
	return r
}

// sharded is the file of shard index of two.
func sharded(index int) string {
	return fmt.Sprintf(`
accounts:
  - name: acct
    connectionString: ${STORAGE}
    discovery: {}
    queues: [{name: configured}]
watch:
  mode: shard
  shard: {index: "%d", count: 2, peers: ["http://shard-{index}"]}
  canary: {account: acct}
`, index)
}

// C8: whichever replica is asked, the queue's owner answers, and a list is of the whole fleet.
func TestShardsAnswerForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := queuetest.New(queuetest.Options{})
		f := &fabric{listeners: map[string]*pipeListener{}}
		makes := &rig{t: t, storage: storage}
		const queues = 20
		for i := range queues {
			makes.create(fmt.Sprintf("queue-%02d", i))
		}
		makes.create("configured")
		makes.send("queue-07", "a message")
		a := f.replica(t, storage, "shard-0", sharded(0), nil)
		b := f.replica(t, storage, "shard-1", sharded(1), nil)
		settle(3 * time.Minute)

		owned := map[string]int{}
		for _, host := range []string{"shard-0", "shard-1"} {
			_, text := a.get("http://" + host + "/metrics")
			for i := range queues {
				name := fmt.Sprintf("queue-%02d", i)
				if strings.Contains(text, `queue_up{account="acct",queue_kind="main",queue_name="`+name+`"} 1`) {
					owned[name]++
				}
			}
			if strings.Contains(text, "qwatch-canary\"") {
				t.Errorf("%s watches the canary's queue", host)
			}
		}
		for i := range queues {
			if name := fmt.Sprintf("queue-%02d", i); owned[name] != 1 {
				t.Errorf("%s is watched by %d replicas", name, owned[name])
			}
		}
		for _, host := range []string{"shard-0", "shard-1"} {
			for i := range queues {
				name := fmt.Sprintf("queue-%02d", i)
				a.want("http://"+host+"/api/v1/queues/acct/"+name, 200, `"queue":"`+name+`"`)
				a.want("http://"+host+"/api/v1/scaling/acct/"+name, 200, fmt.Sprintf(`{"value":%d,`, map[bool]int{true: 1}[i == 7]))
				a.want("http://"+host+"/api/v1/scaling/acct/"+name+"?strategy=nonsense", 400, "strategy")
				a.want("http://"+host+"/queues/acct/"+name, 200, name)
			}
			a.want("http://"+host+"/api/v1/queues/acct/nothing", 404, "not watched")
			_, body := a.get("http://" + host + "/api/v1/queues")
			var list struct {
				Queues     []struct{ Queue string }
				Unanswered []string
			}
			if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Queues) != queues+1 || len(list.Unanswered) > 0 {
				t.Errorf("%s lists %d queues, %q unanswered: %v", host, len(list.Queues), list.Unanswered, err)
			}
			a.want("http://"+host+"/metrics", 200, "\nqwatch_shards 2\n")
			a.want("http://"+host+"/metrics", 200, "\nqwatch_shards_alive 2\n")
			a.want("http://"+host+"/readyz?verbose", 200, "shards")
		}
		_, first := a.get("http://shard-0/metrics")
		_, second := a.get("http://shard-1/metrics")
		if has := func(s string) bool { return strings.Contains(s, "\nqwatch_canary_round_trip_seconds ") }; has(first) == has(second) {
			t.Errorf("the canary flies from both or none: %v", has(first))
		}

		b.end()
		settle(3 * time.Second) // the other has it all, and has polled it
		for i := range queues {
			a.want(fmt.Sprintf("http://shard-0/api/v1/queues/acct/queue-%02d", i), 200, `"up":true`)
		}
		a.want("http://shard-0/metrics", 200, "\nqwatch_shards_alive 1\n")
		a.want("http://shard-0/readyz?verbose", 200, "shard 1")
		a.end()
	})
}

// The owner that does not answer is told apart from a queue that is not there.
func TestAShardThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := queuetest.New(queuetest.Options{})
		f := &fabric{listeners: map[string]*pipeListener{}}
		makes := &rig{t: t, storage: storage}
		for i := range 10 {
			makes.create(fmt.Sprintf("queue-%02d", i))
		}
		makes.create("configured")
		a := f.replica(t, storage, "shard-0", sharded(0), nil)
		b := f.replica(t, storage, "shard-1", sharded(1), nil)
		settle(time.Minute)
		_, text := a.get("http://shard-0/metrics")
		others := ""
		for i := range 10 {
			if name := fmt.Sprintf("queue-%02d", i); !strings.Contains(text, `queue_name="`+name+`"`) {
				others = name
			}
		}
		f.mu.Lock()
		answering, hanging := f.listeners["shard-1"], newPipeListener("nobody accepts")
		f.listeners["shard-1"] = hanging
		f.mu.Unlock()
		for _, path := range []string{"/api/v1/queues/acct/" + others, "/api/v1/scaling/acct/" + others} {
			start := time.Now()
			a.want("http://shard-0"+path, 503, "cannot be asked")
			if took := time.Since(start); took > 500*time.Millisecond {
				t.Errorf("%s is answered after %v", path, took)
			}
		}
		a.want("http://shard-0/api/v1/queues", 200, `"unanswered":["http://shard-1"]`)
		a.want("http://shard-0/metrics", 200, `qwatch_forwarded_requests_total{result="unavailable"} 3`)
		a.want("http://shard-0/api/v1/scaling/elsewhere/"+others, 404, "not configured")
		f.mu.Lock()
		f.listeners["shard-1"] = answering
		f.mu.Unlock()
		_ = hanging.Close()
		a.end()
		b.end()
	})
}

// memoryLease is a lease that one replica alone holds, and that may be out of reach.
type memoryLease struct {
	id   string
	away atomic.Bool
	rec  *resourcelock.LeaderElectionRecord
}

func (l *memoryLease) reach() error {
	if l.away.Load() {
		return errors.New("dial tcp 10.0.0.1:443: connect: connection refused")
	}
	return nil
}

func (l *memoryLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.reach(); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(l.rec)
	return l.rec, raw, err
}

func (l *memoryLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *memoryLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := l.reach(); err != nil {
		return err
	}
	l.rec = &r
	return nil
}

func (l *memoryLease) RecordEvent(string) {}
func (l *memoryLease) Identity() string   { return l.id }
func (l *memoryLease) Describe() string   { return "tests/qwatch" }

const led = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - name: orders
        consumer: {handler: {http: {url: "http://handler.invalid/"}}}
watch: {mode: leader, canary: {account: acct, interval: 10s}}
`

// C8: without an API nobody polls, readiness tells, nobody is told old numbers for new, and consumers go on.
func TestALeaderWithoutAnAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := queuetest.New(queuetest.Options{})
		f := &fabric{listeners: map[string]*pipeListener{}}
		(&rig{t: t, storage: storage}).create("orders")
		l := &memoryLease{rec: &resourcelock.LeaderElectionRecord{}}
		l.away.Store(true)
		r := f.replica(t, storage, "leader", led, func(id string) resourcelock.Interface { l.id = id; return l })
		settle(time.Minute)
		for when, polls := range []bool{false, true, false} {
			l.away.Store(!polls)
			settle(30 * time.Second)
			storage.ResetCounts()
			settle(5 * time.Minute)
			got := 0
			received := 0
			for op, n := range storage.Counts() {
				switch {
				case op.Queue == "orders" && op.Operation == queuetest.OpProperties:
					got += n
				case op.Operation == queuetest.OpReceive && op.Queue == "orders":
					received += n
				case op.Queue == "qwatch-canary" && !polls:
					t.Errorf("step %d: %d times %s of the canary's queue", when, n, op.Operation)
				}
			}
			if (got > 0) != polls || received == 0 {
				t.Errorf("step %d: %d polls, %d receives", when, got, received)
			}
			_, text := r.get("http://leader/metrics")
			if has := strings.Contains(text, "queue_approximate_messages{"); has != polls {
				t.Errorf("step %d: series of queues: %v", when, has)
			}
			if has := strings.Contains(text, "\nqwatch_canary_round_trip_seconds "); has != polls {
				t.Errorf("step %d: series of the canary: %v", when, has)
			}
			if polls {
				r.want("http://leader/metrics", 200, "\nqwatch_leader 1\n")
				r.want("http://leader/api/v1/queues/acct/orders", 200, `"up":true`)
				r.lacks("http://leader/readyz?verbose", "connection refused")
				continue
			}
			r.want("http://leader/metrics", 200, "\nqwatch_leader 0\n")
			r.want("http://leader/readyz?verbose", 200, "connection refused")
			r.want("http://leader/readyz?verbose", 200, "nothing is watched")
			r.want("http://leader/api/v1/queues/acct/orders", 503, "cannot be asked")
			r.want("http://leader/api/v1/scaling/acct/orders", 503, "cannot be asked")
			r.want("http://leader/api/v1/queues", 503, "cannot be asked")
		}
		l.away.Store(false)
		settle(time.Minute)
		r.end()
		if l.rec.HolderIdentity != "" {
			t.Errorf("in the end the lease is %q's", l.rec.HolderIdentity)
		}
	})
}

const flying = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues: [{name: orders}]
watch: {canary: {account: acct, interval: 10s}}
`

// C10: a canary measures the way through storage, cleans up after itself, and touches nothing of others.
func TestCanary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, flying, nil)
		value := func() (seconds float64, flies bool) {
			_, text := r.get("http://main/metrics")
			for line := range strings.Lines(text) {
				if _, err := fmt.Sscanf(line, "qwatch_canary_round_trip_seconds %g", &seconds); err == nil {
					return seconds, true
				}
			}
			return 0, false
		}
		failures := func() float64 { return r.value("qwatch_canary_failures_total ") }
		in := func() int { return r.storage.Len(queuetest.AccountName, "qwatch-canary") }

		r.storage.Inject(queuetest.Fault{Queue: "qwatch-canary", Operation: queuetest.OpReceive, Delay: 2 * time.Second})
		settle(25 * time.Second)
		if s, ok := value(); !ok || s != 2 || failures() != 0 {
			t.Errorf("a receive that takes 2 s: %v s, %v; %v failures", s, ok, failures())
		}
		r.storage.RemoveFaults()

		// Nothing is received or deleted for an hour: it stays bounded, and is cleaned up afterwards.
		remove := r.storage.Inject(queuetest.Fault{Queue: "qwatch-canary", Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})
		settle(time.Hour)
		if n := in(); n > 40 {
			t.Errorf("%d messages lie in its queue", n)
		}
		if _, ok := value(); ok || failures() < 300 {
			t.Errorf("deletes fail: it flies %v, %v failures", ok, failures())
		}
		remove()
		settle(2 * time.Minute)
		if n := in(); n > 1 {
			t.Errorf("%d messages are left", n)
		}
		if _, ok := value(); !ok {
			t.Error("it does not fly again")
		}
		if n := strings.Count(r.logs.String(), "the canary did not return"); n != 1 {
			t.Errorf("%d lines tell of one incident", n)
		}

		// What belongs to others is not even received.
		before := failures()
		if _, err := r.queue("qwatch-canary").SendText(t.Context(), "an order", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute)
		for _, m := range r.storage.Messages(queuetest.AccountName, "qwatch-canary") {
			if m.Text == "an order" && m.DequeueCount > 0 {
				t.Errorf("another's message was received %d times", m.DequeueCount)
			}
		}
		if failures() < before+3 || !strings.Contains(r.logs.String(), "give the canary a queue of its own") {
			t.Errorf("nobody tells: %v failures after %v", failures(), before)
		}
		r.end()
	})
}

package test_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/test/peer"
)

// fleetSize is how many queues a drill watches.
const fleetSize = 60

// fleetDrill is several replicas on one storage service, under load, and what is seen of them from outside.
type fleetDrill struct {
	t        *testing.T
	storage  *queuetest.Server
	at       string // of the storage
	handler  string // of the consumers
	handled  sync.Map
	replicas []*replica
	client   http.Client

	mu     sync.Mutex
	polls  map[string]time.Time // the last one of each queue
	gap    time.Duration        // the longest time without a poll of a queue
	twice  map[string]time.Time // since when a queue has two owners
	double time.Duration        // the longest
	asked  int
	slow   time.Duration // the slowest answer
	denied map[string]time.Time
	dark   time.Duration // the longest time in which a question about a queue had no answer
	wrong  []string      // answers that must not be
}

// replica is one process of the fleet.
type replica struct {
	*peer.Process

	main  string // URL
	probe string
	sits  bool // it is not asked: stopped or ended
}

func newFleetDrill(t *testing.T) *fleetDrill {
	t.Helper()
	d := &fleetDrill{
		t: t, polls: map[string]time.Time{}, twice: map[string]time.Time{}, denied: map[string]time.Time{},
		client: http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}},
	}
	d.storage = queuetest.New(queuetest.Options{OnRequest: d.request})
	server := httptest.NewServer(d.storage)
	d.at = d.storage.ConnectionStringAt(server.URL)
	worker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		d.handled.Store(string(body), true)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(worker.Close)
	t.Cleanup(d.client.CloseIdleConnections)
	d.handler = worker.URL
	return d
}

// account signs in to the storage.
func (d *fleetDrill) account() *queue.Account {
	d.t.Helper()
	acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(d.at)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(acct.Close)
	return acct
}

func watchedName(i int) string { return fmt.Sprintf("queue-%02d", i) }

// request notes polls.
func (d *fleetDrill) request(r queuetest.Request) {
	if r.Operation != "properties" || !strings.HasPrefix(r.Queue, "queue-") || strings.HasSuffix(r.Queue, "-poison") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if last, ok := d.polls[r.Queue]; ok {
		d.gap = max(d.gap, now.Sub(last))
	}
	d.polls[r.Queue] = now
}

// start starts a replica at addresses, with settings of watch.
func (d *fleetDrill) start(watch string, addrs []string, env ...string) *replica {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "qwatch.yaml")
	text := fmt.Sprintf(`accounts:
  - name: acct
    connectionString: ${STORAGE}
    discovery: {interval: 10s}
    queues:
      - name: orders
        consumer: {handler: {http: {url: %q}}, concurrency: 4, emptyBackoff: {min: 100ms, max: 500ms}}
watch: {interval: 1s, idleInterval: 1s, poisonIdleInterval: 1s, requestsPerSecond: 1000, %s}
server: {listen: %q, probes: %q, grpc: %q}
`, d.handler, watch, addrs[0], addrs[1], addrs[2])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	r := &replica{main: "http://" + addrs[0], probe: "http://" + addrs[1]}
	r.Process = peer.Start(d.t, "qwatch at "+addrs[0], command(append(env, "STORAGE="+d.at), "run", "-c", file))
	d.mu.Lock()
	d.replicas = append(d.replicas, r)
	d.mu.Unlock()
	return r
}

// up waits until a replica answers.
func (d *fleetDrill) up(replicas ...*replica) {
	d.t.Helper()
	for _, r := range replicas {
		eventually(d.t, time.Minute, r.probe+" is live", func() bool {
			status, _, err := get(d.t.Context(), r.probe+"/livez")
			return err == nil && status == http.StatusOK
		})
	}
}

// rest takes a replica out of what is asked, or puts it back.
func (d *fleetDrill) rest(r *replica, sits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.sits = sits
}

func (d *fleetDrill) living() []*replica {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*replica
	for _, r := range d.replicas {
		if !r.sits {
			all = append(all, r)
		}
	}
	return all
}

var ownedSeries = regexp.MustCompile(`(?m)^queue_poll_interval_seconds\{account="acct",queue_kind="main",queue_name="(queue-\d\d)"\}`)

// owners returns which queues each living replica has series of.
func (d *fleetDrill) owners() map[*replica][]string {
	all := map[*replica][]string{}
	for _, r := range d.living() {
		_, text, err := get(d.t.Context(), r.main+"/metrics")
		if err != nil {
			continue
		}
		all[r] = nil
		for _, m := range ownedSeries.FindAllStringSubmatch(string(text), -1) {
			all[r] = append(all[r], m[1])
		}
	}
	return all
}

// look notes which queues have two owners.
func (d *fleetDrill) look() (shares []int, once bool) {
	owners, now := d.owners(), time.Now()
	n := map[string]int{}
	for _, queues := range owners {
		shares = append(shares, len(queues))
		for _, q := range queues {
			n[q]++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	once = len(n) == fleetSize
	for i := range fleetSize {
		q := watchedName(i)
		if n[q] != 1 {
			once = false
		}
		since, was := d.twice[q]
		switch {
		case n[q] < 2:
			delete(d.twice, q)
		case !was:
			d.twice[q] = now
		default:
			d.double = max(d.double, now.Sub(since))
		}
	}
	return shares, once
}

// shared waits until every queue has one owner.
func (d *fleetDrill) shared(what string, within time.Duration) time.Duration {
	d.t.Helper()
	start := time.Now()
	var shares []int
	for {
		var once bool
		if shares, once = d.look(); once {
			break
		}
		if time.Since(start) > within {
			d.t.Fatalf("%s: not every queue has one owner after %v: %v", what, within, shares)
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(start)
	d.t.Logf("%s: every queue has one owner after %v: %v", what, took.Round(10*time.Millisecond), shares)
	return took
}

// question asks a living replica about a queue, whoever owns it.
func (d *fleetDrill) question() {
	all := d.living()
	if len(all) == 0 {
		return
	}
	r, q := all[rand.IntN(len(all))], watchedName(rand.IntN(fleetSize))
	start := time.Now()
	resp, err := d.client.Get(r.main + "/api/v1/queues/acct/" + q)
	var body []byte
	if err == nil {
		body, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	took, now := time.Since(start), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.sits {
		return // it went while it was asked
	}
	d.asked++
	d.slow = max(d.slow, took)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		var said struct{ Queue string }
		if json.Unmarshal(body, &said) != nil || said.Queue != q {
			d.wrong = append(d.wrong, fmt.Sprintf("asked about %s: %.100s", q, body))
		}
		delete(d.denied, q)
		return
	case err == nil && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusNotFound: // 404: not listed yet
		d.wrong = append(d.wrong, fmt.Sprintf("asked about %s: %d %.100s", q, resp.StatusCode, body))
	}
	if since, ok := d.denied[q]; ok {
		d.dark = max(d.dark, now.Sub(since))
	} else {
		d.denied[q] = now
	}
}

// load has messages flow and questions asked until the returned function is called, which returns how many messages were sent.
func (d *fleetDrill) load(orders *queue.Queue) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	sent := 0
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := orders.SendText(context.WithoutCancel(ctx), fmt.Sprint("message ", sent), queue.SendOptions{}); err == nil {
				sent++
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			d.question()
			time.Sleep(20 * time.Millisecond)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			d.look()
			time.Sleep(200 * time.Millisecond)
		}
	})
	return func() int { cancel(); all.Wait(); return sent }
}

// begin creates the queues.
func (d *fleetDrill) begin() (orders *queue.Queue) {
	d.t.Helper()
	acct := d.account()
	for i := range fleetSize {
		createQueue(d.t, acct, watchedName(i))
	}
	return createQueue(d.t, acct, "orders")
}

// forget starts what is measured anew.
func (d *fleetDrill) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gap, d.double, d.dark, d.slow, d.asked = 0, 0, 0, 0, 0
	clear(d.denied)
	now := time.Now()
	for q := range d.polls {
		d.polls[q] = now
	}
}

// check compares what was measured since forget with what is promised.
func (d *fleetDrill) check(what string, gap, double time.Duration) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, last := range d.polls {
		d.gap = max(d.gap, now.Sub(last))
	}
	ms := func(x time.Duration) time.Duration { return x.Round(time.Millisecond) }
	d.t.Logf("%s: longest without a poll %v, with two owners %v, without an answer %v; %d questions, the slowest %v",
		what, ms(d.gap), ms(d.double), ms(d.dark), d.asked, ms(d.slow))
	if d.gap > gap || d.double > double || d.dark > gap {
		d.t.Errorf("%s: at most %v without a poll and without an answer, and %v with two owners, were promised", what, gap, double)
	}
	for _, w := range d.wrong {
		d.t.Errorf("%s: %s", what, w)
	}
	d.wrong = nil
}

// finish checks that no message was lost.
func (d *fleetDrill) finish(sent int) {
	d.t.Helper()
	eventually(d.t, 90*time.Second, "every message is handled", func() bool {
		n := 0
		d.handled.Range(func(any, any) bool { n++; return true })
		return n == sent
	})
	d.t.Logf("%d messages were sent, and handled", sent)
}

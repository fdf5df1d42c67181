package test_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue/queuetest"
	"github.com/qwatch/qwatch/test/peer"
)

// slack is what a loaded machine adds to what is promised.
const slack = 10 * time.Second

// C8: three shards, one is killed and comes back, a fourth comes and goes, all under load.
func TestShardsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const takeover = 3 * time.Second
	d := newFleetDrill(t)
	orders := d.begin()
	addrs := peer.FreeAddresses(t, 12)
	shardSettings := func(index, count int) string {
		var urls []string
		for i := range count {
			urls = append(urls, fmt.Sprintf("%q", "http://"+addrs[3*i]))
		}
		return fmt.Sprintf("mode: shard, shard: {index: %q, count: %d, peers: [%s], takeover: %s}", fmt.Sprint(index), count, strings.Join(urls, ", "), takeover)
	}
	shard := func(index, count int) *replica { return d.start(shardSettings(index, count), addrs[3*index:3*index+3]) }
	a, b, c := shard(0, 3), shard(1, 3), shard(2, 3)
	d.up(a, b, c)
	stop := d.load(orders)
	d.shared("three shards", time.Minute)
	time.Sleep(3 * time.Second) // every queue is polled

	d.forget()
	time.Sleep(5 * time.Second)
	d.check("three shards", slack, 0)

	d.forget()
	d.rest(b, true)
	b.Kill()
	d.shared("one killed", takeover+slack)
	time.Sleep(2 * time.Second)
	d.check("one killed", takeover+slack, slack)

	d.forget()
	b = shard(1, 3)
	d.up(b)
	time.Sleep(time.Second)
	d.shared("it came back", slack)
	d.check("it came back", slack, slack)

	d.forget()
	e := shard(3, 4) // it alone knows of four
	d.up(e)
	time.Sleep(time.Second)
	// Those with a list of three cannot know where the fourth is: it shares its part with them until they are told.
	for i, r := range []*replica{a, b, c} {
		r.Signal(t, syscall.SIGTERM)
		d.rest(r, true)
		r.Wait(t, time.Minute)
		n := shard(i, 4)
		d.up(n)
	}
	time.Sleep(time.Second)
	d.shared("a fourth came", slack+takeover)
	d.check("a fourth came, one restart after the other", slack, time.Minute)

	d.forget()
	d.rest(e, true)
	e.Signal(t, syscall.SIGTERM)
	d.shared("it went", slack)
	e.Wait(t, time.Minute)
	d.check("it went", slack, slack)

	for _, r := range d.living() {
		status, text, err := get(t.Context(), r.main+"/api/v1/queues")
		if n := strings.Count(string(text), `"queue":"queue-`); err != nil || status != 200 || n != fleetSize || strings.Contains(string(text), "unanswered") {
			t.Errorf("%s lists %d queues: %d %v", r.main, n, status, err)
		}
	}
	d.finish(stop())
}

// C8: three replicas elect a leader, which is killed, stopped for a while and ended, all under load.
func leaderChanges(t *testing.T, kubeconfig string, freeze bool) {
	const lease = 4 * time.Second
	d := newFleetDrill(t)
	orders := d.begin()
	addrs := peer.FreeAddresses(t, 12)
	settings := fmt.Sprintf("mode: leader, leader: {namespace: default, lease: drill, kubeconfig: %q, leaseDuration: %s}, canary: {account: acct, interval: 5s}", kubeconfig, lease)
	start := func(i int) *replica { return d.start(settings, addrs[3*i:3*i+3]) }
	all := []*replica{start(0), start(1), start(2)}
	d.up(all...)
	stop := d.load(orders)
	d.shared("three replicas", time.Minute)
	time.Sleep(3 * time.Second)
	leader := func() *replica {
		for r, queues := range d.owners() {
			if len(queues) == fleetSize {
				return r
			}
		}
		t.Fatal("nobody leads")
		return nil
	}

	d.forget()
	time.Sleep(5 * time.Second)
	d.check("three replicas", slack, 0)

	d.forget()
	old := leader()
	d.rest(old, true)
	old.Kill()
	d.shared("the leader was killed", 2*lease+slack)
	time.Sleep(2 * time.Second)
	d.check("the leader was killed", 2*lease+slack, 0)

	d.forget()
	all = append(all, start(3))
	d.up(all[3])
	old = leader()
	d.rest(old, true)
	old.Signal(t, syscall.SIGTERM)
	d.shared("the leader ended", lease+slack)
	old.Wait(t, time.Minute)
	time.Sleep(2 * time.Second)
	d.check("the leader ended", lease+slack, lease)

	if freeze {
		d.forget()
		old = leader()
		d.rest(old, true)
		old.Signal(t, syscall.SIGSTOP)
		d.shared("the leader was stopped", 2*lease+slack)
		old.Signal(t, syscall.SIGCONT)
		time.Sleep(2 * time.Second)
		d.rest(old, false)
		d.shared("it goes on", slack)
		d.check("the leader was stopped for a while", 2*lease+slack, slack)
	}

	flew, leads := 0, 0
	for _, r := range d.living() {
		text := string(mustGet(t, r.main+"/metrics"))
		if regexp.MustCompile(`(?m)^qwatch_leader 1$`).MatchString(text) {
			leads++
		}
		eventually(t, 30*time.Second, "the canary has flown where it should", func() bool {
			text := string(mustGet(t, r.main+"/metrics"))
			return strings.Contains(text, "\nqwatch_canary_round_trip_seconds ") == strings.Contains(text, "\nqwatch_leader 1\n")
		})
		if strings.Contains(text, "\nqwatch_canary_round_trip_seconds ") {
			flew++
		}
		status, list, err := get(t.Context(), r.main+"/api/v1/queues")
		if n := strings.Count(string(list), `"queue":"queue-`); err != nil || status != 200 || n != fleetSize {
			t.Errorf("%s lists %d queues: %d %v", r.main, n, status, err)
		}
	}
	if leads != 1 {
		t.Errorf("%d replicas say that they lead", leads)
	}
	if n := d.storage.Len(queuetest.AccountName, "qwatch-canary"); n > 3 {
		t.Errorf("%d messages lie in the canary's queue", n)
	}
	d.finish(stop())
	for _, r := range d.living() {
		if strings.Contains(r.Stderr(), "ERROR") {
			t.Errorf("%s logged an error", r.main)
		}
	}
}

func TestLeaderChangesUnderLoad(t *testing.T) {
	t.Parallel()
	leaderChanges(t, leaseServer(t), true)
}

// leaseServer serves Leases as the API server of Kubernetes does, so far as an election can tell: what is written with an old
// resource version is refused. It returns a kubeconfig. The drills run the same election on the real one.
func leaseServer(t *testing.T) string {
	t.Helper()
	var mu sync.Mutex
	objects, version := map[string]map[string]any{}, 0
	refuse := func(w http.ResponseWriter, code int, reason string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason})
	}
	const base = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	meta := func(o map[string]any) map[string]any { m, _ := o["metadata"].(map[string]any); return m }
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // without TLS, client-go keeps the token to itself
		mu.Lock()
		defer mu.Unlock()
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, base), "/")
		var o map[string]any
		if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&o) != nil {
			refuse(w, http.StatusBadRequest, "BadRequest")
			return
		}
		if r.Method == http.MethodPost {
			name, _ = meta(o)["name"].(string)
		}
		old, there := objects[name]
		switch {
		case r.Header.Get("Authorization") != "Bearer drill":
			refuse(w, http.StatusUnauthorized, "Unauthorized")
			return
		case !strings.HasPrefix(r.URL.Path, base):
			refuse(w, http.StatusNotFound, "NotFound")
			return
		case r.Method == http.MethodPost && there:
			refuse(w, http.StatusConflict, "AlreadyExists")
			return
		case r.Method != http.MethodPost && !there:
			refuse(w, http.StatusNotFound, "NotFound")
			return
		case r.Method == http.MethodGet:
			o = old
		case r.Method == http.MethodPut && meta(o)["resourceVersion"] != meta(old)["resourceVersion"]:
			refuse(w, http.StatusConflict, "Conflict")
			return
		default:
			version++
			meta(o)["resourceVersion"] = fmt.Sprint(version)
			o["kind"], o["apiVersion"] = "Lease", "coordination.k8s.io/v1"
			objects[name] = o
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: drill
contexts: [{name: drill, context: {cluster: drill, user: drill, namespace: default}}]
clusters: [{name: drill, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: drill, user: {token: drill}}]
`, server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

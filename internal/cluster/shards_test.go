package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/cluster"
)

// shard is one replica of a shared fleet.
type shard struct {
	*cluster.Shards

	index   int
	logs    texts
	changes atomic.Int64
	stop    context.CancelFunc
	done    chan struct{}
	net     *network
}

func host(i int) string { return fmt.Sprintf("qwatch-%d:9780", i) }

// runShard has a replica take part until it is stopped.
func runShard(t *testing.T, n *network, index, count int) *shard {
	t.Helper()
	return runShardAt(t, n, index, count, host)
}

// runShardAt runs a shard that looks for the others at those hosts.
func runShardAt(t *testing.T, n *network, index, count int, hostOf func(int) string) *shard {
	t.Helper()
	s := &shard{index: index, done: make(chan struct{}), net: n}
	var err error
	s.Shards, err = cluster.NewShards(cluster.ShardsConfig{
		Index: index, Count: count, Addr: func(i int) string { return "http://" + hostOf(i) },
		Changed: func() { s.changes.Add(1) }, Peers: cluster.PeersConfig{Transport: n}, Logger: s.logs.logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.set(host(index), s.Shards)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		defer close(s.done)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return s
}

// end stops the replica as SIGTERM does: its listener closes last.
func (s *shard) end() {
	s.stop()
	<-s.done
	s.net.set(host(s.index), nil)
}

// kill takes the replica away as SIGKILL does.
func (s *shard) kill() {
	s.net.set(host(s.index), nil)
	s.stop() // what it believes matters to nobody
	<-s.done
}

func queues() []string {
	var all []string
	for i := range 600 {
		all = append(all, "queue-"+strconv.Itoa(i))
	}
	return all
}

// coverage returns how many queues nobody owns, and how many several do.
func coverage(all ...*shard) (nobody, several int) {
	for _, q := range queues() {
		n := 0
		for _, s := range all {
			if s.Owns("acct", q) {
				n++
			}
		}
		switch {
		case n == 0:
			nobody++
		case n > 1:
			several++
		}
	}
	return nobody, several
}

// gaps looks every 500 ms for a while, and returns for how long some queue had nobody, and for how long one had several.
func gaps(d time.Duration, all ...*shard) (nobody, several time.Duration) {
	const step = 500 * time.Millisecond
	for range d / step {
		time.Sleep(step)
		n, m := coverage(all...)
		if n > 0 {
			nobody += step
		}
		if m > 0 {
			several += step
		}
	}
	return nobody, several
}

func TestShardsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := runShard(t, n, 0, 3)
		time.Sleep(3 * time.Second)
		b, c := runShard(t, n, 1, 3), runShard(t, n, 2, 3)
		if _, several := gaps(3*time.Second, a, b, c); several > 0 { // none took what the others are about to take
			t.Errorf("in the beginning, queues with several for %v", several)
		}
		if nobody, several := gaps(5*time.Minute, a, b, c); nobody+several > 0 {
			t.Errorf("queues without anybody for %v, with several for %v", nobody, several)
		}
		for _, s := range []*shard{a, b, c} {
			own := 0
			for _, q := range queues() {
				if s.Owns("acct", q) {
					own++
				}
				if addr, self := s.Owner("acct", q); self != s.Owns("acct", q) || !self && addr == "" {
					t.Errorf("%s: the owner is %q, self %v", q, addr, self)
				}
				if s.Owns("acct", q) != s.Owns("acct", q+"-poison") {
					t.Errorf("%s and its poison queue are not together", q)
				}
			}
			if own < 150 || own > 250 {
				t.Errorf("shard %d has %d queues of 600", s.index, own)
			}
			if len(s.Others()) != 2 {
				t.Errorf("the others of %d are %q", s.index, s.Others())
			}
		}
		a.end()
		b.end()
		c.end()
	})
}

func TestShardsChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change          func(t *testing.T, n *network, all []*shard) []*shard // returns who runs then
		nobody, several time.Duration                                         // at most
	}{
		"one is killed": {
			change: func(_ *testing.T, _ *network, all []*shard) []*shard {
				all[1].kill()
				return []*shard{all[0], all[2]}
			},
			nobody: 13 * time.Second, several: 3 * time.Second,
		},
		"one is killed and comes back": {
			change: func(t *testing.T, n *network, all []*shard) []*shard {
				all[1].kill()
				time.Sleep(time.Minute)
				return []*shard{all[0], runShard(t, n, 1, 3), all[2]}
			},
			several: 3 * time.Second,
		},
		"one ends": {
			change: func(_ *testing.T, _ *network, all []*shard) []*shard {
				all[1].end()
				return []*shard{all[0], all[2]}
			},
			nobody: 0, several: 0,
		},
		"one is stopped for a while, and neither answers nor asks": {
			change: func(_ *testing.T, n *network, all []*shard) []*shard {
				n.swallow(host(1), true)
				time.Sleep(time.Minute) // as the others see it; it goes on by itself here
				n.swallow(host(1), false)
				return all
			},
			several: 3 * time.Second,
		},
		"a fourth comes, and the others learn of it later": {
			change: func(t *testing.T, n *network, all []*shard) []*shard {
				return append(all, runShard(t, n, 3, 4))
			},
			nobody: 0, several: 3 * time.Second,
		},
		"the third goes for ever, one restart after the other": {
			change: func(t *testing.T, n *network, all []*shard) []*shard {
				all[2].end()
				all[1].end()
				b := runShard(t, n, 1, 2)
				time.Sleep(5 * time.Second)
				all[0].end()
				return []*shard{runShard(t, n, 0, 2), b}
			},
			nobody: 3 * time.Second, several: 3 * time.Second,
		},
		"the count is changed at run time": {
			change: func(t *testing.T, _ *network, all []*shard) []*shard {
				all[2].end()
				for _, s := range all[:2] {
					if err := s.SetCount(2); err != nil {
						t.Error(err)
					}
				}
				return all[:2]
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				all := []*shard{runShard(t, n, 0, 3), runShard(t, n, 1, 3), runShard(t, n, 2, 3)}
				time.Sleep(time.Minute)
				all = tt.change(t, n, all)
				nobody, several := gaps(2*time.Minute, all...)
				if nobody > tt.nobody || several > tt.several {
					t.Errorf("queues without anybody for %v (at most %v), with several for %v (at most %v)", nobody, tt.nobody, several, tt.several)
				}
				if nobody, several := coverage(all...); nobody+several > 0 {
					t.Errorf("in the end: %d queues without anybody, %d with several", nobody, several)
				}
				for _, s := range all {
					s.end()
				}
			})
		})
	}
}

// Changing the count moves few queues.
func TestAShardMovesOnlyItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var all []*shard
		for i := range 4 {
			all = append(all, runShard(t, n, i, 4))
		}
		time.Sleep(3 * time.Second)
		before := map[string]string{}
		for _, q := range queues() {
			before[q], _ = all[0].Owner("acct", q)
		}
		all[3].end()
		time.Sleep(5 * time.Second)
		moved, wronged := 0, 0
		for _, q := range queues() {
			if after, _ := all[0].Owner("acct", q); after != before[q] {
				moved++
				if before[q] != "http://"+host(3) {
					wronged++
				}
			}
		}
		if wronged > 0 || moved < 100 || moved > 200 {
			t.Errorf("%d queues of 600 moved, %d of them not the fourth shard's", moved, wronged)
		}
		for _, s := range all[:3] {
			s.end()
		}
	})
}

// Who cannot hear another polls its queues too: no queue is without anybody.
func TestAPartedNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, m := newNetwork(), newNetwork() // nobody of the one hears anybody of the other
		a, b := runShard(t, n, 0, 2), runShard(t, m, 1, 2)
		time.Sleep(time.Minute)
		if nobody, several := coverage(a, b); nobody != 0 || several != 600 {
			t.Errorf("%d queues without anybody, %d with both", nobody, several)
		}
		if !strings.Contains(a.logs.String(), "a shard is not heard of") {
			t.Errorf("nobody tells:\n%s", a.logs.String())
		}
		n.set(host(1), b.Shards)
		m.set(host(0), a.Shards)
		time.Sleep(5 * time.Second)
		if nobody, several := coverage(a, b); nobody+several > 0 {
			t.Errorf("together again: %d queues without anybody, %d with both", nobody, several)
		}
		a.end()
		b.end()
	})
}

// What is no living shard of that number is not believed.
func TestStrangersAreNotBelieved(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"another shard":    `{"mode":"shard","index":2,"count":3,"instance":"x"}`,
		"another mode":     `{"mode":"leader","index":1,"count":3,"instance":"x"}`,
		"not a shard":      `hello`,
		"an absurd count":  `{"mode":"shard","index":1,"count":1000000,"instance":"x"}`,
		"a negative count": `{"mode":"shard","index":1,"count":-1,"instance":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork()
				a := runShard(t, n, 0, 2)
				n.set(host(1), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
				time.Sleep(time.Minute)
				if nobody, _ := coverage(a); nobody > 0 {
					t.Errorf("%d queues are left to a stranger", nobody)
				}
				if st := a.State(); len(st) != 2 || st[1].Alive || st[1].Trouble == nil {
					t.Errorf("%+v", st)
				}
				a.end()
			})
		})
	}
}

// A replica whose peers' addresses all lead to itself says so.
func TestAReplicaKnowsItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := runShard(t, n, 0, 2)
		n.set(host(1), a.Shards)
		time.Sleep(time.Minute)
		if st := a.State(); st[1].Trouble == nil || !strings.Contains(st[1].Trouble.Error(), "answers itself") {
			t.Errorf("%+v", st)
		}
		a.end()
	})
}

func TestShardsConfig(t *testing.T) {
	t.Parallel()
	addr := func(int) string { return "" }
	for name, tt := range map[string]struct {
		cfg  cluster.ShardsConfig
		want string
	}{
		"no shard":             {cluster.ShardsConfig{Addr: addr}, "0 shards"},
		"too many":             {cluster.ShardsConfig{Addr: addr, Count: 257}, "257 shards"},
		"an index too high":    {cluster.ShardsConfig{Addr: addr, Count: 2, Index: 2}, "no shard 2 of 2"},
		"a negative index":     {cluster.ShardsConfig{Addr: addr, Count: 2, Index: -1}, "no shard -1"},
		"no addresses":         {cluster.ShardsConfig{Count: 1}, "addresses"},
		"a takeover too quick": {cluster.ShardsConfig{Addr: addr, Count: 1, Heartbeat: time.Second, DeadAfter: time.Second}, "heartbeats"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := cluster.NewShards(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
	s, err := cluster.NewShards(cluster.ShardsConfig{Addr: addr, Count: 2, Index: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetCount(1); err == nil {
		t.Error("shard 1 takes a count of 1")
	}
	if _, err := s.Forward(t.Context(), "acct", "orders", "/x"); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("before Run: %v", err)
	}
}

package cluster_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/qwatch/qwatch/internal/cluster"
)

func TestOneReplicaLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lease
		a, b, c := run(t, &l, "a", nil), run(t, &l, "b", nil), run(t, &l, "c", nil)
		time.Sleep(5 * time.Second)
		if got := leaders(a, b, c); len(got) != 1 || l.holder() != got[0] {
			t.Fatalf("%q lead, and the lease is %q's", got, l.holder())
		}
		if nobody, several := watched(10*time.Minute, a, b, c); nobody+several > 0 {
			t.Errorf("for %v nobody led, for %v several did", nobody, several)
		}
		for _, x := range []*candidate{a, b, c} {
			if st := x.State(); st.Leader != l.holder() || !st.Asked || st.Trouble != nil || (st.Addr == "") != false {
				t.Errorf("%s: %+v", x.id, st)
			}
			addr, self := x.Owner("acct", "orders")
			if want := x.id == l.holder(); self != want || !self && "http://"+strings.SplitN(l.holder(), "@", 2)[0]+":9780" != addr {
				t.Errorf("%s: the owner is %q, self %v", x.id, addr, self)
			}
		}
		a.end()
		b.end()
		c.end()
		if h := l.holder(); h != "" {
			t.Errorf("in the end the lease is %q's", h)
		}
	})
}

// A change of leaders: how long nobody polls, and that never two do.
func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	const lease15 = 15 * time.Second
	for name, tt := range map[string]struct {
		lose    func(l *lease, leader *candidate)
		nobody  time.Duration // at most
		several time.Duration // at most
		back    bool          // the old leader lives on
		ails    bool          // and knows that it has no API
	}{
		"a leader that ends gives the lease back": {
			lose:   func(_ *lease, leader *candidate) { leader.end() },
			nobody: 5 * time.Second,
		},
		"a leader that is killed is waited for": {
			lose: func(l *lease, leader *candidate) {
				l.set(func(l *lease) { l.fail = failing(leader.id) }) // it cannot give it back
				leader.end()
			},
			nobody: lease15 + 5*time.Second,
		},
		"a leader whose API refuses stops in time": {
			lose:   func(l *lease, leader *candidate) { l.set(func(l *lease) { l.fail = failing(leader.id) }) },
			nobody: lease15 + 5*time.Second, back: true, ails: true,
		},
		"a leader whose API hangs stops in time": {
			lose: func(l *lease, leader *candidate) {
				l.set(func(l *lease) { l.hang = func(id string) bool { return id == leader.id } })
			},
			nobody: lease15 + 5*time.Second, back: true, ails: true,
		},
		"a leader whose lease somebody else wrote stops": {
			lose: func(l *lease, leader *candidate) {
				l.set(func(l *lease) { l.record.HolderIdentity = "somebody@http://elsewhere:1"; l.version++ })
			},
			nobody: lease15 + 10*time.Second, back: true,
		},
		"a lease that is deleted is made anew": {
			lose:   func(l *lease, leader *candidate) { l.set(func(l *lease) { l.record = nil; l.version++ }) },
			nobody: 20 * time.Second, several: 5 * time.Second, back: true, // until the old leader looks
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var l lease
				all := []*candidate{run(t, &l, "a", nil), run(t, &l, "b", nil), run(t, &l, "c", nil)}
				time.Sleep(time.Minute)
				var old *candidate
				for _, c := range all {
					if c.Leads() {
						old = c
					}
				}
				tt.lose(&l, old)
				nobody, several := watched(2*time.Minute, all...)
				if several > tt.several {
					t.Errorf("for %v several led", several)
				}
				if nobody > tt.nobody {
					t.Errorf("for %v nobody led", nobody)
				}
				if got := leaders(all...); len(got) != 1 {
					t.Errorf("in the end %q lead", got)
				}
				if ails := old.State().Trouble != nil; tt.back && ails != tt.ails {
					t.Errorf("the old leader knows of trouble: %v, want %v", ails, tt.ails)
				}
				l.set(func(l *lease) { l.fail, l.hang = nil, nil })
				nobody, several = watched(time.Minute, all...)
				if nobody+several > 0 {
					t.Errorf("after the trouble: for %v nobody led, for %v several did", nobody, several)
				}
				if tt.back && old.State().Trouble != nil {
					t.Errorf("the trouble stays: %v", old.State().Trouble)
				}
				for _, c := range all {
					c.end()
				}
			})
		})
	}
}

func failing(identity string) func(string, string) error {
	return func(id, _ string) error {
		if id == identity {
			return errors.New("connection refused")
		}
		return nil
	}
}

// Polling has stopped when the lease is given back: Changed returns before the API is asked.
func TestTheLeaseIsGivenBackAfterPollingHasStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lease
		var polls atomic.Bool
		c := run(t, &l, "a", func(cfg *cluster.LeaderConfig, c *candidate) {
			cfg.Changed = func() {
				if c.Leads() {
					polls.Store(true)
					return
				}
				time.Sleep(time.Second) // it takes its time
				if l.holder() == "" {
					t.Error("the lease is free while this replica still polls")
				}
				polls.Store(false)
			}
		})
		time.Sleep(time.Minute)
		if !polls.Load() {
			t.Fatal("it does not lead")
		}
		c.end()
		if polls.Load() || l.holder() != "" {
			t.Errorf("in the end: polls %v, the lease is %q's", polls.Load(), l.holder())
		}
	})
}

// An API that hangs does not keep a leader polling: it is told to stop before anybody else may begin.
func TestPollingStopsWhileTheAPIHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lease
		var stopped atomic.Pointer[time.Time]
		c := run(t, &l, "a", func(cfg *cluster.LeaderConfig, c *candidate) {
			cfg.Changed = func() {
				if !c.Leads() {
					now := time.Now()
					stopped.CompareAndSwap(nil, &now)
				}
			}
		})
		time.Sleep(time.Minute)
		hung := time.Now()
		l.set(func(l *lease) { l.hang = func(string) bool { return true } })
		time.Sleep(14 * time.Second)
		if at := stopped.Load(); at == nil || at.Sub(hung) > 10*time.Second {
			t.Errorf("it was told to stop at %v, and the API hangs since %v", at, hung)
		}
		c.end()
	})
}

// Without an API there is one line, nobody leads, and it is tried again for as long as it takes.
func TestWithoutAnAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := lease{fail: func(string, string) error { return errors.New("dial tcp 10.0.0.1:443: connection refused") }}
		c := run(t, &l, "a", nil)
		time.Sleep(time.Hour)
		st := c.State()
		if st.Leading || st.Asked || st.Trouble == nil || !strings.Contains(st.Trouble.Error(), "connection refused") {
			t.Errorf("without an API: %+v", st)
		}
		if n := strings.Count(c.logs.String(), "connection refused"); n != 1 {
			t.Errorf("%d lines tell of it:\n%s", n, c.logs.String())
		}
		if addr, self := c.Owner("acct", "orders"); addr != "" || self {
			t.Errorf("the owner is %q, self %v", addr, self)
		}
		l.set(func(l *lease) { l.fail = nil })
		time.Sleep(10 * time.Second)
		if st := c.State(); !st.Leading || st.Trouble != nil {
			t.Errorf("with an API again: %+v", st)
		}
		c.end()
	})
}

// A replica that may read the lease and not write it says so once.
func TestWithoutThePermissionToWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := lease{fail: func(_, deed string) error {
			if deed != "get" {
				return errors.New("leases is forbidden")
			}
			return nil
		}}
		c := run(t, &l, "a", nil)
		time.Sleep(10 * time.Minute)
		if st := c.State(); st.Leading || st.Trouble == nil || !strings.Contains(st.Trouble.Error(), "forbidden") {
			t.Errorf("%+v", st)
		}
		if n := strings.Count(c.logs.String(), "forbidden"); n != 1 {
			t.Errorf("%d lines tell of it:\n%s", n, c.logs.String())
		}
		c.end()
	})
}

// A follower asks the leader it knows, even when it cannot ask the API any more.
func TestForwardToTheLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lease
		n := newNetwork()
		peers := func(cfg *cluster.LeaderConfig, _ *candidate) { cfg.Peers.Transport = n }
		a := run(t, &l, "a", peers)
		time.Sleep(5 * time.Second)
		b := run(t, &l, "b", peers)
		time.Sleep(5 * time.Second)
		var seen http.Header
		n.set("a:9780", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("a says " + r.URL.RequestURI()))
		}))
		l.set(func(l *lease) { l.fail = failing(b.id) })
		time.Sleep(5 * time.Second)
		got, err := b.Forward(t.Context(), "acct", "orders", "/x?y=1")
		if err != nil || got.Status != http.StatusNotFound || string(got.Body) != "a says /x?y=1" || got.ContentType != "text/plain" || got.From != "http://a:9780" {
			t.Fatalf("%+v, %v", got, err)
		}
		if seen.Get(cluster.HopHeader) == "" {
			t.Error("the question does not say that it comes from another replica")
		}
		n.swallow("a:9780", true)
		start := time.Now()
		_, err = b.Forward(t.Context(), "acct", "orders", "/x")
		if took := time.Since(start); !errors.Is(err, cluster.ErrUnavailable) || took > 500*time.Millisecond {
			t.Errorf("a leader that hangs: %v after %v", err, took)
		}
		for _, c := range []*candidate{a, b} {
			l.set(func(l *lease) { l.fail = nil })
			c.end()
		}
	})
}

func TestLeaderConfig(t *testing.T) {
	t.Parallel()
	lock := func(string) resourcelock.Interface { return nil }
	for name, tt := range map[string]struct {
		cfg  cluster.LeaderConfig
		want string
	}{
		"no lock":                    {cluster.LeaderConfig{}, "no lock"},
		"a lease that is too short":  {cluster.LeaderConfig{Lock: lock, LeaseDuration: time.Millisecond}, "shorter than a second"},
		"a deadline after the lease": {cluster.LeaderConfig{Lock: lock, RenewDeadline: time.Minute}, "not shorter than the lease"},
		"too few retries":            {cluster.LeaderConfig{Lock: lock, RetryPeriod: 9 * time.Second}, "does not fit twice"},
		"authorities that are not there": {
			cluster.LeaderConfig{Lock: lock, Peers: cluster.PeersConfig{CAFile: "/nowhere/ca.pem"}}, "authorities",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := cluster.NewLeader(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for holder, want := range map[string]string{
			"qwatch-0@http://10.1.2.3:9780":       "http://10.1.2.3:9780",
			"qwatch-0@https://[fd00::1]:9780":     "https://[fd00::1]:9780",
			"qwatch-0":                            "",
			"qwatch-0@ftp://x":                    "",
			"qwatch-0@http://":                    "",
			"qwatch-0@http://u:p@10.1.2.3":        "",
			"qwatch-0@http://10.1.2.3/path":       "",
			"qwatch-0@http://10.1.2.3:1?x=y":      "",
			"qwatch-0@http://10.1.2.3:1#f":        "",
			"qwatch-0@http://10.1.2.3:1\r\nX: y":  "",
			"qwatch-0@file:///etc/passwd":         "",
			strings.Repeat("x", 1<<16) + "@http:": "",
		} {
			l := lease{record: &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3600}}
			c := run(t, &l, "a", nil)
			time.Sleep(5 * time.Second)
			if addr, self := c.Owner("acct", "orders"); addr != want || self {
				t.Errorf("%.80q: %q, self %v; want %q", holder, addr, self, want)
			}
			if want == "" {
				if _, err := c.Forward(t.Context(), "acct", "orders", "/x"); !errors.Is(err, cluster.ErrUnavailable) {
					t.Errorf("%.80q: asked nevertheless: %v", holder, err)
				}
			}
			c.end()
		}
	})
}

package collector_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// createAll creates queues by name.
func createAll(t testing.TB, a *queue.Account, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := open(t, a, n, queue.Config{NoPoison: true}).Create(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t testing.TB, a *queue.Account, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := open(t, a, n, queue.Config{NoPoison: true}).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// watchedQueues lists what is watched as "name kind", with the own name when that is not the usual one.
func watchedQueues(c *collector.Collector) []string {
	var out []string
	for _, q := range c.Snapshot().Queues {
		s := q.Queue + " " + q.Kind.String()
		if usual := map[collector.Kind]string{collector.KindMain: q.Queue, collector.KindPoison: q.Queue + "-poison"}[q.Kind]; q.PhysicalName != usual {
			s += " " + q.PhysicalName
		}
		out = append(out, s)
	}
	return out
}

// C2: what the globs, the names and the configured queues make of a listing.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	shared := func(a *queue.Account) func(string) (collector.Target, error) {
		return func(name string) (collector.Target, error) {
			cfg := queue.Config{PoisonQueue: "dead"}
			if name == "dead" {
				cfg = queue.Config{NoPoison: true}
			}
			q, err := a.Queue(name, cfg)
			return collector.Target{Queue: q}, err
		}
	}
	for name, tt := range map[string]struct {
		names   []string
		d       collector.Discovery
		factory func(*queue.Account) func(string) (collector.Target, error)
		targets func(*testing.T, *queue.Account) []collector.Target
		want    []string
	}{
		"an empty account": {},
		"a queue with its poison queue, and one without": {
			names: []string{"orders", "orders-poison", "audit"},
			want:  []string{"audit main", "audit poison", "orders main", "orders poison"},
		},
		"globs are held against the main queue": {
			names: []string{"orders", "orders-poison", "audit", "audit-poison", "audit-tmp", "audit-tmp-poison"},
			d:     collector.Discovery{Include: []string{"aud*", "x?y"}, Exclude: []string{"*-tmp"}},
			want:  []string{"audit main", "audit poison"},
		},
		"poison queues alone, when that is what the globs name": {
			names: []string{"orders", "orders-poison", "audit", "audit-poison"},
			d:     collector.Discovery{Include: []string{"*-poison", "audit"}},
			want:  []string{"audit main", "audit poison", "orders poison"},
		},
		"a poison queue without its main queue": {
			names: []string{"gone-poison", "gone-tmp-poison"},
			d:     collector.Discovery{Exclude: []string{"*-tmp"}},
			want:  []string{"gone poison"},
		},
		"what only looks like a poison queue": {
			names: []string{"a-poison", "poison", "the-poisoned"},
			want:  []string{"a-poison main", "poison main", "poison poison", "the-poisoned main", "the-poisoned poison"},
		},
		"control queues are left out": {
			names: []string{
				"hub-control-00", "hub-control-03", "hub-workitems", "azure-webjobs-host-12ab", "azure-webjobs-blobtrigger-x",
				"webjobs-blobtrigger-poison", "traffic-control-1", "access-control-list", "control-00",
			},
			d: collector.Discovery{Include: []string{"*", "h*", "hub-*"}},
			want: []string{
				"access-control-list main", "access-control-list poison", "control-00 main", "control-00 poison",
				"traffic-control-1 main", "traffic-control-1 poison", "webjobs-blobtrigger poison",
			},
		},
		"control queues are asked for": {
			names: []string{"hub-control-00", "hub-workitems", "azure-webjobs-host-12ab", "azure-webjobs-blobtrigger-x", "orders"},
			d:     collector.Discovery{Include: []string{"*-control-??", "azure-webjobs-host-*", "hub-workitems"}},
			want: []string{
				"azure-webjobs-host-12ab main", "azure-webjobs-host-12ab poison",
				"hub-control-00 main", "hub-control-00 poison", "hub-workitems main", "hub-workitems poison",
			},
		},
		"configured queues win": {
			names: []string{"orders", "orders-poison", "bad-orders", "audit"},
			targets: func(t *testing.T, a *queue.Account) []collector.Target {
				return []collector.Target{{Queue: open(t, a, "orders", queue.Config{PoisonQueue: "bad-orders"}), Team: "payments"}}
			},
			// The queue called orders-poison is not that of orders, by the configuration.
			want: []string{"audit main", "audit poison", "orders main", "orders poison bad-orders", "orders-poison main"},
		},
		"a poison queue that all share": {
			names:   []string{"orders", "audit", "dead", "orders-poison"},
			factory: shared,
			want:    []string{"audit main", "dead poison dead", "orders main", "orders-poison main"},
		},
		"a poison queue that all share, and that is not there yet": {
			names:   []string{"orders", "audit"},
			factory: shared,
			want:    []string{"audit main", "dead poison dead", "orders main"},
		},
		"the poison queue of one by its settings": {
			names:   []string{"orders", "dead"},
			factory: shared,
			want:    []string{"orders main", "orders poison dead"},
		},
		"a name too long for a poison queue": {
			names: []string{strings.Repeat("x", 60)},
			want:  []string{strings.Repeat("x", 60) + " main"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				createAll(t, s.acct, tt.names...)
				tt.d.Account = s.acct
				if tt.factory != nil {
					tt.d.Target = tt.factory(s.acct)
				}
				cfg := collector.Config{Discovery: []collector.Discovery{tt.d}}
				if tt.targets != nil {
					cfg.Targets = tt.targets(t, s.acct)
				}
				c := run(t, cfg)
				time.Sleep(time.Second)
				if diff := cmp.Diff(tt.want, watchedQueues(c)); diff != "" {
					t.Errorf("watched (-want +got):\n%s", diff)
				}
				for _, q := range c.Snapshot().Queues {
					if q.Up != collector.Yes {
						t.Errorf("%s %v: up %v, %s", q.PhysicalName, q.Kind, q.Up, q.Error)
					}
				}
			})
		})
	}
}

// B78: any number of pages.
func TestDiscoveryReadsEveryPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{NoAuth: true})
		for i := range 6000 {
			createAll(t, s.acct, fmt.Sprintf("q-%05d", i), fmt.Sprintf("q-%05d-poison", i))
		}
		s.ResetCounts()
		c := run(t, collector.Config{
			Interval: time.Hour, RequestsPerSecond: -1,
			Discovery: []collector.Discovery{{Account: s.acct, Exclude: []string{"q-*7"}, MaxQueues: 10_000}},
		})
		time.Sleep(time.Second)
		if n := len(c.Snapshot().Queues); n != 2*5400 {
			t.Errorf("%d queues are watched, want 10800", n)
		}
		if n := s.Requests(queuetest.Op{Operation: queuetest.OpList}); n != 3 {
			t.Errorf("%d listing requests for 12000 queues, want 3", n)
		}
		expect(t, "discovery", samples(t, c), map[string]float64{
			`qwatch_discovery_queues{account="acct"}`:         5400,
			`qwatch_discovery_queues_dropped{account="acct"}`: 0,
		})
	})
}

// B56: queues come and go within one cycle; what goes takes its series with it.
func TestDiscoveryFollowsTheAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		createAll(t, s.acct, "first", "second", "second-poison")
		c := run(t, collector.Config{Discovery: []collector.Discovery{{Account: s.acct, Interval: 5 * time.Minute}}})
		time.Sleep(30 * time.Minute)
		had := about(t, c, "first", "main")[polls]
		createAll(t, s.acct, "third")
		remove(t, s.acct, "second")
		time.Sleep(90 * time.Second)
		if got := c.Queue("acct", "second"); len(got) > 0 && got[0].Status != collector.StatusMissing {
			t.Errorf("a queue that was deleted is %v before the next listing", got[0].Status)
		}
		time.Sleep(5 * time.Minute)
		// What lies in the poison queue is watched on.
		want := []string{"first main", "first poison", "second poison", "third main", "third poison"}
		if diff := cmp.Diff(want, watchedQueues(c)); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
		remove(t, s.acct, "second-poison")
		time.Sleep(5*time.Minute + time.Second)
		for name := range samples(t, c) {
			if strings.Contains(name, `"second"`) {
				t.Errorf("%s is still there", name)
			}
		}
		if n := about(t, c, "first", "main")[polls]; n < had+5 {
			t.Errorf("a queue that stays had %v polls and has %v", had, n)
		}
	})
}

// A cap leaves queues out and says how many; those that were watched stay.
func TestDiscoveryCap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		createAll(t, s.acct, "m1-queue", "m2-queue", "m3-queue", "m3-queue-poison")
		given := targets(create(t, s.acct, "orders"))
		c := run(t, collector.Config{Targets: given, Discovery: []collector.Discovery{{Account: s.acct, Interval: time.Minute, MaxQueues: 3}}})
		time.Sleep(time.Second)
		check := func(when string, dropped int, want ...string) {
			t.Helper()
			var mains []string
			for _, q := range watchedQueues(c) {
				if name, ok := strings.CutSuffix(q, " main"); ok {
					mains = append(mains, name)
				}
			}
			if diff := cmp.Diff(want, mains); diff != "" {
				t.Errorf("%s: watched (-want +got):\n%s", when, diff)
			}
			expect(t, when, samples(t, c), map[string]float64{
				`qwatch_discovery_queues{account="acct"}`:         float64(len(want) - 1),
				`qwatch_discovery_queues_dropped{account="acct"}`: float64(dropped),
			})
			if d := c.Snapshot().Accounts[0].Discovery; d == nil || d.Queues != len(want)-1 || d.Dropped != dropped {
				t.Errorf("%s: the snapshot says %+v", when, d)
			}
		}
		check("at first", 1, "m1-queue", "m2-queue", "orders")
		createAll(t, s.acct, "a1-queue", "a2-queue")
		time.Sleep(time.Minute)
		check("with names that sort before", 3, "m1-queue", "m2-queue", "orders")
		remove(t, s.acct, "m1-queue")
		time.Sleep(time.Minute)
		check("with room for one", 2, "a1-queue", "m2-queue", "orders")
	})
}

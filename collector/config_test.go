package collector_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// TestSetConfig: everything takes effect at once, and what was seen and counted stays.
func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		var queues []*queue.Queue
		for i := range 30 {
			queues = append(queues, create(t, s.acct, fmt.Sprintf("q-%02d", i)))
		}
		send(t, queues[0], 3, queue.SendOptions{})
		var beats atomic.Int64
		c := run(t, collector.Config{Targets: targets(queues...), Beat: func() { beats.Add(1) }})
		time.Sleep(8 * time.Minute)
		had := about(t, c, "q-00", "main")
		perMinute := func() int {
			s.ResetCounts()
			time.Sleep(time.Minute)
			return s.Requests(queuetest.Op{})
		}
		set := func(cfg collector.Config) {
			t.Helper()
			cfg.Targets = targets(queues...)
			if err := c.SetConfig(cfg); err != nil {
				t.Fatal(err)
			}
		}
		expect(t, "before", had, map[string]float64{interval: 60, up: 1})

		set(collector.Config{Interval: 10 * time.Second, IdleInterval: -1})
		expect(t, "a shorter interval", about(t, c, "q-00", "main"), map[string]float64{interval: 10, polls: had[polls], messages: 3})
		s.ResetCounts()
		time.Sleep(time.Second)
		if n := s.Requests(queuetest.Op{}); n > 40 {
			t.Errorf("%d of 120 requests in the first of ten seconds: the queues march in step", n)
		}
		time.Sleep(9*time.Second + time.Millisecond)
		if n := about(t, c, "q-00", "main")[polls]; n <= had[polls] {
			t.Errorf("a shorter interval does not hold at once: %v polls after %v", n, had[polls])
		}
		if n := perMinute(); n < 350 {
			t.Errorf("%d requests a minute for 60 queues every 10s", n)
		}

		set(collector.Config{Interval: 10 * time.Second, IdleInterval: -1, RequestsPerSecond: 1})
		time.Sleep(time.Minute)
		if n := perMinute(); n > 62 {
			t.Errorf("%d requests a minute where 60 are allowed", n)
		}
		if w := c.Warnings(); len(w) != 1 || !strings.Contains(w[0], "the limit is 1") {
			t.Errorf("warnings: %q", w)
		}
		set(collector.Config{Interval: 10 * time.Second, IdleInterval: -1, RequestsPerSecond: -1})
		if n := perMinute(); n < 350 {
			t.Errorf("%d requests a minute without a limit", n)
		}

		set(collector.Config{Compact: true})
		if got := about(t, c, "q-00", "main"); len(got) >= len(had) || got[up] != 1 {
			t.Errorf("the compact set has %d samples of a queue, the full one %d", len(got), len(had))
		}
		set(collector.Config{})
		if got := about(t, c, "q-00", "main"); got[polls] < had[polls]+6 {
			t.Errorf("%v polls after %v: the count was lost", got[polls], had[polls])
		}

		// Patience is what statuses wait for.
		set(collector.Config{Patience: time.Minute})
		time.Sleep(3 * time.Minute)
		if q := c.Queue("acct", "q-00")[0]; q.Status != collector.StatusStalled || len(q.Evidence().Samples) < 5 {
			t.Errorf("with a minute's patience the status is %v, of %d samples", q.Status, len(q.Evidence().Samples))
		}

		before := beats.Load()
		time.Sleep(time.Minute)
		if beats.Load() == before {
			t.Error("nobody is told any more that the loops turn")
		}
	})
}

// TestSetConfigRefusesFaults: and nothing changes.
func TestSetConfigRefusesFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		owned := true
		c := run(t, collector.Config{Targets: targets(q), Owns: func(string, string) bool { return owned }})
		time.Sleep(5 * time.Minute)
		before := fmt.Sprint(samples(t, c))
		for name, cfg := range map[string]collector.Config{
			"of the configuration": {Interval: time.Millisecond, Targets: targets(q)},
			"of targets":           {Targets: targets(q, q), Interval: 7 * time.Second, Compact: true},
			"of discovery":         {Discovery: []collector.Discovery{{Account: s.acct, Interval: time.Millisecond}}},
		} {
			if err := c.SetConfig(cfg); err == nil {
				t.Errorf("%s: it is taken", name)
			}
			if after := fmt.Sprint(samples(t, c)); after != before {
				t.Errorf("%s: from\n%s\nto\n%s", name, before, after)
			}
		}
		// What it was made with to ask stays.
		owned = false
		if err := c.SetConfig(collector.Config{Targets: targets(q)}); err != nil {
			t.Fatal(err)
		}
		if got := samples(t, c); len(got) != 0 {
			t.Errorf("a queue that is not owned has %v", got)
		}
	})
}

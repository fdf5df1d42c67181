package scaler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A pod that has never answered blinds nobody to what the others say, however long it stays.
func TestAPeerThatNeverAnsweredHidesNothing(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"nothing listens": "refused", "it hangs": "hang", "it is busy": "503"} {
		synctest.Test(t, func(t *testing.T) {
			p := startPeered(t)
			p.state.Count.Messages, p.state.Peek.Visible = 20, 20
			p.town.set("10.0.0.1:9780", exposition(3, 4, 0, 100, 3000))
			p.town.set("10.0.0.2:9780", says)
			p.run(t)
			defer p.end()
			time.Sleep(5 * time.Second)
			for range 12 {
				time.Sleep(10 * time.Second)
				p.want(t, StrategyInflight, 23)
			}
			// The one that told is silent: its queue alone is unknown.
			p.town.set("10.0.0.3:9780", strings.ReplaceAll(exposition(7, 7, 0, 100, 3000), "orders", "emails"))
			time.Sleep(10 * time.Second)
			p.town.set("10.0.0.3:9780", "hang")
			time.Sleep(time.Minute)
			p.want(t, StrategyInflight, 23)
			if w := p.cfg.Peers.workers(key{"acct", "emails"}, time.Now()); w.known {
				t.Errorf("%s: the queue of a peer that went silent: %+v", name, w)
			}
			p.town.set("10.0.0.1:9780", "hang")
			time.Sleep(time.Minute)
			p.want(t, StrategyInflight, -1)
		})
	}
}

// Where nobody has ever answered, nothing is known of the consumers, unless nothing runs there.
func TestPeersOfWhomNoneEverAnswered(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]int64{"refused": 20, "hang": -1} {
		synctest.Test(t, func(t *testing.T) {
			p := startPeered(t)
			p.state.Count.Messages, p.state.Peek.Visible = 20, 20
			p.town.set("10.0.0.1:9780", says)
			p.run(t)
			defer p.end()
			time.Sleep(time.Second)
			if says == "hang" {
				p.want(t, StrategyInflight, -1) // the first round is not over
			}
			time.Sleep(5 * time.Second)
			p.want(t, StrategyInflight, 20) // it may be starting
			time.Sleep(time.Minute)
			p.want(t, StrategyInflight, want)
			if want < 0 {
				_, err := p.Own("acct", "orders", StrategyInflight)
				if err == nil || !strings.Contains(err.Error(), "no peer has ever answered") {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// A peer may say anything: it is bounded by what one process can do.
func TestHostilePeersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startPeered(t)
		p.town.set("10.0.0.1:9780", `# TYPE queue_processor_active_handlers gauge
queue_processor_active_handlers{account="acct",queue_name="orders"} 1e300
queue_processor_max_handlers{account="acct",queue_name="orders"} 4
queue_processor_active_handlers{account="acct",queue_name="emails"} 1e300
`)
		p.run(t)
		defer p.end()
		time.Sleep(5 * time.Second)
		p.want(t, StrategyInflight, 4)
		if w := p.cfg.Peers.workers(key{"acct", "emails"}, time.Now()); w.handlers != maxSlots {
			t.Errorf("%+v", w)
		}
		// A count beyond reason is forgotten like any other.
		p.town.set("10.0.0.1:9780", exposition(1, 4, 0, 1e18, 1e9))
		time.Sleep(10 * time.Second)
		p.town.set("10.0.0.1:9780", exposition(1, 4, 0, 10, 100))
		time.Sleep(10 * time.Second)
		for i := range 60 {
			p.town.set("10.0.0.1:9780", exposition(1, 4, 0, 20+10*i, float64(200+100*i)))
			time.Sleep(10 * time.Second)
		}
		if mean, ok := p.mean(key{"acct", "orders"}); !ok || mean < 9*time.Second {
			t.Errorf("mean %v, %v, ten minutes later", mean, ok)
		}
	})
}

// What peers say about queues that nobody may ask about, or that nobody handles any more, is not kept.
func TestHowLongQueuesTakeIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		known := map[string]bool{"orders": true, "emails": true}
		s := New(Config{Known: func(account, queue string) (Settings, bool) { return Settings{}, account == "acct" && known[queue] }})
		one := func(account, queue string) learned { return learned{key{account, queue}, progress{1, time.Second}} }
		s.learn([]learned{one("acct", "orders"), one("acct", "emails"), one("acct", "nobody's"), one("other", "orders"), one("", "anything")})
		if len(s.handling) != 3 {
			t.Errorf("%d queues are remembered, want 3", len(s.handling))
		}
		known["emails"] = false // a reload took it out
		time.Sleep(3 * 24 * time.Hour)
		s.learn(nil)
		if _, ok := s.mean(key{"acct", "orders"}); len(s.handling) != 2 || !ok {
			t.Errorf("%d queues are remembered after a weekend, want 2 (orders: %v)", len(s.handling), ok)
		}
		s.learn([]learned{one("acct", "orders")})
		time.Sleep(5 * 24 * time.Hour)
		s.learn(nil)
		if _, ok := s.mean(key{"acct", "orders"}); len(s.handling) != 1 || !ok {
			t.Errorf("%d queues are remembered, want orders alone", len(s.handling))
		}
		var many []learned
		for i := range 2 * maxHandling {
			many = append(many, one("", fmt.Sprint("q", i)))
		}
		s.learn(many)
		if len(s.handling) > maxHandling {
			t.Errorf("%d queues are remembered", len(s.handling))
		}
		_, before := handled([]Consumer{{"acct", "orders", func() (uint64, time.Duration) { return 1, 1 }}}, map[key]progress{{"acct", "emails"}: {1, 1}})
		if len(before) != 1 {
			t.Errorf("consumers that are gone are remembered: %v", before)
		}
	})
}

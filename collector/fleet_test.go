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

// B54: one queue that fails hides nothing of the others.
func TestOneOfAHundredQueuesFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]queuetest.Fault{
		"it hangs":           {Queue: "q-042", Hang: true},
		"it is refused":      {Queue: "q-042", Status: 403},
		"the service fails":  {Queue: "q-042", Status: 500},
		"it is out of reach": {Queue: "q-042", Refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				var qs []*queue.Queue
				for i := range 100 {
					q := create(t, s.acct, fmt.Sprintf("q-%03d", i))
					send(t, q, 1, queue.SendOptions{})
					qs = append(qs, q)
				}
				s.Inject(fault)
				c := run(t, collector.Config{Targets: targets(qs...)})
				time.Sleep(2 * time.Minute)
				depths, down := 0, []string{}
				for name, x := range samples(t, c) {
					switch {
					case strings.HasPrefix(name, messages+`{account="acct",queue_kind="main"`):
						depths++
						if x != 1 {
							t.Errorf("%s is %v", name, x)
						}
					case strings.HasPrefix(name, up+"{") && x == 0:
						down = append(down, name)
					}
				}
				if diff := cmp.Diff([]string{`queue_up{account="acct",queue_kind="main",queue_name="q-042"}`}, down); depths != 99 || diff != "" {
					t.Errorf("%d depths, want 99; queues that are down (-want +got):\n%s", depths, diff)
				}
				if a := c.Snapshot().Accounts; len(a) != 1 || a[0].Queues != 200 || a[0].Failing != 1 {
					t.Errorf("the snapshot's accounts are %+v", a)
				}
			})
		})
	}
}

// A frozen account changes nothing for another, and each of its own queues is told to be down.
func TestAFrozenAccountDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := queuetest.New(queuetest.Options{Accounts: map[string]string{"frozen": queuetest.AccountKey}})
		well, frozen := account(t, server, "acct", queuetest.AccountName), account(t, server, "frozen", "frozen")
		var ts []collector.Target
		for i := range 100 {
			ts = append(ts, targets(create(t, well, fmt.Sprintf("q-%03d", i)), create(t, frozen, fmt.Sprintf("q-%03d", i)))...)
		}
		c := run(t, collector.Config{Targets: ts})
		time.Sleep(3 * time.Minute)
		remove := server.Inject(queuetest.Fault{Account: "frozen", Hang: true})
		before := samples(t, c)
		time.Sleep(10 * time.Minute)
		after := samples(t, c)
		for name, x := range after {
			switch {
			case strings.HasPrefix(name, polls+`{account="acct"`) && (x < before[name]+10 || x > before[name]+12):
				t.Errorf("%s rose by %v in ten minutes", name, x-before[name])
			case strings.HasPrefix(name, up+`{account="acct"`) && x != 1:
				t.Errorf("%s is %v", name, x)
			case strings.HasPrefix(name, up+`{account="frozen"`) && x != 0:
				t.Errorf("%s is %v", name, x)
			case strings.HasPrefix(name, messages+`{account="frozen"`):
				t.Errorf("%s is still there", name)
			case strings.HasPrefix(name, `queue_poll_failures_total{account="frozen"`) && strings.Contains(name, `"timeout"`) && x < 8:
				t.Errorf("%s is %v: the frozen account lost its rhythm", name, x)
			}
		}
		remove()
		time.Sleep(time.Minute + time.Second)
		for name, x := range samples(t, c) {
			if strings.HasPrefix(name, up+"{") && x != 1 {
				t.Errorf("after recovery %s is %v", name, x)
			}
		}
	})
}

// B55: a scrape makes no request, and answers while storage hangs.
func TestAScrapeNeverCallsStorage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := run(t, collector.Config{Targets: targets(q)})
		time.Sleep(time.Second)
		s.Inject(queuetest.Fault{Hang: true})
		time.Sleep(time.Minute + time.Second) // amid a poll
		requests, start := s.Requests(queuetest.Op{}), time.Now()
		for range 10 {
			samples(t, c)
			c.Snapshot()
			c.Queue("acct", "orders")
		}
		if n := s.Requests(queuetest.Op{}); n != requests || time.Since(start) != 0 {
			t.Errorf("ten scrapes made %d requests and took %v", n-requests, time.Since(start))
		}
	})
}

// B31: polls keep to the request limit, and say so when it stretches their interval.
func TestRequestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := make(chan time.Time, 1e5)
		counting := false
		s := newStorage(t, queuetest.Options{OnRequest: func(queuetest.Request) {
			if counting {
				requests <- time.Now()
			}
		}})
		var ts []collector.Target
		for i := range 60 {
			q := create(t, s.acct, fmt.Sprintf("q-%02d", i))
			send(t, q, 1, queue.SendOptions{}) // there is something to peek at
			send(t, q.Poison(), 1, queue.SendOptions{})
			ts = append(ts, collector.Target{Queue: q})
		}
		ts[0].Interval = 2 * time.Minute
		counting = true
		start := time.Now()
		c := run(t, collector.Config{Targets: ts, Interval: time.Minute, RequestsPerSecond: 2})
		synctest.Wait()
		// 59 pairs a minute at 4 requests, and one in two minutes: 238 requests a minute where 120 are
		// allowed, and a twentieth more by jitter.
		const stretched = 125264 * time.Millisecond
		wantWarnings := []string{"account acct: polling 120 queues takes 4.2 requests/s and the limit is 2: an interval of 1m0s becomes 2m5.264s"}
		if diff := cmp.Diff(wantWarnings, c.Warnings()); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Minute)
		for name, x := range samples(t, c) {
			switch {
			case strings.HasPrefix(name, polls) && x < 1:
				t.Errorf("%s is %v after the first round's time", name, x)
			case strings.HasPrefix(name, interval) && strings.Contains(name, "q-00"):
				if x != 250.527 {
					t.Errorf("%s is %v", name, x)
				}
			case strings.HasPrefix(name, interval) && x != stretched.Seconds():
				t.Errorf("%s is %v", name, x)
			}
		}
		time.Sleep(time.Hour)
		n := len(requests)
		if limit := time.Since(start).Seconds()*2 + 2; float64(n) > limit || float64(n) < 0.95*limit {
			t.Errorf("%d requests in %v, want %v at the most and little less", n, time.Since(start), limit)
		}
		perSecond := map[int64]int{}
		for range n {
			perSecond[int64((<-requests).Sub(start)/time.Second)]++
		}
		for second, n := range perSecond {
			if n > 4 {
				t.Errorf("%d requests in second %d", n, second)
			}
		}
		for name, x := range samples(t, c) {
			if strings.HasPrefix(name, up+"{") && x != 1 {
				t.Errorf("%s is %v: polls stay away", name, x)
			}
		}
	})
}

func TestEnoughRequestsNeedNoWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		for _, limit := range []float64{100, -1} {
			c, err := collector.New(collector.Config{Targets: targets(create(t, s.acct, "orders")), RequestsPerSecond: limit})
			if err != nil || len(c.Warnings()) != 0 {
				t.Errorf("limit %v: %v, warnings %q", limit, err, c.Warnings())
			}
			expect(t, "interval", about(t, c, "orders", "main"), map[string]float64{interval: 60})
		}
	})
}

// Queues come and go at run time: what stays keeps its counts, what goes takes its series with it.
func TestSetTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := queuetest.New(queuetest.Options{Accounts: map[string]string{"second": queuetest.AccountKey}})
		acct, second := account(t, server, "acct", queuetest.AccountName), account(t, server, "second", "second")
		a, b, other := create(t, acct, "first"), create(t, acct, "next"), create(t, second, "other")
		send(t, b, 2, queue.SendOptions{})
		c := run(t, collector.Config{Targets: targets(a)})
		time.Sleep(10 * time.Minute)
		ten := about(t, c, "first", "main")[polls]
		if ten < 11 || ten > 12 {
			t.Errorf("%v polls in ten minutes", ten)
		}

		set := func(ts ...collector.Target) {
			t.Helper()
			if err := c.SetTargets(ts); err != nil {
				t.Fatal(err)
			}
		}
		poll := server.Inject(queuetest.Fault{Queue: "next", Hang: true})
		set(append(targets(b, other), collector.Target{Queue: a, Team: "payments"})...)
		expect(t, "before its first poll", about(t, c, "next", "main"), map[string]float64{up: absent, messages: absent, polls: 0, success: 0, interval: 60})
		expect(t, "a queue that stays", about(t, c, "first", "main"), map[string]float64{up: 1, messages: 0, polls: ten})
		poll()
		synctest.Wait()
		expect(t, "a new queue", about(t, c, "next", "main"), map[string]float64{up: 1, messages: 2, polls: 1})
		if x, ok := samples(t, c)[`queue_up{account="second",queue_kind="main",queue_name="other"}`]; x != 1 {
			t.Errorf("a queue of a new account: queue_up %v %v", x, ok)
		}
		if !strings.Contains(strings.Join(keys(samples(t, c)), "\n"), `team="payments"`) {
			t.Error("the new team is not told")
		}

		// A reload makes new accounts and queues of the same names, which are the same queues.
		again := account(t, server, "acct", queuetest.AccountName)
		set(targets(open(t, again, "first", queue.Config{}))...)
		for name := range samples(t, c) {
			if strings.Contains(name, `queue_name="next"`) || strings.Contains(name, `"second"`) {
				t.Errorf("%s is still there", name)
			}
		}
		acct.Close()
		time.Sleep(10 * time.Minute)
		expect(t, "after a reload", about(t, c, "first", "main"), map[string]float64{up: 1})
		if n := about(t, c, "first", "main")[polls]; n < 21 || n > 23 {
			t.Errorf("%v polls in twenty minutes", n)
		}
		server.ResetCounts()
		time.Sleep(10 * time.Minute)
		if n := server.Requests(queuetest.Op{Queue: "next"}) + server.Requests(queuetest.Op{Queue: "other"}); n != 0 {
			t.Errorf("%d requests for queues that are no longer watched", n)
		}

		// Another poison queue: what was seen of the old one says nothing about it.
		send(t, a.Poison(), 3, queue.SendOptions{})
		time.Sleep(time.Minute)
		expect(t, "the old poison queue", about(t, c, "first", "poison"), map[string]float64{messages: 3})
		polled := about(t, c, "first", "poison")[polls]
		poll = server.Inject(queuetest.Fault{Queue: "elsewhere", Hang: true})
		set(targets(open(t, again, "first", queue.Config{PoisonQueue: "elsewhere"}))...)
		expect(t, "the new poison queue before its first poll", about(t, c, "first", "poison"), map[string]float64{up: absent, messages: absent, polls: polled})
		poll()
		synctest.Wait()
		expect(t, "the new poison queue", about(t, c, "first", "poison"), map[string]float64{up: 1, exists: 0, messages: 0, polls: polled + 1})

		set(targets(open(t, again, "first", queue.Config{NoPoison: true}))...)
		if got := about(t, c, "first", "poison"); len(got) != 0 {
			t.Errorf("a queue without a poison queue has %v", got)
		}
		set(collector.Target{Queue: a, Interval: 10 * time.Second})
		had := about(t, c, "first", "main")[polls]
		time.Sleep(10*time.Second + time.Millisecond)
		got := about(t, c, "first", "main")
		expect(t, "a shorter interval", got, map[string]float64{interval: 10})
		if got[polls] == had {
			t.Error("a shorter interval does not hold at once")
		}
		set()
		if got := samples(t, c); len(got) != 0 {
			t.Errorf("without targets there is %v", got)
		}
	})
}

// A queue that is removed and comes back while its poll still hangs is polled like any other.
func TestSetTargetsAmidAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		a, b := create(t, s.acct, "first"), create(t, s.acct, "next")
		remove := s.Inject(queuetest.Fault{Queue: "first", Hang: true})
		c := run(t, collector.Config{Targets: targets(a, b)})
		time.Sleep(time.Second)
		for _, ts := range [][]collector.Target{targets(b), targets(a, b), nil, targets(a, b), targets(a)} {
			if err := c.SetTargets(ts); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		remove()
		time.Sleep(5 * time.Minute)
		got := about(t, c, "first", "main")
		expect(t, "in the end", got, map[string]float64{up: 1, messages: 0})
		if n := got[polls]; n < 5 || n > 7 {
			t.Errorf("%v polls in five minutes", n)
		}
	})
}

func TestSharedPoisonQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		a := open(t, s.acct, "first", queue.Config{PoisonQueue: "shared"})
		b := open(t, s.acct, "next", queue.Config{PoisonQueue: "shared"})
		shared := open(t, s.acct, "shared", queue.Config{NoPoison: true})
		for _, q := range []*queue.Queue{a, b, shared} {
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		send(t, shared, 4, queue.SendOptions{})
		c := run(t, collector.Config{Targets: targets(a, b, shared)})
		time.Sleep(time.Second)
		got := map[string]float64{}
		for name, x := range samples(t, c) {
			if strings.HasPrefix(name, messages) {
				got[name] = x
			}
		}
		want := map[string]float64{
			`queue_approximate_messages{account="acct",queue_kind="main",queue_name="first"}`:    0,
			`queue_approximate_messages{account="acct",queue_kind="main",queue_name="next"}`:     0,
			`queue_approximate_messages{account="acct",queue_kind="poison",queue_name="shared"}`: 4,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("depths (-want +got):\n%s", diff)
		}
	})
}

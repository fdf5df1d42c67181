package collector_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// adaptive starts a collector with everything at its default.
func adaptive(t *testing.T, cfg collector.Config) *collector.Collector {
	t.Helper()
	c, err := collector.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(start(t, c))
	return c
}

// C7: idle main queues are polled rarely, everything else at its interval.
func TestIdleQueuesArePolledRarely(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg          collector.Config
		target       collector.Target
		prepare      func(*testing.T, *storage, *queue.Queue)
		main, poison float64 // intervals, in the end
	}{
		"an idle queue":                      {main: 300, poison: 60},
		"the interval is longer":             {cfg: collector.Config{Interval: 8 * time.Minute}, main: 480, poison: 480},
		"a longer idle interval":             {cfg: collector.Config{IdleInterval: 15 * time.Minute}, main: 900, poison: 60},
		"none":                               {cfg: collector.Config{IdleInterval: -1}, main: 60, poison: 60},
		"a quiet poison queue, when told so": {cfg: collector.Config{PoisonIdleInterval: 3 * time.Minute}, main: 300, poison: 180},
		"a queue that is scaled":             {target: collector.Target{Scaled: true}, main: 60, poison: 60},
		"counts alone":                       {target: collector.Target{CountsOnly: true}, main: 300, poison: 60},
		"a stalled queue": {
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) { send(t, q, 1, queue.SendOptions{}) },
			main:    60, poison: 60,
		},
		"a poison queue that holds something": {
			cfg: collector.Config{PoisonIdleInterval: 3 * time.Minute},
			prepare: func(t *testing.T, _ *storage, q *queue.Queue) {
				send(t, q.Poison(), 1, queue.SendOptions{})
			},
			main: 300, poison: 60,
		},
		"an account that fails": {
			prepare: func(_ *testing.T, s *storage, _ *queue.Queue) { s.Inject(queuetest.Fault{Status: 403}) },
			main:    60, poison: 60,
		},
		"a queue that is not there": {
			prepare: func(t *testing.T, s *storage, _ *queue.Queue) { remove(t, s.acct, "orders", "orders-poison") },
			main:    60, poison: 60,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				tt.target.Queue = create(t, s.acct, "orders")
				if tt.prepare != nil {
					tt.prepare(t, s, tt.target.Queue)
				}
				tt.cfg.Targets = []collector.Target{tt.target}
				c := adaptive(t, tt.cfg)
				time.Sleep(3 * time.Hour)
				expect(t, "main", about(t, c, "orders", "main"), map[string]float64{interval: tt.main})
				expect(t, "poison", about(t, c, "orders", "poison"), map[string]float64{interval: tt.poison})
				before := about(t, c, "orders", "main")[polls]
				time.Sleep(3 * time.Hour)
				want := 3 * 3600 / tt.main
				if got := about(t, c, "orders", "main")[polls] - before; got < want-1 || got > want*1.12+1 {
					t.Errorf("%v polls in three hours, want about %v", got, want)
				}
				if stale := c.Queue("acct", "orders")[0].StaleAfter; stale != time.Duration(3*tt.main)*time.Second {
					t.Errorf("numbers are kept for %v", stale)
				}
			})
		})
	}
}

// A queue wakes up with the first message that is seen, and a scaler's question wakes it at once.
func TestIdleQueuesWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		first, second := create(t, s.acct, "first"), create(t, s.acct, "second")
		c := adaptive(t, collector.Config{Targets: targets(first, second)})
		time.Sleep(time.Hour)
		send(t, first, 1, queue.SendOptions{})
		time.Sleep(5*time.Minute + time.Second)
		expect(t, "a message was seen", about(t, c, "first", "main"), map[string]float64{interval: 60, messages: 1})
		had := about(t, c, "first", "main")[polls]
		time.Sleep(10 * time.Minute)
		if n := about(t, c, "first", "main")[polls] - had; n < 10 {
			t.Errorf("%v polls in the ten minutes after", n)
		}

		had = about(t, c, "second", "main")[polls]
		c.Scaled("acct", "second")
		c.Scaled("acct", "nobody")
		c.Scaled("nobody", "second")
		time.Sleep(time.Minute + time.Second)
		if n := about(t, c, "second", "main")[polls] - had; n < 1 {
			t.Error("a scaler's question does not bring the next poll forward")
		}
		for range 20 {
			c.Scaled("acct", "second")
			time.Sleep(time.Minute)
			expect(t, "while a scaler asks", about(t, c, "second", "main"), map[string]float64{interval: 60})
		}
		time.Sleep(15 * time.Minute)
		expect(t, "when it no longer does", about(t, c, "second", "main"), map[string]float64{interval: 300})
	})
}

// B32: what an idle queue costs; and peeks that could not show anything are spared, though not for ever.
func TestRequestsOfAnIdleQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := adaptive(t, collector.Config{Targets: targets(q)})
		time.Sleep(time.Hour)
		s.ResetCounts()
		time.Sleep(10 * time.Hour)
		for _, tt := range []struct {
			queue       string
			op          queuetest.Operation
			least, most int
		}{
			{"orders", queuetest.OpProperties, 120, 134},
			{"orders", queuetest.OpPeek, 11, 14},
			{"orders-poison", queuetest.OpProperties, 600, 667},
			{"orders-poison", queuetest.OpPeek, 59, 67},
		} {
			if n := s.Requests(queuetest.Op{Queue: tt.queue, Operation: tt.op}); n < tt.least || n > tt.most {
				t.Errorf("%s %s: %d requests in ten hours, want %d to %d", tt.queue, tt.op, n, tt.least, tt.most)
			}
		}
		expect(t, "main", about(t, c, "orders", "main"), map[string]float64{up: 1, messages: 0, peeked: 0, age: 0, attempts: 0})

		s.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403, Code: "AuthorizationPermissionMismatch"})
		time.Sleep(11 * time.Minute)
		expect(t, "without permission to look, poison", about(t, c, "orders", "poison"), map[string]float64{up: 0, messages: 0, peeked: absent})
		time.Sleep(45 * time.Minute)
		expect(t, "without permission to look, main", about(t, c, "orders", "main"), map[string]float64{up: 0, messages: 0, peeked: absent})
		for range 5 {
			time.Sleep(time.Minute)
			if up := c.Queue("acct", "orders")[1].Up; up != collector.No {
				t.Errorf("a queue nobody may look at is up: %v", up)
			}
		}
	})
}

// In a large account quiet poison queues are polled a third as often, and the others are not.
func TestQuietPoisonQueuesOfALargeAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{NoAuth: true})
		ts := make([]collector.Target, 1001)
		for i := range ts {
			ts[i] = collector.Target{Queue: create(t, s.acct, fmt.Sprintf("q-%04d", i)), CountsOnly: true}
		}
		send(t, ts[7].Queue, 1, queue.SendOptions{})
		send(t, ts[8].Queue.Poison(), 1, queue.SendOptions{})
		c := adaptive(t, collector.Config{Targets: ts, Interval: time.Hour, IdleInterval: 2 * time.Hour, RequestsPerSecond: -1})
		time.Sleep(16 * time.Hour)
		for _, tt := range []struct {
			queue        string
			main, poison float64
		}{{"q-0006", 7200, 10800}, {"q-0007", 3600, 3600}, {"q-0008", 7200, 3600}} {
			for _, q := range c.Queue("acct", tt.queue) {
				want := map[collector.Kind]float64{collector.KindMain: tt.main, collector.KindPoison: tt.poison}[q.Kind]
				if q.Interval.Seconds() != want {
					t.Errorf("%s %v is polled every %v, want %v s", tt.queue, q.Kind, q.Interval, want)
				}
			}
		}
	})
}

// A poison queue that is polled rarely is polled at its interval again as soon as its main queue is seen to hold messages,
// and not only from its own next turn on.
func TestPoisonQueueWakesWithItsMainQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := adaptive(t, collector.Config{Targets: targets(q), PoisonIdleInterval: time.Hour})
		time.Sleep(3 * time.Hour)
		expect(t, "asleep", about(t, c, "orders", "poison"), map[string]float64{interval: 3600})
		send(t, q, 1, queue.SendOptions{})
		send(t, q.Poison(), 1, queue.SendOptions{})
		time.Sleep(6*time.Minute + time.Second)
		expect(t, "awake", about(t, c, "orders", "poison"), map[string]float64{interval: 60, messages: 1})
	})
}

// Queues that fall asleep at the same moment do not march in step from then on: no minute has much more than
// its share of the polls.
func TestIdleQueuesDoNotMarchInStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		const n = 200
		var qs []*queue.Queue
		for i := range n {
			q, err := s.acct.Queue(fmt.Sprintf("q-%03d", i), queue.Config{NoPoison: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
			qs = append(qs, q)
		}
		adaptive(t, collector.Config{Targets: targets(qs...), RequestsPerSecond: -1})
		time.Sleep(20 * time.Minute) // by then all sleep
		for minute := range 10 {
			s.ResetCounts()
			time.Sleep(time.Minute)
			if got := s.Requests(queuetest.Op{Operation: queuetest.OpProperties}); got < n/20 || got > n/2 {
				t.Errorf("minute %d has %d polls, and a fifth of %d are its share", minute, got, n)
			}
		}
	})
}

// An account whose polls do not fit while all are busy keeps every interval once most are idle.
func TestIdleQueuesMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		var ts []collector.Target
		for i := range 60 {
			ts = append(ts, collector.Target{Queue: create(t, s.acct, fmt.Sprintf("q-%02d", i))})
		}
		send(t, ts[0].Queue, 1, queue.SendOptions{})
		c := adaptive(t, collector.Config{Targets: ts, RequestsPerSecond: 2}) // 240 requests a minute would be asked for
		if len(c.Warnings()) != 1 {
			t.Errorf("warnings %q", c.Warnings())
		}
		synctest.Wait()
		if x := about(t, c, "q-01", "main")[interval]; x < 90 {
			t.Errorf("at first an interval is %v", x)
		}
		time.Sleep(time.Hour)
		expect(t, "a busy queue", about(t, c, "q-00", "main"), map[string]float64{interval: 60})
		expect(t, "an idle queue", about(t, c, "q-01", "main"), map[string]float64{interval: 300})
		expect(t, "its poison queue", about(t, c, "q-01", "poison"), map[string]float64{interval: 60})
	})
}

// B31: retries and listings count as well.
func TestRequestLimitHoldsForRetries(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]queuetest.Fault{
		"the service fails": {Status: 500},
		"it is busy":        queuetest.Busy(0),
		"out of reach":      {Refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				var qs []*queue.Queue
				for i := range 40 {
					qs = append(qs, create(t, s.acct, fmt.Sprintf("q-%02d", i)))
				}
				s.Inject(fault)
				s.ResetCounts()
				began := time.Now()
				c := adaptive(t, collector.Config{Targets: targets(qs...), RequestsPerSecond: 4, Discovery: []collector.Discovery{{Account: s.acct, Interval: 10 * time.Second}}})
				time.Sleep(30 * time.Minute)
				n, most := s.Requests(queuetest.Op{}), 4*time.Since(began).Seconds()+4
				if float64(n) > most || float64(n) < most/3 {
					t.Errorf("%d requests in %v, want %v at the most", n, time.Since(began), most)
				}
				if up := c.Queue("acct", "q-00")[0].Up; up != collector.No {
					t.Errorf("up is %v", up)
				}
			})
		})
	}
}

// Neither queues nor replicas march in step.
func TestJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		send(t, q, 1, queue.SendOptions{})
		var polled [2][]time.Time
		var cs []*collector.Collector
		for range 2 {
			cs = append(cs, adaptive(t, collector.Config{Targets: targets(q)}))
		}
		for range 3600 {
			time.Sleep(time.Second)
			for i, c := range cs {
				at := c.Queue("acct", "orders")[0].LastPoll
				if n := len(polled[i]); n == 0 || !polled[i][n-1].Equal(at) {
					polled[i] = append(polled[i], at)
				}
			}
		}
		together := 0
		for i, times := range polled {
			var gaps []float64
			for j, at := range times[2:] {
				gap := at.Sub(times[j+1]).Seconds()
				if gap < 53.9 || gap > 60.01 {
					t.Errorf("replica %d: %v s between two polls", i, gap)
				}
				gaps = append(gaps, gap)
			}
			if slices.Max(gaps)-slices.Min(gaps) < 3 {
				t.Errorf("replica %d: gaps from %v to %v s", i, slices.Min(gaps), slices.Max(gaps))
			}
			for _, at := range times[1:] {
				if i == 0 && slices.ContainsFunc(polled[1], func(o time.Time) bool { return math.Abs(o.Sub(at).Seconds()) < 0.5 }) {
					together++
				}
			}
		}
		if together > 10 {
			t.Errorf("%d polls in an hour are at the same moment", together)
		}
	})
}

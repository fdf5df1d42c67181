package collector_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

var absent = math.NaN()

const (
	up         = "queue_up"
	exists     = "queue_exists"
	messages   = "queue_approximate_messages"
	peeked     = "queue_peeked_messages"
	age        = "queue_oldest_visible_message_age_seconds"
	expires    = "queue_next_expiration_timestamp_seconds"
	attempts   = "queue_peeked_delivery_attempts_max"
	success    = "queue_last_poll_success_timestamp_seconds"
	duration   = "queue_last_poll_duration_seconds"
	interval   = "queue_poll_interval_seconds"
	polls      = "queue_polls_total"
	clamped    = "queue_ages_clamped_total"
	resolution = time.Second // of the service's times
)

// unix is a time as a sample has it.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func TestWhatAPollTells(t *testing.T) {
	t.Parallel()
	type world struct {
		*storage
		q *queue.Queue
	}
	empty := map[string]float64{up: 1, exists: 1, messages: 0, peeked: 0, age: 0, expires: absent, attempts: 0}
	for name, tt := range map[string]struct {
		prepare      func(*testing.T, world)
		target       collector.Target
		main, poison map[string]float64
		mainFailures map[string]float64
		poisonFails  map[string]float64
	}{
		"B60 B61: an empty queue has zeros": {
			prepare: func(*testing.T, world) {},
			main:    empty, poison: empty,
		},
		"B61: one stuck message has an age": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 1, queue.SendOptions{TimeToLive: queue.Never})
				time.Sleep(90 * time.Second)
			},
			main:   map[string]float64{up: 1, messages: 1, peeked: 1, age: 90, expires: absent, attempts: 0},
			poison: empty,
		},
		"B01: leased messages count and are not visible": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 7, queue.SendOptions{})
				lease(t, w.q, 7, time.Hour)
				time.Sleep(time.Minute)
			},
			main: map[string]float64{up: 1, messages: 7, peeked: 0, age: 0, expires: absent, attempts: 0},
		},
		"B03: a message with a delay is not visible": {
			prepare: func(t *testing.T, w world) { send(t, w.q, 1, queue.SendOptions{Delay: time.Hour}) },
			main:    map[string]float64{messages: 1, peeked: 0, age: 0},
		},
		"fewer than 32 visible messages are counted exactly": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 40, queue.SendOptions{})
				lease(t, w.q, 9, time.Hour)
			},
			main: map[string]float64{messages: 40, peeked: 31},
		},
		"32 visible messages or more are a floor": {
			prepare: func(t *testing.T, w world) { send(t, w.q, 50, queue.SendOptions{}) },
			main:    map[string]float64{messages: 50, peeked: 32},
		},
		"the earliest expiry and the most deliveries are told": {
			prepare: func(t *testing.T, w world) {
				for range 3 {
					send(t, w.q, 1, queue.SendOptions{TimeToLive: time.Hour})
					send(t, w.q, 1, queue.SendOptions{TimeToLive: 30 * time.Minute})
					send(t, w.q, 1, queue.SendOptions{TimeToLive: queue.Never})
				}
				for _, n := range []int{9, 1} {
					for _, m := range lease(t, w.q, n, time.Minute) {
						if err := m.Abandon(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
			main: map[string]float64{
				messages: 9, peeked: 9,
				expires: unix(time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)), attempts: 2,
			},
		},
		"a poison queue is told under the main queue's name": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q.Poison(), 3, queue.SendOptions{TimeToLive: queue.Never})
				time.Sleep(time.Hour)
			},
			main:   empty,
			poison: map[string]float64{up: 1, exists: 1, messages: 3, peeked: 3, age: 3600, expires: absent},
		},
		"a poison queue that is not there is empty": {
			prepare: func(t *testing.T, w world) {
				if err := w.q.Poison().Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			main:   empty,
			poison: map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0, age: 0, expires: absent, attempts: 0, success: unix(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))},
		},
		"a main queue that is not there is down and has no depth": {
			prepare: func(t *testing.T, w world) {
				if err := w.q.Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			main:         map[string]float64{up: 0, exists: 0, messages: absent, peeked: absent, age: absent, attempts: absent, success: 0},
			mainFailures: map[string]float64{"not_found": 1},
			poison:       empty,
		},
		"B53: a queue that cannot be read has no depth": {
			prepare: func(_ *testing.T, w world) { w.Inject(queuetest.Fault{Queue: "orders", Status: 500}) },
			main: map[string]float64{
				up: 0, exists: absent, messages: absent, peeked: absent, age: absent, attempts: absent, success: 0, polls: 1,
			},
			mainFailures: map[string]float64{"server": 1},
			poison:       empty,
		},
		"a poison queue that cannot be read does not hide the main queue": {
			prepare:     func(_ *testing.T, w world) { w.Inject(queuetest.Fault{Queue: "orders-poison", Refuse: true}) },
			main:        empty,
			poison:      map[string]float64{up: 0, messages: absent, exists: absent},
			poisonFails: map[string]float64{"network": 1},
		},
		"without permission to peek the count is there and the poll failed": {
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 5, queue.SendOptions{})
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403, Code: "AuthorizationPermissionMismatch"})
			},
			main:         map[string]float64{up: 0, exists: 1, messages: 5, peeked: absent, age: absent, attempts: absent, success: 0},
			mainFailures: map[string]float64{"auth": 1},
			poison:       map[string]float64{up: 0, exists: 1, messages: 0, peeked: absent},
			poisonFails:  map[string]float64{"auth": 1},
		},
		"C9: counts only needs no permission to peek": {
			target: collector.Target{CountsOnly: true},
			prepare: func(t *testing.T, w world) {
				send(t, w.q, 5, queue.SendOptions{})
				if err := w.q.Poison().Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 403, Code: "AuthorizationPermissionMismatch"})
			},
			main:   map[string]float64{up: 1, exists: 1, messages: 5, peeked: absent, age: absent, attempts: absent, expires: absent},
			poison: map[string]float64{up: 1, exists: 0, messages: 0, peeked: absent, age: absent, attempts: absent, expires: absent},
		},
		"a queue deleted between count and peek is gone": {
			prepare: func(_ *testing.T, w world) {
				w.Inject(queuetest.Fault{Operation: queuetest.OpPeek, Status: 404, Code: "QueueNotFound"})
			},
			main:         map[string]float64{up: 0, exists: 0, messages: absent, peeked: absent},
			mainFailures: map[string]float64{"not_found": 1},
			poison:       map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0},
		},
		"throttling is told as such": {
			prepare:      func(_ *testing.T, w world) { w.Inject(queuetest.Busy(0)) },
			main:         map[string]float64{up: 0},
			mainFailures: map[string]float64{"throttled": 1},
			poisonFails:  map[string]float64{"throttled": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				w := world{s, create(t, s.acct, "orders")}
				tt.prepare(t, w)
				tt.target.Queue = w.q
				c := run(t, collector.Config{Targets: []collector.Target{tt.target}, Interval: time.Hour})
				time.Sleep(11 * time.Second) // retries
				expect(t, "main", about(t, c, "orders", "main"), tt.main)
				expect(t, "poison", about(t, c, "orders", "poison"), tt.poison)
				if tt.mainFailures == nil {
					tt.mainFailures = map[string]float64{}
				}
				if tt.poisonFails == nil {
					tt.poisonFails = map[string]float64{}
				}
				if diff := cmp.Diff(tt.mainFailures, failures(t, c, "orders", "main")); diff != "" {
					t.Errorf("failed polls of the main queue (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.poisonFails, failures(t, c, "orders", "poison")); diff != "" {
					t.Errorf("failed polls of the poison queue (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// B53, B63: the last value stays for three intervals, then there is none.
func TestStalenessLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		send(t, q, 5, queue.SendOptions{})
		c := run(t, collector.Config{Targets: targets(q), Interval: time.Minute})
		time.Sleep(30 * time.Minute)
		before := about(t, c, "orders", "main")
		lastGood := only(c.Snapshot(), collector.KindMain)["orders"].LastSuccess

		remove := s.Inject(queuetest.Fault{Queue: "orders", Refuse: true})
		time.Sleep(time.Until(lastGood.Add(75 * time.Second))) // one failed poll
		expect(t, "after a failed poll", about(t, c, "orders", "main"), map[string]float64{
			up: 0, exists: 1, messages: 5, peeked: 5, age: before[age], success: before[success],
		})
		time.Sleep(time.Until(lastGood.Add(3 * time.Minute)))
		expect(t, "at the limit", about(t, c, "orders", "main"), map[string]float64{up: 0, exists: 1, messages: 5, peeked: 5})
		if got := only(c.Snapshot(), collector.KindMain)["orders"]; !got.Count.Known || !got.Peek.Known || got.Up != collector.No {
			t.Errorf("at the limit the snapshot says %+v", got)
		}
		time.Sleep(time.Second)
		gone := map[string]float64{
			up: 0, exists: absent, messages: absent, peeked: absent, age: absent, attempts: absent, expires: absent, success: before[success],
		}
		expect(t, "past the limit", about(t, c, "orders", "main"), gone)
		state := only(c.Snapshot(), collector.KindMain)["orders"]
		if state.Count.Known || state.Peek.Known || state.Exists != 0 || state.Reason != queue.ResultNetwork || !state.LastSuccess.Equal(lastGood) {
			t.Errorf("past the limit the snapshot says %+v", state)
		}
		if _, _, ok := state.Visible(); ok {
			t.Error("past the limit visible messages are known")
		}
		time.Sleep(24 * time.Hour)
		expect(t, "a day later", about(t, c, "orders", "main"), gone)
		expect(t, "a day later, the poison queue", about(t, c, "orders", "poison"), map[string]float64{up: 1, messages: 0})

		remove()
		time.Sleep(time.Minute + time.Second)
		expect(t, "after recovery", about(t, c, "orders", "main"), map[string]float64{up: 1, exists: 1, messages: 5, peeked: 5})
	})
}

// B41: every poll asks anew, and says when it last succeeded.
func TestEveryPollAsksAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := run(t, collector.Config{Targets: targets(q)})
		var last float64
		for n := range 5 {
			time.Sleep(time.Minute)
			got := about(t, c, "orders", "main")
			if got[success] <= last {
				t.Errorf("minute %d: the last success is at %v, as before", n, got[success])
			}
			last = got[success]
			expect(t, "each minute", got, map[string]float64{messages: float64(n)})
			send(t, q, 1, queue.SendOptions{})
		}
	})
}

// B77: what comes in is seen within one interval.
func TestRhythm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c := run(t, collector.Config{Targets: targets(q), Interval: time.Minute})
		time.Sleep(10 * time.Minute) // one at once, and one in each, or a little earlier
		expect(t, "in ten minutes", about(t, c, "orders", "main"), map[string]float64{interval: 60})
		if n := about(t, c, "orders", "main")[polls]; n < 11 || n > 12 {
			t.Errorf("%v polls in ten minutes", n)
		}
		for range 20 {
			time.Sleep(time.Minute)
			send(t, q.Poison(), 1, queue.SendOptions{})
			had := about(t, c, "orders", "poison")[messages]
			time.Sleep(time.Minute)
			if got := about(t, c, "orders", "poison")[messages]; got != had+1 {
				t.Fatalf("a minute after it was sent %v of %v messages are seen", got, had+1)
			}
		}
	})
}

// A poison queue is created by the first storm: it rises from 0, it is not born high.
func TestFirstPoisonStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := open(t, s.acct, "orders", queue.Config{})
		if err := q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := run(t, collector.Config{Targets: targets(q)})
		time.Sleep(10 * time.Minute)
		before := about(t, c, "orders", "poison")
		expect(t, "before", before, map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0, age: 0})
		if since := time.Since(time.UnixMilli(int64(before[success] * 1000))); since > time.Minute+time.Second {
			t.Errorf("the last success is %v ago", since)
		}
		if err := q.Poison().Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		send(t, q.Poison(), 400, queue.SendOptions{TimeToLive: queue.Never})
		time.Sleep(time.Minute)
		expect(t, "after", about(t, c, "orders", "poison"), map[string]float64{up: 1, exists: 1, messages: 400, peeked: 32})
		if err := q.Poison().Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect(t, "deleted", about(t, c, "orders", "poison"), map[string]float64{up: 1, exists: 0, messages: 0, peeked: 0})
	})
}

// deaf is a transport whose requests to one queue never return, not even when their context ends.
type deaf struct {
	*queuetest.Server
	queue   atomic.Value // string
	release chan struct{}
}

func (d *deaf) deafTo(path string) { d.queue.Store(path) }

// Do makes the exchange, or not.
func (d *deaf) Do(r *http.Request) (*http.Response, error) {
	if path, _ := d.queue.Load().(string); path != "" && strings.Contains(r.URL.Path, path) {
		<-d.release
		return nil, errors.New("released")
	}
	return d.Server.Do(r)
}

// A poll that never comes back is no reason to go on saying that all is well.
func TestPollsThatStayAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		stuck, other := create(t, s.acct, "stuck"), create(t, s.acct, "other")
		send(t, stuck, 2, queue.SendOptions{})
		c := run(t, collector.Config{Targets: targets(stuck, other)})
		time.Sleep(time.Second)
		expect(t, "at first", about(t, c, "stuck", "main"), map[string]float64{up: 1, messages: 2})

		d := &deaf{Server: s.Server, release: make(chan struct{})}
		d.deafTo("/stuck")
		t.Cleanup(func() { close(d.release) })
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", Endpoint: s.Endpoint(queuetest.AccountName), AccountKey: queue.Secret(queuetest.AccountKey), Transport: d,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(acct.Close)
		if err := c.SetTargets(targets(open(t, acct, "stuck", queue.Config{}), open(t, acct, "other", queue.Config{}))); err != nil {
			t.Fatal(err)
		}
		had, hadStuck := about(t, c, "other", "main")[polls], about(t, c, "stuck", "main")[polls]
		time.Sleep(2 * time.Minute)
		expect(t, "within the limit", about(t, c, "stuck", "main"), map[string]float64{messages: 2})
		time.Sleep(2 * time.Minute)
		expect(t, "past the limit", about(t, c, "stuck", "main"), map[string]float64{up: 0, exists: absent, messages: absent, polls: hadStuck})
		expect(t, "another queue", about(t, c, "other", "main"), map[string]float64{up: 1, messages: 0})
		if n := about(t, c, "other", "main")[polls] - had; n < 4 || n > 5 {
			t.Errorf("another queue was polled %v times in four minutes", n)
		}
	})
}

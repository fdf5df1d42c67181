package collector_test

import (
	"encoding/json"
	"slices"
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

// quarantine sends n messages to the poison queue.
func (w *world) quarantine(n int) {
	for range n {
		if _, err := w.q.Poison().SendText(w.ctx, "x", queue.SendOptions{TimeToLive: queue.Never}); err != nil && w.ctx.Err() == nil {
			w.t.Error(err)
		}
	}
}

// C5: the poison queue's side.
func TestPoisonStatus(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	purge := func(w *world) {
		if err := w.q.Poison().Clear(w.ctx); err != nil && w.ctx.Err() == nil {
			w.t.Error(err)
		}
	}
	for name, tt := range map[string]struct {
		before, script func(*world)
		want           []expected
	}{
		"empty": {
			script: func(*world) {},
			want:   []expected{{"empty", "empty", 0, 0}},
		},
		"a queue that is not there": {
			before: func(w *world) {
				if err := w.q.Poison().Delete(w.ctx); err != nil {
					w.t.Error(err)
				}
			},
			script: func(*world) {},
			want:   []expected{{"empty", "empty", 0, 0}},
		},
		"messages from before the watch": {
			before: func(w *world) { w.quarantine(3) },
			script: func(*world) {},
			want:   []expected{{"holding", "holding", 0, 0}},
		},
		"the first storm creates the queue": {
			before: func(w *world) {
				if err := w.q.Poison().Delete(w.ctx); err != nil {
					w.t.Error(err)
				}
			},
			script: func(w *world) {
				w.until(20 * m)
				if err := w.q.Poison().Create(w.ctx); err != nil {
					w.t.Error(err)
				}
				w.quarantine(400)
			},
			want: []expected{{"empty", "empty", 0, 0}, {"growing", "gained", 20 * m, 21*m + 5*time.Second}, {"holding", "holding", 35 * m, 37 * m}},
		},
		"a storm while an operator purges every twenty minutes": {
			script: func(w *world) {
				w.until(10 * m)
				w.beside(func() {
					for w.pause(20 * m) {
						purge(w)
					}
				})
				for w.pause(45 * time.Second) {
					w.quarantine(4)
				}
			},
			want: []expected{{"empty", "empty", 0, 0}, {"growing", "gained", 10 * m, 12 * m}},
		},
		"a slow drip": {
			script: func(w *world) {
				for w.pause(4 * m) {
					w.quarantine(1)
				}
			},
			want: []expected{{"empty", "empty", 0, 0}, {"growing", "gained", 4 * m, 5*m + 5*time.Second}},
		},
		"one storm, then purged": {
			script: func(w *world) {
				w.until(10 * m)
				w.quarantine(9)
				w.until(30 * m)
				purge(w)
			},
			want: []expected{
				{"empty", "empty", 0, 0},
				{"growing", "gained", 10 * m, 11*m + 5*time.Second},
				{"holding", "holding", 25 * m, 27 * m},
				{"empty", "empty", 30 * m, 31*m + 5*time.Second},
			},
		},
		"out of reach": {
			before: func(w *world) { w.quarantine(3) },
			script: func(w *world) {
				w.until(20 * m)
				remove := w.Inject(queuetest.Fault{Queue: "orders-poison", Status: 403})
				w.until(40 * m)
				remove()
			},
			want: []expected{{"holding", "holding", 0, 0}, {"unknown", "polls_fail", 21 * m, 24 * m}, {"holding", "holding", 40 * m, 41*m + 5*time.Second}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, play(t, collector.KindPoison, 2*time.Hour, tt.before, tt.script), tt.want)
		})
	}
}

// What the consumer in this process tells is taken into account.
func TestStatusWithAConsumerHere(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, tt := range map[string]struct {
		script func(*world)
		want   []expected
	}{
		"paused, and resumed": {
			func(w *world) {
				var paused atomic.Bool
				w.target.Paused = paused.Load
				w.produce(5, 11*time.Second, forever)
				w.consume(16, 7*time.Second, 6*time.Second, 0, 30*m)
				w.consume(64, 7*time.Second, 6*time.Second, 60*m, forever)
				w.until(30 * m)
				paused.Store(true)
				w.until(60 * m)
				paused.Store(false)
			},
			[]expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "", 1 * m, 4 * m},
				{"paused", "paused", 30 * m, 30*m + 5*time.Second},
				{"stalled", "untouched", 60 * m, 60*m + 5*time.Second},
				{"ok", "", 61 * m, 66 * m},
			},
		},
		"a handler works on one message for hours": {
			func(w *world) {
				w.target.HandlerTimeLimit = 3 * time.Hour
				w.target.Busy = func() int { return 1 }
				w.put(50, queue.SendOptions{})
				w.take(1, 24*time.Hour)
			},
			[]expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}},
		},
		"handlers work on every message for hours": {
			func(w *world) {
				w.target.Busy = func() int { return 4 }
				w.put(4, queue.SendOptions{})
				w.take(4, 24*time.Hour)
			},
			[]expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "in_flight", 1 * m, 4 * m}},
		},
		"our own retry delays hide every message": {
			func(w *world) {
				w.target.Held = func() int { return 20 }
				w.put(20, queue.SendOptions{})
				w.take(20, 24*time.Hour)
			},
			[]expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "in_flight", 1 * m, 4 * m}, {"hidden", "retries", 6 * m, 9 * m}},
		},
		"everything fails and ends in the poison queue": {
			func(w *world) {
				w.produce(5, 11*time.Second, forever)
				w.consume(64, 7*time.Second, 6*time.Second, 0, 30*m)
				w.beside(func() {
					w.until(30 * m)
					w.put(60, queue.SendOptions{})
					for w.pause(43 * time.Second) { // the fourth delivery is the last
						for _, m := range w.take(64, 45*time.Second) {
							if m.DequeueCount == 4 {
								w.quarantine(1)
								w.complete([]*queue.Message{m})
							}
						}
					}
				})
			},
			[]expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"stalled", "redelivered", 31 * m, 60 * m}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := func(w *world) {
				w.target.Mode = collector.ModeConsume
			}
			check(t, play(t, collector.KindMain, 90*time.Minute, before, tt.script), tt.want)
		})
	}
}

// Polls that never come back are no reason to go on saying that all is well.
func TestStatusWhenPollsStayAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		d := &deaf{Server: s.Server, release: make(chan struct{})}
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", Endpoint: s.Endpoint(queuetest.AccountName), AccountKey: queue.Secret(queuetest.AccountKey), Transport: d,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(acct.Close)
		c := run(t, collector.Config{Targets: targets(open(t, acct, q.Name(), queue.Config{}))})
		t.Cleanup(func() { close(d.release) }) // before Run is awaited
		time.Sleep(10 * time.Minute)
		d.deafTo("/orders")
		time.Sleep(5 * time.Minute)
		got := c.Queue("acct", "orders")
		if got[0].Status != collector.StatusUnreachable || got[0].Evidence().Rule != collector.RulePollsStayAway || got[1].Poison != collector.PoisonUnknown {
			t.Errorf("main %v (%v), poison %v", got[0].Status, got[0].Evidence().Rule, got[1].Poison)
		}
		if x := samples(t, c)[`queue_status{account="acct",queue_kind="main",queue_name="orders",status="unreachable"}`]; x != 1 {
			t.Errorf("queue_status unreachable is %v", x)
		}
	})
}

// Exactly one of the statuses holds, from the first scrape on.
func TestStatusMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		send(t, q, 5, queue.SendOptions{})
		c, err := collector.New(collector.Config{Targets: targets(q)})
		if err != nil {
			t.Fatal(err)
		}
		is := func(want map[string]bool) {
			t.Helper()
			got := map[string]bool{}
			for name, x := range samples(t, c) {
				if strings.Contains(name, "status=") && x != 0 {
					got[name] = x == 1
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
		}
		main := func(s string) string {
			return `queue_status{account="acct",queue_kind="main",queue_name="orders",status="` + s + `"}`
		}
		poison := func(s string) string {
			return `queue_poison_status{account="acct",queue_kind="poison",queue_name="orders",status="` + s + `"}`
		}
		is(map[string]bool{main("unknown"): true, poison("unknown"): true})
		stop := start(t, c)
		time.Sleep(30 * time.Minute)
		is(map[string]bool{main("stalled"): true, poison("empty"): true})
		got := about(t, c, "orders", "main")
		if x := got["queue_head_unchanged_seconds"]; x < 28*60 || x > 30*60 {
			t.Errorf("the head is unchanged for %v s", x)
		}
		expect(t, "poison", about(t, c, "orders", "poison"), map[string]float64{"queue_head_unchanged_seconds": 0})
		lease(t, q, 2, time.Hour)
		time.Sleep(time.Minute)
		if x := about(t, c, "orders", "main")["queue_head_unchanged_seconds"]; x > 60 {
			t.Errorf("after messages were taken the head is unchanged for %v s", x)
		}
		stop()
	})
}

// The evidence can be printed, says what was seen, and holds nothing of a message.
func TestEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		var ids []string
		for range 3 {
			r, err := q.SendText(t.Context(), "a secret body", queue.SendOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		c := run(t, collector.Config{Targets: targets(q)})
		time.Sleep(20 * time.Minute)
		lease(t, q, 1, time.Hour)
		remove := s.Inject(queuetest.Fault{Queue: "orders", Status: 500})
		time.Sleep(100 * time.Second) // for one poll or two
		remove()
		time.Sleep(time.Minute)
		state := c.Queue("acct", "orders")[0]
		e := state.Evidence()
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range append(ids, "secret") {
			if strings.Contains(string(text), secret) {
				t.Errorf("the evidence shows %q: %s", secret, text)
			}
		}
		if state.Status != collector.StatusStalled || e.Rule != collector.RuleUntouched || e.HeadUnchangedSeconds > 60 || e.PatienceSeconds != 1200 {
			t.Errorf("status %v, evidence %s", state.Status, text)
		}
		if n := len(e.Samples); n != 16 {
			t.Fatalf("%d samples: %s", n, text)
		}
		missed := slices.IndexFunc(e.Samples, func(s collector.Sample) bool { return s.Failed == queue.ResultServer })
		if missed < 0 || e.Samples[missed].Messages != nil {
			t.Fatalf("no sample was missed: %s", text)
		}
		after := e.Samples[missed+1]
		if after.Messages == nil || *after.Messages != 3 || after.Visible == nil || *after.Visible != 2 || after.Left != 1 || after.Polls != 1 {
			t.Errorf("the sample after that is %+v", after)
		}
		e.Samples[0].Polls = 77
		if state.Evidence().Samples[0].Polls != 1 {
			t.Error("the evidence is not the caller's own")
		}
	})
}

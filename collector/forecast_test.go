package collector_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const (
	drain = "queue_forecast_drain_seconds"
	loss  = "queue_forecast_loss_seconds"
)

// C6: what the samples foretell, at the end of each script. NaN: nothing.
func TestForecasts(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, tt := range map[string]struct {
		length      time.Duration
		script      func(*world)
		kind        string
		drain, loss float64 // seconds
		within      float64 // share
	}{
		"an empty queue": {
			30 * m,
			func(*world) {},
			"main", absent, absent, 0,
		},
		"a queue that drains": {
			30 * m,
			func(w *world) {
				w.put(1000, queue.SendOptions{})
				w.consume(4, 12*time.Second, 0, 10*m, forever) // 20 a minute
			},
			"main", 60 * 30, absent, 0.1,
		},
		"a queue that turned from growing to draining": {
			40 * m,
			func(w *world) {
				w.produce(6, 12*time.Second, 30*m) // to 900
				w.consume(10, 10*time.Second, 0, 30*m, forever)
			},
			"main", 60 * 5, absent, 0.15,
		},
		"a queue that stands still": {
			30 * m,
			func(w *world) {
				w.put(300, queue.SendOptions{})
				w.produce(6, 12*time.Second, forever)
				w.consume(6, 12*time.Second, 0, 0, forever)
			},
			"main", absent, absent, 0,
		},
		"messages that live an hour, and nobody takes them": {
			40 * m,
			func(w *world) {
				w.put(3, queue.SendOptions{TimeToLive: queue.Never})
				w.put(1, queue.SendOptions{TimeToLive: time.Hour})
				w.put(1, queue.SendOptions{TimeToLive: 24 * time.Hour})
			},
			"main", absent, 60 * 20, 0.01,
		},
		"messages that live for three days": {
			40 * m,
			func(w *world) { w.put(1, queue.SendOptions{TimeToLive: 72 * time.Hour}) },
			"main", absent, 72*3600 - 40*60, 0.01,
		},
		"messages that never expire": {
			40 * m,
			func(w *world) { w.put(5, queue.SendOptions{TimeToLive: queue.Never}) },
			"main", absent, absent, 0,
		},
		"a healthy queue whose messages live an hour": {
			2 * time.Hour,
			func(w *world) {
				w.put(100, queue.SendOptions{TimeToLive: time.Hour})
				w.beside(func() {
					for w.pause(11 * time.Second) {
						w.put(5, queue.SendOptions{TimeToLive: time.Hour})
					}
				})
				w.consume(6, 11*time.Second, 0, 0, forever)
			},
			"main", absent, absent, 0,
		},
		"a slow consumer reaches some messages too late": {
			40 * m,
			func(w *world) {
				w.put(60, queue.SendOptions{TimeToLive: 10 * time.Hour})
				w.consume(1, 59*time.Second, 0, 0, forever) // one a minute
				w.until(38 * m)
				w.put(1, queue.SendOptions{TimeToLive: 8 * m}) // and twenty before it
			},
			"main", 20 * 60, 6 * 60, 0.15,
		},
		"a wait that outgrows the time to live": {
			60 * m,
			func(w *world) {
				w.beside(func() { // one in five stays behind: of each minute's wait twelve seconds
					for w.pause(10 * time.Second) {
						w.put(20, queue.SendOptions{TimeToLive: time.Hour})
					}
				})
				w.consume(16, 10*time.Second, 0, 0, forever)
			},
			"main", absent, (3600 - 720) * 5, 0.15,
		},
		"after a restart nothing is known of a queue that may be healthy": {
			61 * m,
			func(w *world) {
				w.put(50, queue.SendOptions{TimeToLive: 90 * m})
				w.until(60 * m)
				w.unwatch()
				w.watch()
			},
			"main", absent, absent, 0,
		},
		"poison that expires": {
			40 * m,
			func(w *world) {
				for _, ttl := range []time.Duration{queue.Never, time.Hour, 7 * 24 * time.Hour} {
					if _, err := w.q.Poison().SendText(w.ctx, "x", queue.SendOptions{TimeToLive: ttl}); err != nil {
						w.t.Error(err)
					}
				}
			},
			"poison", absent, 20 * 60, 0.01,
		},
		"poison that is replayed": {
			40 * m,
			func(w *world) {
				w.quarantine(500)
				w.until(30 * m)
				for w.pause(10 * time.Second) {
					ms, err := w.q.Poison().Receive(w.ctx, 2, time.Minute)
					if err != nil && w.ctx.Err() == nil {
						w.t.Error(err)
					}
					for _, m := range ms {
						if err := m.Complete(w.ctx); err != nil && w.ctx.Err() == nil {
							w.t.Error(err)
						}
					}
				}
			},
			"poison", 380 * 5, absent, 0.1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got map[string]float64
			var state collector.QueueState
			playTo(t, collector.KindMain, tt.length, nil, tt.script, func(w *world) {
				got = about(t, w.c.Load(), "orders", tt.kind)
				for _, s := range w.c.Load().Queue("acct", "orders") {
					if s.Kind.String() == tt.kind {
						state = s
					}
				}
			})
			near := func(name string, want, within float64, f collector.Forecast) {
				x, ok := got[name]
				if ok == math.IsNaN(want) || ok && math.Abs(x-want) > within*want {
					t.Errorf("%s is %v (there: %t), want %v within %v (status %v, %+v)", name, x, ok, want, within, state.Status, state.Evidence())
				}
				if f.Known != ok || ok && math.Abs(f.In.Seconds()-x) > 1 {
					t.Errorf("%s is %v (there: %t), and the snapshot says %+v", name, x, ok, f)
				}
			}
			near(drain, tt.drain, tt.within, state.Drain)
			near(loss, tt.loss, min(tt.within, 0.15), state.Loss)
		})
	}
}

// Forecasts count down between two polls, and are told by the service's clock, however far it is off.
func TestForecastsWithClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]time.Duration{"the service is ahead": 2 * time.Hour, "the service is behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{NoAuth: true})
				s.SetClockOffset(offset)
				q := create(t, s.acct, "orders")
				began := time.Now()
				send(t, q, 5, queue.SendOptions{TimeToLive: 3 * time.Hour})
				send(t, q.Poison(), 1, queue.SendOptions{TimeToLive: 3 * time.Hour})
				c := run(t, collector.Config{Targets: targets(q)})
				time.Sleep(20 * time.Minute)
				for range 30 {
					time.Sleep(7 * time.Second)
					for _, kind := range []string{"main", "poison"} {
						want := (3*time.Hour - time.Since(began)).Seconds()
						if got := about(t, c, "orders", kind)[loss]; math.Abs(got-want) > 2 {
							t.Errorf("%s: a loss in %v s, want %v", kind, got, want)
						}
					}
				}
			})
		})
	}
}

package processor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const (
	opened = "handlers fail as a whole; receiving stopped until one works"
	mended = "handlers work again; receiving"
)

// downstream is what handlers call: it can be away.
type downstream struct {
	away atomic.Bool
	err  error // what it fails with then; default errAway
}

var errAway = &net.OpError{Op: "dial", Err: errors.New("no route to host")}

func (d *downstream) call(context.Context, *processor.Message) error {
	time.Sleep(20 * time.Millisecond)
	switch {
	case !d.away.Load():
		return nil
	case d.err != nil:
		return d.err
	default:
		return errAway
	}
}

// fill sends n messages.
func (r *rig) fill(n int) {
	r.t.Helper()
	for i := range n {
		r.send(fmt.Sprint(i))
	}
}

// between counts the calls in a span of time.
func (c *calls) between(from, to time.Time) int {
	n := 0
	for _, c := range c.list() {
		if !c.at.Before(from) && c.at.Before(to) {
			n++
		}
	}
	return n
}

// The default settings, but for the concurrency.
func TestAnOutageOfTenMinutesQuarantinesNothing(t *testing.T) {
	tests := []struct {
		name     string
		err      error
		messages []int
		category string
	}{
		{"errors of the network", errAway, []int{1, 2, 200}, "transient"},
		{"timeouts", context.DeadlineExceeded, []int{1, 20}, "timeout"},
		{"throttled", processor.Throttled(10*time.Second, errBroken), []int{1, 20}, "throttled"},
		{"certainly not theirs", processor.Unavailable(errBroken), []int{1, 20}, "transient"},
		{"errors nobody knows", errBroken, []int{3, 10, 200}, "handler"},
	}
	for _, tt := range tests {
		for _, messages := range tt.messages {
			for _, concurrency := range []int{1, 16} {
				t.Run(fmt.Sprintf("%s, %d messages, concurrency %d", tt.name, messages, concurrency), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) { outage(t, r, &downstream{err: tt.err}, messages, concurrency, tt.category) })
				})
			}
		}
	}
}

func outage(t *testing.T, r *rig, d *downstream, messages, concurrency int, category string) {
	d.away.Store(true)
	r.fill(messages)
	began := time.Now()
	run := r.start(processor.Config{Concurrency: concurrency}, r.handle(d.call))
	time.Sleep(5 * time.Minute)
	if s := run.Status(); !s.BreakerOpen || s.BreakerAge < 4*time.Minute || s.State != processor.StateRunning {
		t.Errorf("status %+v", s)
	}
	r.counted(map[string]float64{"queue_processor_breaker_open": 1})
	time.Sleep(5 * time.Minute)
	// From two minutes on the pause is a minute.
	if n := r.calls.between(began.Add(3*time.Minute), began.Add(10*time.Minute)); n < 6 || n > 8 {
		t.Errorf("%d deliveries in seven minutes of the outage, want one a probe", n)
	}
	d.away.Store(false)
	back := time.Now()
	time.Sleep(3 * time.Minute)
	r.left(0, 0)
	r.counted(map[string]float64{"queue_messages_processed_total": float64(messages), "queue_processor_breaker_open": 0})
	if l := r.logged(opened, 1)[0]; l["level"] != "ERROR" || l["category"] != category {
		t.Errorf("opening was logged as %v", l)
	}
	if l := r.logged(mended, 1)[0]; l["level"] != "INFO" {
		t.Errorf("closing was logged as %v", l)
	}
	if last := r.calls.list()[r.calls.count()-1]; last.at.Sub(back) > 2*time.Minute {
		t.Errorf("the last message was handled %v after the outage", last.at.Sub(back))
	}
	r.end(run)
}

// Each of several processes sees a part of the failures, and spends deliveries the others know nothing of.
func TestAnOutageQuarantinesNothingOfSeveralProcesses(t *testing.T) {
	for name, err := range map[string]error{"timeouts": context.DeadlineExceeded, "certainly not theirs": processor.Unavailable(errBroken), "errors nobody knows": errBroken} {
		for _, messages := range []int{20, 60} {
			for _, processes := range []int{2, 3} {
				t.Run(fmt.Sprintf("%s, %d messages, %d processes", name, messages, processes), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) {
						d := &downstream{err: err}
						d.away.Store(true)
						r.fill(messages)
						runs := make([]*running, processes)
						for i := range runs {
							runs[i] = r.start(processor.Config{Concurrency: 8}, r.handle(d.call))
						}
						time.Sleep(10 * time.Minute)
						d.away.Store(false)
						time.Sleep(5 * time.Minute)
						for _, run := range runs {
							r.end(run)
						}
						r.left(0, 0)
					})
				})
			}
		}
	}
}

// It opens in the middle of things, and messages on their last attempt are spared as well.
func TestMessagesOnTheirLastAttemptSurviveAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(20)
		for range 4 { // by processes that gave them back
			for left := 20; left > 0; {
				got, err := r.q.Receive(t.Context(), 32, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range got {
					if err := m.Abandon(t.Context(), 10*time.Second); err != nil {
						t.Fatal(err)
					}
				}
				left -= len(got)
			}
			time.Sleep(10 * time.Second)
		}
		var d downstream
		run := r.start(processor.Config{Concurrency: 4}, r.handle(d.call))
		d.away.Store(true)
		time.Sleep(10 * time.Minute)
		d.away.Store(false)
		time.Sleep(10 * time.Minute)
		r.end(run)
		// Until three messages have failed nothing tells an outage from bad messages that have had
		// four attempts when all was well.
		if n := r.srv.Len(queuetest.AccountName, "orders-poison"); n > 2 {
			t.Errorf("%d messages on the poison queue", n)
		}
		if n := r.srv.Len(queuetest.AccountName, "orders"); n != 0 {
			t.Errorf("%d messages left", n)
		}
	})
}

func TestAfterAnOutageConcurrencyGrows(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var away atomic.Bool
		var at, most atomic.Int64
		away.Store(true)
		r.fill(200)
		h := processor.HandlerFunc(func(context.Context, *processor.Message) error {
			if away.Load() {
				time.Sleep(time.Second)
				return errBroken
			}
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(time.Second)
			at.Add(-1)
			return nil
		})
		run := r.start(processor.Config{Concurrency: 32}, h)
		time.Sleep(10 * time.Minute)
		away.Store(false)
		for at.Load() == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		for i, want := range []int64{1, 2, 4, 8, 16, 32} {
			if got := most.Load(); got > want || got < want/2 {
				t.Errorf("%d handlers at once %d s after the first success, want %d", got, i-1, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		if most.Load() != 32 {
			t.Errorf("never more than %d handlers", most.Load())
		}
		r.end(run)
		r.left(0, 0)
	})
}

// probed is a handler whose endpoint can be asked.
type probed struct {
	processor.Handler
	probe func() error
}

func (p probed) Probe(context.Context) error { return p.probe() }

func TestAHandlerThatIsAwayCostsNoDeliveries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var away atomic.Bool
		away.Store(true)
		var probes atomic.Int64
		r.fill(1)
		h := probed{r.handle(func(context.Context, *processor.Message) error {
			if away.Load() {
				return processor.Unavailable(errAway)
			}
			return nil
		}), func() error {
			switch n := probes.Add(1); {
			case n == 3:
				panic("a prober's")
			case n == 4:
				runtime.Goexit()
			case n == 5:
				time.Sleep(time.Hour) // and does not look at its context
			case away.Load():
				return errAway
			}
			return nil
		}}
		// One message, three refusals: enough. With a budget of two, the second was the last attempt.
		run := r.start(processor.Config{MaxDequeueCount: 2}, h)
		time.Sleep(time.Hour)
		if n := r.calls.count(); n != 3 {
			t.Errorf("%d deliveries, want 3", n)
		}
		if n := probes.Load(); n < 60 || n > 70 {
			t.Errorf("%d probes in an hour", n)
		}
		away.Store(false)
		time.Sleep(2 * time.Minute)
		r.end(run)
		r.left(0, 0)
		r.logged(opened, 1)
		r.logged(mended, 1)
	})
}

// Nothing ever works: at last the messages are quarantined, for no certain fault of another's.
func TestWhatNeverWorksIsQuarantinedAtLast(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		r.runFor(3*time.Hour, processor.Config{}, r.handle(fail))
		r.left(0, 3)
		for _, rec := range r.poisoned() {
			if rec.DequeueCount > 26 || rec.DequeueCount < 20 || rec.Category != "max_dequeue" {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

func TestABadMessageAloneIsNoOutage(t *testing.T) {
	for _, messages := range []int{1, 2} {
		bubble(t, func(t *testing.T, r *rig) {
			r.fill(messages)
			r.runFor(5*time.Minute, processor.Config{}, r.handle(fail))
			r.left(0, messages)
			r.logged(opened, 0)
			if n := r.calls.count(); n != 5*messages {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

func TestWithTheBreakerOffEveryDeliveryCounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(20)
		r.runFor(10*time.Minute, processor.Config{Breaker: processor.BreakerConfig{Off: true}}, r.handle(fail))
		r.left(0, 20)
		if n := r.calls.count(); n != 100 {
			t.Errorf("%d deliveries, want 100", n)
		}
	})
}

// Other processes have used up the budget in an outage that this one has seen.
func TestAfterAnOutageEachMessageGetsAnAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var d downstream
		d.away.Store(true)
		r.fill(30)
		run := r.start(processor.Config{Breaker: processor.BreakerConfig{MinPause: 10 * time.Minute, MaxPause: 10 * time.Minute}}, r.handle(d.call))
		time.Sleep(30 * time.Second)
		if !run.Status().BreakerOpen {
			t.Fatal("the breaker is closed")
		}
		for range 8 {
			for {
				got, err := r.q.Receive(t.Context(), 32, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) == 0 {
					break
				}
			}
			time.Sleep(time.Second)
		}
		d.away.Store(false)
		time.Sleep(20 * time.Minute)
		r.end(run)
		r.left(0, 0)
	})
}

func TestAnOpenBreakerCanBePausedAndShutDown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(30)
		run := r.start(processor.Config{}, r.handle(fail))
		time.Sleep(time.Minute)
		run.Pause()
		before := r.calls.count()
		time.Sleep(10 * time.Minute)
		if n := r.calls.count() - before; n != 0 {
			t.Errorf("%d probes while paused", n)
		}
		run.Resume()
		time.Sleep(2 * time.Minute)
		if n := r.calls.count() - before; n == 0 {
			t.Error("no probe after the pause")
		}
		began := time.Now()
		r.end(run)
		if took := time.Since(began); took > time.Second {
			t.Errorf("shutdown took %v", took)
		}
	})
}

func TestASuccessBetweenFailuresKeepsItClosed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var n atomic.Int64
		r.fill(200)
		r.runFor(10*time.Minute, processor.Config{Breaker: processor.BreakerConfig{After: processor.Off}}, r.handle(func(context.Context, *processor.Message) error {
			time.Sleep(20 * time.Millisecond) // one is judged before the next returns
			if n.Add(1)%8 == 0 {
				return nil
			}
			return errBroken
		}))
		r.logged(opened, 0)
	})
}

package processor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
)

// A handler that is mended in an outage, by a reload, say, gets what the outage spared.
func TestASuccessorRemembersWhatTheOutageCost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		d := &downstream{err: processor.Unavailable(errBroken)}
		d.away.Store(true)
		broken := r.start(processor.Config{}, r.handle(d.call))
		time.Sleep(30 * time.Minute)
		r.end(broken)
		r.left(3, 0)

		ready := make(chan struct{})
		mended := r.start(processor.Config{Ready: ready}, r.handle(succeed))
		mended.Inherit(broken.Processor)
		close(ready)
		time.Sleep(10 * time.Minute)
		r.end(mended)
		r.left(0, 0)
		r.counted(map[string]float64{"queue_messages_processed_total": 3})
	})
}

// It remembers the attempts as well, for the poison record.
func TestASuccessorKnowsTheAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(1)
		first := r.start(processor.Config{}, r.handle(fail))
		time.Sleep(20 * time.Second) // three attempts
		r.end(first)
		ready := make(chan struct{})
		second := r.start(processor.Config{Ready: ready}, r.handle(fail))
		second.Inherit(first.Processor)
		close(ready)
		time.Sleep(3 * time.Minute)
		r.end(second)
		if all := r.poisoned(); len(all) != 1 || len(all[0].Attempts) != 5 {
			t.Errorf("poison records %+v, want one with five attempts", all)
		}
	})
}

// Nor does a handover in an outage cost a message more than no handover does, when it is not yet known to be one either.
func TestAHandoverInAnOutageLosesNothing(t *testing.T) {
	for name, err := range map[string]error{"plain": errBroken, "network": errAway} {
		for _, replicas := range []int{1, 3} {
			for _, messages := range []int{3, 5} {
				for _, at := range []time.Duration{3 * time.Second, 12 * time.Second, 20 * time.Second, 31 * time.Second, 47 * time.Second, 4 * time.Minute} {
					t.Run(fmt.Sprintf("%s, %d messages, %d replicas, after %v", name, messages, replicas, at), func(t *testing.T) {
						bubble(t, func(t *testing.T, r *rig) {
							d := &downstream{err: err}
							d.away.Store(true)
							r.fill(messages)
							runs := make([]*running, replicas)
							for i := range runs {
								runs[i] = r.start(processor.Config{}, r.handle(d.call))
							}
							time.Sleep(at)
							for i := range runs {
								runs[i] = r.handOver(runs[i], r.handle(d.call))
								time.Sleep(time.Second)
							}
							time.Sleep(10 * time.Minute)
							d.away.Store(false)
							time.Sleep(10 * time.Minute)
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
}

// handOver has another processor take a processor's place.
func (r *rig) handOver(old *running, h processor.Handler) *running {
	r.t.Helper()
	r.end(old)
	ready := make(chan struct{})
	run := r.start(processor.Config{Ready: ready}, h)
	run.Inherit(old.Processor)
	close(ready)
	return run
}

// One that takes over an open breaker tries its handler with one message, and receives on when that works.
func TestASuccessorOfAnOpenBreakerProbesAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		h     func(context.Context, *processor.Message) error
		calls int
		open  bool
	}{
		"mended":       {succeed, 40, false},
		"still broken": {fail, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fill(40)
				old := r.start(processor.Config{}, r.handle(fail))
				time.Sleep(10 * time.Minute)
				if !old.Status().BreakerOpen {
					t.Fatal("closed")
				}
				n := r.calls.count()
				run := r.handOver(old, r.handle(tt.h))
				time.Sleep(time.Second)
				if r.calls.count() == n {
					t.Error("no probe")
				}
				time.Sleep(2 * time.Second)
				if got := r.calls.count() - n; tt.open && got > tt.calls {
					t.Errorf("%d deliveries to the handler, want at most %d", got, tt.calls)
				}
				if got := run.Status().BreakerOpen; got != tt.open {
					t.Errorf("open: %v", got)
				}
				if !tt.open {
					time.Sleep(2 * time.Minute)
					r.left(0, 0)
				}
				r.end(run)
			})
		})
	}
}

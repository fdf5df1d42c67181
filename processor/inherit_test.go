package processor_test

import (
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

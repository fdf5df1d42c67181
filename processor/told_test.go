package processor_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const hearsay = "an outage that other processes saw may last still; probing"

// A restart in an outage costs a probe now and then, not a row of failures.
func TestAProcessStartedInAnOutageOnlyProbes(t *testing.T) {
	for _, messages := range []int{3, 40, 500} {
		t.Run(fmt.Sprint(messages), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var d downstream
				d.err = errBroken
				d.away.Store(true)
				r.fill(messages)
				run := r.start(processor.Config{}, r.handle(d.call))
				time.Sleep(4 * time.Minute)
				for range 4 {
					r.end(run)
					n := r.calls.count()
					run = r.start(processor.Config{}, r.handle(d.call))
					time.Sleep(time.Minute)
					if got := r.calls.count() - n; got > 3 {
						t.Errorf("a restart and a minute cost %d deliveries, want at most 3", got)
					}
				}
				r.logged(hearsay, 4)
				d.away.Store(false)
				r.end(run) // the fix is deployed
				run = r.start(processor.Config{}, r.handle(d.call))
				time.Sleep(time.Second)
				if run.Status().BreakerOpen && messages > 3 { // of three it may wait for the retry delay
					t.Error("open a second after the start of a process that works")
				}
				time.Sleep(5 * time.Minute)
				r.end(run)
				r.left(0, 0)
			})
		})
	}
}

// Others' word alone is not passed on, nor does it last.
func TestAnOutageHeardOfIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		ago time.Duration
		cfg processor.Config
		was int
	}{
		"just now":        {30 * time.Second, processor.Config{}, 1},
		"long ago":        {11 * time.Minute, processor.Config{}, 0},
		"no record":       {30 * time.Second, private(), 0},
		"no breaker":      {30 * time.Second, processor.Config{Breaker: processor.BreakerConfig{Off: true}}, 0},
		"an hourly retry": {11 * time.Minute, processor.Config{Retry: processor.RetryConfig{Initial: time.Hour}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.lasted(time.Hour, tt.ago)
				before := r.metadata()
				r.srv.ResetCounts()
				r.fill(100)
				run := r.start(tt.cfg, r.handle(succeed))
				time.Sleep(10 * time.Second)
				r.left(0, 0)
				if run.Status().BreakerOpen {
					t.Error("open")
				}
				r.end(run)
				r.logged(hearsay, tt.was)
				if got := r.metadata(); !maps.Equal(before, got) || r.requests(queuetest.OpOther) != 0 {
					t.Errorf("the metadata became %v", got)
				}
			})
		})
	}
}

// A storage that does not answer what is asked about the past holds up neither the start nor the end.
func TestAStartDoesNotWaitForTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.inject(queuetest.Fault{Operation: queuetest.OpProperties, Hang: true})
		r.fill(1)
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(time.Second)
		r.left(0, 0)
		began := time.Now()
		r.end(run)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// A message that ends its processes does not live on an outage that was over when it came.
func TestAFatalMessageSentAfterAnOutageEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lasted(20*time.Minute, time.Minute)
		r.send("fatal")
		for range 30 {
			var died atomic.Bool
			var stop atomic.Value
			run := r.start(processor.Config{VisibilityTimeout: time.Second, NoRenew: true, DrainTimeout: processor.Off}, r.handle(func(ctx context.Context, _ *processor.Message) error {
				died.Store(true)
				time.Sleep(time.Millisecond) // until there is something to stop
				stop.Load().(context.CancelFunc)()
				<-ctx.Done()
				time.Sleep(2 * time.Second) // its lease lapses: nobody gives it back
				return ctx.Err()
			}))
			stop.Store(run.stop)
			time.Sleep(10 * time.Second)
			run.stop()
			<-run.done // its handler may not have returned
			if !died.Load() {
				break
			}
		}
		r.left(0, 1)
		if n := r.calls.count(); n != 5 {
			t.Errorf("delivered %d times, want 5", n)
		}
	})
}

// A refusal may pass: that of a key that is being changed, say.
func TestARefusalOfTheRecordIsNotTakenAtItsWord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(8)
		r.worn(7)
		r.lasted(time.Hour, 0)
		r.inject(queuetest.Fault{Operation: queuetest.OpProperties, Times: 2, Status: 403, Code: "AuthenticationFailed"})
		r.runFor(20*time.Minute, processor.Config{}, r.handle(succeed))
		r.left(0, 0)
	})
}

// The end of an outage is written down in the end, whatever else there is to write.
func TestTheEndOfAnOutageIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var away atomic.Bool
		away.Store(true)
		h := r.handle(func(_ context.Context, m *processor.Message) error {
			if away.Load() || string(m.Body) == "bad" {
				return errBroken
			}
			return nil
		})
		remove := r.inject(queuetest.Fault{Operation: queuetest.OpOther, Status: 503})
		r.fill(10)
		run := r.start(processor.Config{}, h)
		time.Sleep(3 * time.Minute)
		away.Store(false)
		time.Sleep(2 * time.Minute)
		r.left(0, 0)
		run.Pause()
		r.send("bad")
		r.worn(3) // others have had it: what fails here is written down
		run.Resume()
		time.Sleep(40 * time.Second)
		remove()
		time.Sleep(3 * time.Minute)
		r.end(run)
		if got := r.metadata(); !strings.HasPrefix(got[processor.MetadataOutage], "2000-01-01T00:00:0") {
			t.Errorf("the metadata is %v", got)
		}
	})
}

// What somebody writes while a write fails is there when it is tried again.
func TestAFailedWriteOverwritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(20)
		r.inject(queuetest.Fault{Operation: queuetest.OpOther, Times: 1, Delay: 500 * time.Millisecond, Status: 503, RetryAfter: 2 * time.Second})
		run := r.start(processor.Config{}, r.handle(fail))
		for r.requests(queuetest.OpOther) < 1 {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		r.setMetadata(map[string]string{"qwatch_tier": "2"})
		time.Sleep(5 * time.Minute)
		r.end(run)
		if got := r.metadata(); got["qwatch_tier"] != "2" || got[processor.MetadataOutage] == "" {
			t.Errorf("the metadata is %v", got)
		}
	})
}

// Names of metadata have a case, which somebody may go by.
func TestOthersMetadataKeepItsNames(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		theirs := map[string]string{"ownerTeam": "mail", "CostCenter": "A 17", "qwatch_tier": "1"}
		r.setMetadata(theirs)
		r.fill(20)
		r.runFor(5*time.Minute, processor.Config{}, r.handle(fail))
		got := r.metadata()
		if got[processor.MetadataOutage] == "" {
			t.Error("nothing recorded")
		}
		delete(got, processor.MetadataOutage)
		if diff := cmp.Diff(theirs, got); diff != "" {
			t.Errorf("others' metadata (-before +after):\n%s", diff)
		}
	})
}

// Without the permission to find them out nothing is written; where there are no others' entries none is needed.
func TestNamesThatMayNotBeReadAreLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		theirs   map[string]string
		recorded bool
	}{
		"others' entries": {map[string]string{"ownerTeam": "mail"}, false},
		"our own":         {map[string]string{"qwatch_tier": "1"}, true},
		"none":            {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.setMetadata(tt.theirs)
				remove := r.srv.Inject(queuetest.Fault{Operation: queuetest.OpList, Status: 403, Code: "AuthorizationPermissionMismatch"})
				r.fill(20)
				r.runFor(5*time.Minute, processor.Config{}, r.handle(fail))
				remove()
				got := r.metadata()
				if tt.recorded != (got[processor.MetadataOutage] != "") {
					t.Errorf("the metadata is %v", got)
				}
				for name, value := range tt.theirs {
					if got[name] != value {
						t.Errorf("the metadata is %v, want still %v", got, tt.theirs)
					}
				}
				told := 1
				if tt.recorded {
					told = 0
				}
				r.logged("outages cannot be written to the queue's metadata; other processes do not learn of them", told)
			})
		})
	}
}

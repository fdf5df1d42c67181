package processor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMetadataThatMayNotBeUsed(t *testing.T) {
	const code = "AuthorizationPermissionMismatch"
	for name, ops := range map[string][]queuetest.Operation{"read": {queuetest.OpProperties, queuetest.OpOther}, "written": {queuetest.OpOther}} {
		t.Run("nor "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for _, op := range ops {
					r.inject(queuetest.Fault{Operation: op, Status: 403, Code: code})
				}
				r.fill(30)
				r.runFor(10*time.Minute, processor.Config{}, r.handle(fail))
				r.left(30, 0)
				if l := r.logged("outages cannot be written to the queue's metadata; other processes do not learn of them", 1); len(l) == 1 && l[0]["level"] != "WARN" {
					t.Errorf("logged as %v", l[0])
				}
				r.worn(8)
				r.runFor(20*time.Minute, processor.Config{}, r.handle(succeed)) // a refusal may pass, at first
				r.left(0, 30)
				again := 0
				if len(ops) > 1 {
					again = 1
				}
				r.logged("outages that other processes saw cannot be looked up; messages delivered too often are dead-lettered", again)
				if n := r.requests(queuetest.OpProperties) + r.requests(queuetest.OpOther); n > 20 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

func TestMetadataThatCannotBeReadForNow(t *testing.T) {
	for name, fault := range map[string]queuetest.Fault{
		"refused": {Refuse: true},
		"broken":  {Status: 500},
		"hanging": {Hang: true},
	} {
		for lasted, poison := range map[time.Duration]int{time.Hour: 0, -time.Hour: 5} {
			t.Run(fmt.Sprintf("%s, outage %v ago", name, lasted), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.fill(5)
					r.worn(6)
					if poison == 0 {
						r.lasted(lasted, 0)
					}
					fault.Operation = queuetest.OpProperties
					remove := r.inject(fault)
					run := r.start(processor.Config{Concurrency: 2}, r.handle(succeed))
					time.Sleep(5 * time.Minute)
					r.left(5, 0)
					if n := r.calls.count(); n != 0 {
						t.Errorf("%d deliveries to the handler", n)
					}
					r.send("good") // is not held up
					time.Sleep(2 * time.Minute)
					if n := r.calls.count(); n != 1 {
						t.Errorf("%d deliveries to the handler, want the good message's", n)
					}
					remove()
					time.Sleep(20 * time.Minute)
					r.end(run)
					r.left(0, poison)
					r.logged("past outages cannot be looked up for now; messages delivered too often are given back", 1)
					r.logged("past outages can be looked up again", 1)
				})
			})
		}
	}
}

// It does not go on for ever.
func TestMetadataThatCanNeverBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(2)
		r.worn(6)
		r.inject(queuetest.Fault{Operation: queuetest.OpProperties, Status: 500})
		r.runFor(3*time.Hour, processor.Config{}, r.handle(succeed))
		r.left(0, 2)
		for _, rec := range r.poisoned() {
			if rec.DequeueCount != 26 || rec.Category != "max_dequeue" {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// The last write does not hold up the end.
func TestTheEndWaitsNotLongForTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		run := r.start(processor.Config{}, r.handle(fail))
		time.Sleep(5 * time.Minute)
		r.inject(queuetest.Fault{Operation: queuetest.OpProperties, Hang: true})
		began := time.Now()
		r.end(run)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// Failures of a write are made good.
func TestARecordThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		remove := r.inject(queuetest.Fault{Operation: queuetest.OpOther, Status: 500})
		run := r.start(processor.Config{}, r.handle(fail))
		time.Sleep(5 * time.Minute)
		if got := r.metadata()[processor.MetadataOutage]; got != "" {
			t.Errorf("recorded %q", got)
		}
		remove()
		time.Sleep(30 * time.Second)
		if got := r.metadata()[processor.MetadataOutage]; got == "" {
			t.Error("nothing recorded")
		}
		r.end(run)
		r.logged("writing an outage to the queue's metadata failed; trying again", 1)
		r.logged("outages can be written down again", 1)
	})
}

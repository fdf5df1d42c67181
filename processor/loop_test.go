package processor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestMessagesAreHandledAndCompleted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 100 {
			r.send(fmt.Sprintf("message %d", i))
		}
		r.runFor(time.Second, processor.Config{Concurrency: 8}, r.handle(succeed))
		if n := r.calls.count(); n != 100 {
			t.Errorf("%d calls, want 100", n)
		}
		r.left(0, 0)
		r.counted(map[string]float64{
			"queue_messages_received_total":                                      100,
			"queue_messages_processed_total":                                     100,
			"queue_messages_started_total":                                       100,
			"queue_messages_failed_total":                                        0,
			"queue_message_processing_duration_seconds{queue_outcome=completed}": 100,
			"queue_message_size_bytes":                                           100,
			"queue_message_time_in_queue_seconds":                                100,
			"queue_message_delivery_attempts":                                    100,
			"queue_message_attempts_to_complete":                                 100,
		})
	})
}

// B80: prefetched leases lapse while they wait. Nothing is received that no handler is free for.
func TestNoMoreIsReceivedThanHandlersAreFree(t *testing.T) {
	for _, c := range []int{1, 3, 40} {
		t.Run(fmt.Sprintf("concurrency %d", c), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for i := range 100 {
					r.send(fmt.Sprint(i))
				}
				var running, most atomic.Int32
				run := r.start(processor.Config{Concurrency: c}, r.handle(func(ctx context.Context, m *processor.Message) error {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					return takes(time.Second)(ctx, m)
				}))
				for range 10 {
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					hidden := 0
					for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
						if !m.Visible {
							hidden++
						}
					}
					if n := int(running.Load()); hidden > n {
						t.Errorf("%d messages are hidden with %d handlers running", hidden, n)
					}
				}
				r.end(run)
				if got := int(most.Load()); got != c {
					t.Errorf("%d handlers ran at once, want %d", got, c)
				}
			})
		})
	}
}

func TestAnEmptyQueueIsPolledEverMoreSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(60 * time.Second) // 1+2+4+8+16 s, then every 30 s
		if n := r.requests(queuetest.OpReceive); n < 6 || n > 7 {
			t.Errorf("%d receives in the first minute, want 6 or 7", n)
		}
		time.Sleep(time.Minute)
		before := r.requests(queuetest.OpReceive)
		time.Sleep(time.Hour) // B32: at most one request each 30 s
		if n := r.requests(queuetest.OpReceive) - before; n != 120 {
			t.Errorf("%d receives in an idle hour, want 120", n)
		}

		r.send("wake up")
		for sent := time.Now(); r.calls.count() == 0; time.Sleep(100 * time.Millisecond) {
			if time.Since(sent) > 30*time.Second {
				t.Fatal("the message was not received within the longest wait")
			}
		}
		before = r.requests(queuetest.OpReceive)
		time.Sleep(10 * time.Second) // reset by the message: at once, 1, 2, 4 s
		if n := r.requests(queuetest.OpReceive) - before; n < 2 {
			t.Errorf("%d receives in the 10s after a message, want the wait to start over", n)
		}
		r.end(run)
	})
}

// B29: a listener that gives up after some failures.
func TestReceivingResumesAloneAfterAnyOutage(t *testing.T) {
	faults := map[string]struct {
		fault queuetest.Fault
		level string
		class string
	}{
		"throttled":            {queuetest.Busy(0), "WARN", "throttled"},
		"server errors":        {queuetest.Fault{Status: 500}, "WARN", "server"},
		"refused connections":  {queuetest.Fault{Refuse: true}, "WARN", "network"},
		"storage frozen":       {queuetest.Fault{Hang: true}, "WARN", "timeout"},
		"credential refused":   {queuetest.Fault{Status: 403, Code: "AuthenticationFailed"}, "ERROR", "auth"},
		"queue missing":        {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, "ERROR", "not_found"},
		"answers that are cut": {queuetest.Fault{Truncate: true}, "WARN", "network"},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				f.fault.Operation = queuetest.OpReceive
				mend := r.inject(f.fault)
				run := r.start(processor.Config{}, r.handle(succeed))
				time.Sleep(30 * time.Minute)
				s := run.Status()
				if s.State != processor.StateRunning || s.ReceiveFailures < 20 || s.LastError != f.class {
					t.Errorf("status in the outage is %+v, want running, 20 failures or more, class %s", s, f.class)
				}
				if n := r.requests(queuetest.OpReceive); n < 20 || n > 40 {
					t.Errorf("%d receives in half an hour of outage, want about one a minute", n)
				}
				mend()
				r.send("after the outage")
				time.Sleep(time.Minute)
				synctest.Wait()
				if r.calls.count() != 1 {
					t.Error("consumption has not resumed within the longest wait")
				}
				r.end(run)
				lines := r.logged("receive failed; trying again until it works", 1)
				if lines[0]["level"] != f.level || lines[0]["reason"] != f.class || lines[0]["queue"] != "orders" {
					t.Errorf("the outage was logged as %v", lines[0])
				}
				r.logged("receiving again", 1)
				if s := run.Status(); s.ReceiveFailures != 0 || s.LastError != "" {
					t.Errorf("status after the outage is %+v", s)
				}
			})
		})
	}
}

func TestThePatienceTheServiceAsksForIsGiven(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.inject(queuetest.Busy(20 * time.Second))
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(59 * time.Second)
		if n := r.requests(queuetest.OpReceive); n != 3 {
			t.Errorf("%d receives in a minute, want one each 20s", n)
		}
		r.end(run)
	})
}

func TestAQueueThatIsCreatedLateIsConsumed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if err := r.q.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(10 * time.Minute)
		if err := r.q.Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.send("first")
		time.Sleep(61 * time.Second)
		if r.calls.count() != 1 {
			t.Error("the queue is not consumed a minute after it was created")
		}
		r.end(run)
	})
}

func TestAFlappingStorageDoesNotFillTheLog(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var n atomic.Int32
		r.inject(queuetest.Fault{Operation: queuetest.OpReceive, Status: 500, Match: func(queuetest.Op) bool { return n.Add(1)%2 == 0 }})
		r.runFor(10*time.Minute, processor.Config{EmptyBackoffMax: time.Second}, r.handle(succeed))
		if got := len(r.logs.find("receive failed; trying again until it works")); got < 5 || got > 11 {
			t.Errorf("ten minutes of every other receive failing gave %d lines, want about one a minute", got)
		}
		if got := r.requests(queuetest.OpReceive); got < 500 {
			t.Errorf("%d receives in ten minutes, want one a second: a receive that works ends the back-off", got)
		}
	})
}

func TestASecondKindOfFailureIsToldInTheSameOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		mend := r.inject(queuetest.Fault{Operation: queuetest.OpReceive, Status: 500})
		run := r.start(processor.Config{}, r.handle(succeed))
		time.Sleep(5 * time.Minute)
		r.inject(queuetest.Fault{Operation: queuetest.OpReceive, Status: 403, Code: "AuthenticationFailed"})
		mend()
		time.Sleep(5 * time.Minute)
		r.end(run)
		lines := r.logged("receive failed; trying again until it works", 2)
		if lines[1]["reason"] != "auth" {
			t.Errorf("the second line is %v", lines[1])
		}
	})
}

func TestPollingStartsWhenTheProcessIsReady(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("early")
		ready := make(chan struct{})
		run := r.start(processor.Config{Ready: ready}, r.handle(succeed))
		time.Sleep(time.Hour)
		if n := r.requests(queuetest.OpReceive); n != 0 {
			t.Errorf("%d receives before the process was ready", n)
		}
		if s := run.Status().State; s != processor.StateWaiting {
			t.Errorf("state is %v, want waiting", s)
		}
		close(ready)
		synctest.Wait()
		if r.calls.count() != 1 {
			t.Error("the message was not handled at once")
		}
		r.end(run)
	})
}

func TestShutdownDuringStartUpIsClean(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.start(processor.Config{Ready: make(chan struct{})}, r.handle(succeed))
		time.Sleep(time.Second)
		began := time.Now()
		r.end(run)
		if d := time.Since(began); d != 0 {
			t.Errorf("shutdown took %v", d)
		}
		if n := r.requests(queuetest.OpReceive); n != 0 {
			t.Errorf("%d receives", n)
		}
		if s := run.Status().State; s != processor.StateStopped {
			t.Errorf("state is %v, want stopped", s)
		}
	})
}

func TestAPausedProcessorFinishesWhatItHolds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("one", "two")
		run := r.start(processor.Config{}, r.handle(takes(10*time.Second)))
		time.Sleep(time.Second)
		run.Pause()
		run.Pause()
		time.Sleep(time.Hour)
		if s := run.Status(); s.State != processor.StatePaused || r.calls.count() != 1 {
			t.Errorf("paused: state %v, %d calls, want paused and 1", s.State, r.calls.count())
		}
		r.left(1, 0)
		r.counted(map[string]float64{"queue_processor_paused": 1})
		run.Resume()
		synctest.Wait()
		if r.calls.count() != 2 {
			t.Error("the next message was not received at once")
		}
		time.Sleep(11 * time.Second)
		r.left(0, 0)
		r.end(run)
		r.logged("processor paused", 1)
		r.logged("processor resumed", 1)
	})
}

func TestResumeInterruptsTheWaitOnAnEmptyQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.start(processor.Config{EmptyBackoffMin: time.Hour}, r.handle(succeed))
		time.Sleep(time.Minute)
		r.send("one")
		run.Pause()
		time.Sleep(time.Second)
		run.Resume()
		synctest.Wait()
		if r.calls.count() != 1 {
			t.Error("resuming did not receive at once")
		}
		r.end(run)
	})
}

// B66: long work killed by liveness. A full house beats on; only a loop that does not turn is silent.
func TestTheLoopBeatsWhateverItWaitsFor(t *testing.T) {
	setups := map[string]func(r *rig) processor.Config{
		"an empty queue":     func(*rig) processor.Config { return processor.Config{} },
		"every handler busy": func(r *rig) processor.Config { r.send("long"); return processor.Config{} },
		"storage out":        func(r *rig) processor.Config { r.inject(queuetest.Fault{Status: 503}); return processor.Config{} },
		"storage frozen":     func(r *rig) processor.Config { r.inject(queuetest.Fault{Hang: true}); return processor.Config{} },
		"not ready yet":      func(*rig) processor.Config { return processor.Config{Ready: make(chan struct{})} },
	}
	for name, setup := range setups {
		t.Run("waiting for "+name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				cfg := setup(r)
				last, longest := time.Now(), time.Duration(0)
				cfg.Beat = func() {
					longest = max(longest, time.Since(last))
					last = time.Now()
				}
				run := r.start(cfg, r.handle(takes(9*time.Hour)))
				time.Sleep(8 * time.Hour)
				if since := time.Since(run.Status().LastTurn); since > 30*time.Second {
					t.Errorf("the last turn was %v ago", since)
				}
				time.Sleep(2 * time.Hour)
				r.end(run)
				if longest > 30*time.Second {
					t.Errorf("the loop was silent for %v", longest)
				}
			})
		})
	}
}

func TestAWedgedLoopStopsBeating(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		wedge := make(chan struct{})
		var beats atomic.Int32
		run := r.start(processor.Config{Beat: func() {
			if beats.Add(1) == 3 {
				<-wedge
			}
		}}, r.handle(succeed))
		time.Sleep(time.Hour)
		if since := time.Since(run.Status().LastTurn); since < 59*time.Minute {
			t.Errorf("a wedged loop last turned %v ago", since)
		}
		close(wedge)
		r.end(run)
	})
}

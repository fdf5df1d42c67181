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
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// most is the largest dequeue count that a handler has seen.
func (c *calls) most() int {
	n := 0
	for _, c := range c.list() {
		n = max(n, c.attempt)
	}
	return n
}

func (r *rig) metadata() map[string]string {
	return r.srv.Metadata(queuetest.AccountName, "orders")
}

func (r *rig) setMetadata(metadata map[string]string) {
	r.t.Helper()
	if err := r.q.SetMetadata(r.t.Context(), metadata); err != nil {
		r.t.Fatal(err)
	}
}

// lasted sets a note of an outage from and until so long ago.
func (r *rig) lasted(from, until time.Duration) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	r.setMetadata(map[string]string{processor.MetadataOutage: at(from) + "/" + at(until)})
}

// worn has processes that die take everything there is, so many times.
func (r *rig) worn(times int) {
	r.t.Helper()
	for range times {
		for {
			got, err := r.q.Receive(r.t.Context(), 32, time.Second)
			if err != nil {
				r.t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
		}
		time.Sleep(time.Second)
	}
}

// replicas starts several processes, and returns what ends them.
func (r *rig) replicas(n int, cfg processor.Config, h processor.Handler) (end func()) {
	runs := make([]*running, n)
	for i := range runs {
		runs[i] = r.start(cfg, h)
	}
	return func() {
		for _, run := range runs {
			r.end(run)
		}
	}
}

func private() processor.Config {
	return processor.Config{Breaker: processor.BreakerConfig{NoRecord: true}}
}

// Replicas with few messages between them, each of which sees too little of an outage to know it.
func TestReplicasWithFewMessagesLoseNothingInAnOutage(t *testing.T) {
	for name, err := range map[string]error{"plain": errBroken, "network": errAway, "unavailable": processor.Unavailable(errBroken)} {
		for _, replicas := range []int{2, 3, 4} {
			for _, messages := range []int{1, 2, 3, 4, 5, 8} {
				if name == "plain" && messages < 3 {
					continue // nothing tells them from bad ones
				}
				t.Run(fmt.Sprintf("%s, %d messages, %d replicas", name, messages, replicas), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) {
						d := &downstream{err: err}
						d.away.Store(true)
						r.fill(messages)
						end := r.replicas(replicas, processor.Config{}, r.handle(d.call))
						time.Sleep(10 * time.Minute)
						d.away.Store(false)
						time.Sleep(10 * time.Minute)
						end()
						r.left(0, 0)
					})
				})
			}
		}
	}
}

// Without the metadata that is not so, or the test above shows nothing.
func TestWithoutTheRecordReplicasLoseMessages(t *testing.T) {
	lost := 0
	for range 5 {
		bubble(t, func(t *testing.T, r *rig) {
			d := &downstream{err: errBroken}
			d.away.Store(true)
			r.fill(3)
			end := r.replicas(4, private(), r.handle(d.call))
			time.Sleep(10 * time.Minute)
			end()
			lost += r.srv.Len(queuetest.AccountName, "orders-poison")
			if len(r.metadata()) != 0 {
				t.Errorf("metadata %v, though that is off", r.metadata())
			}
		})
	}
	if lost == 0 {
		t.Error("nothing was lost")
	}
}

func TestAProcessStartedInAnOutageSparesWhatItCost(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for _, messages := range []int{3, 8, 40} {
			for _, at := range []time.Duration{4 * time.Minute, 9*time.Minute + 50*time.Second} {
				t.Run(fmt.Sprintf("%d messages, %d replicas, after %v", messages, replicas, at), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) {
						d := &downstream{err: errBroken}
						d.away.Store(true)
						r.fill(messages)
						end := r.replicas(replicas, processor.Config{}, r.handle(d.call))
						time.Sleep(at)
						end()
						end = r.replicas(replicas, processor.Config{}, r.handle(d.call))
						time.Sleep(10*time.Minute - at)
						d.away.Store(false)
						time.Sleep(10 * time.Minute)
						end()
						r.left(0, 0)
					})
				})
			}
		}
	}
}

func TestWithoutTheRecordARestartInAnOutageLosesMessages(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		r.runFor(4*time.Minute, private(), r.handle(fail))
		r.runFor(6*time.Minute, private(), r.handle(fail))
		r.runFor(5*time.Minute, private(), r.handle(succeed))
		if n := r.srv.Len(queuetest.AccountName, "orders-poison"); n == 0 {
			t.Error("nothing was lost: the test above shows nothing")
		}
	})
}

// A fix is deployed long after: to a new process, which knows nothing.
func TestAProcessStartedAfterAnOutageSparesWhatItCost(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg    processor.Config
		poison int
	}{
		"with the record":    {processor.Config{}, 0},
		"without the record": {private(), 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fill(3)
				r.runFor(10*time.Minute, tt.cfg, r.handle(fail))
				r.left(3, 0)
				if n := r.calls.most(); n < 6 {
					t.Fatalf("at most %d deliveries", n)
				}
				time.Sleep(8 * time.Hour)
				r.runFor(5*time.Minute, tt.cfg, r.handle(succeed))
				r.left(0, tt.poison)
			})
		})
	}
}

// It gets the attempts that a message has in a process: the fix may need a second one.
func TestWhatAnOutageCostLeavesTheNextProcessItsAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(2)
		r.worn(7)
		r.lasted(10*time.Minute, 0)
		time.Sleep(time.Hour)
		r.runFor(10*time.Minute, processor.Config{}, r.handle(fail))
		r.left(0, 2)
		if n := r.calls.count(); n != 10 {
			t.Errorf("%d attempts of 2 messages, want 5 each", n)
		}
		r.logged(opened, 0)
	})
}

func TestABatchProcessorSparesWhatAnOutageCost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(20)
		r.worn(7)
		r.lasted(10*time.Minute, 0)
		r.batchFor(10*time.Minute, processor.BatchConfig{}, func(context.Context, []*processor.Message) error { return nil })
		r.left(0, 0)
	})
}

// What a process that is killed wrote last is what others know.
func TestTheRecordOfAKilledProcessEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.fill(3)
		wire := &cutWire{srv: r.srv, cut: &atomic.Bool{}}
		acct, err := queue.NewAccount(queue.AccountConfig{Name: account, ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: wire})
		if err != nil {
			t.Fatal(err)
		}
		q, err := acct.Queue("orders", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		run := r.startOn(q, processor.Config{}, r.handle(fail))
		time.Sleep(8 * time.Minute)
		wire.cut.Store(true)
		killed := time.Now()
		time.Sleep(time.Minute)
		r.end(run)
		from, until, _ := strings.Cut(r.metadata()[processor.MetadataOutage], "/")
		begin, err := time.Parse(time.RFC3339, from)
		end, err2 := time.Parse(time.RFC3339, until)
		if err != nil || err2 != nil || begin.Sub(began).Abs() > time.Second || end.After(killed) || killed.Sub(end) > 75*time.Second {
			t.Errorf("recorded %s to %s of an outage from %v, killed at %v", from, until, began, killed)
		}
		time.Sleep(time.Hour)
		r.runFor(5*time.Minute, processor.Config{}, r.handle(succeed))
		r.left(0, 0)
	})
}

func TestTheRecordOfAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		theirs := map[string]string{"team": "mail", "qwatch_tier": "2", "other": "a/b, c"}
		r.setMetadata(theirs)
		r.srv.ResetCounts()
		var d downstream
		d.away.Store(true)
		r.fill(30)
		began := time.Now()
		end := r.replicas(3, processor.Config{}, r.handle(d.call))
		time.Sleep(10 * time.Minute)
		if n := r.requests(queuetest.OpOther); n < 5 || n > 33 { // a minute each, at most
			t.Errorf("written %d times in ten minutes by three processes", n)
		}
		if n := r.requests(queuetest.OpProperties); n > 60 {
			t.Errorf("read %d times in ten minutes by three processes", n)
		}
		d.away.Store(false)
		time.Sleep(3 * time.Minute)
		end()
		got := r.metadata()
		from, until, _ := strings.Cut(got[processor.MetadataOutage], "/")
		begin, err := time.Parse(time.RFC3339, from)
		over, err2 := time.Parse(time.RFC3339, until)
		if err != nil || err2 != nil || begin.Sub(began).Abs() > 5*time.Second || over.Sub(began.Add(10*time.Minute)) > 2*time.Minute || over.Before(began.Add(10*time.Minute)) {
			t.Errorf("recorded %s to %s of ten minutes from %v", from, until, began)
		}
		delete(got, processor.MetadataOutage)
		if diff := cmp.Diff(theirs, got); diff != "" {
			t.Errorf("others' metadata (-before +after):\n%s", diff)
		}
	})
}

// Neither messages that work nor bad ones cost a request beside the one at the start.
func TestWithoutAnOutageNothingIsReadOrWritten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 300 {
			r.send([]string{"good", "good", "good", "twice", "bad"}[i%5])
		}
		run := r.start(processor.Config{Concurrency: 4}, r.handle(func(_ context.Context, m *processor.Message) error {
			if string(m.Body) == "bad" || string(m.Body) == "twice" && m.Attempt() == 1 {
				return errBroken
			}
			return nil
		}))
		for range 60 {
			time.Sleep(5 * time.Second)
			r.send("good")
		}
		time.Sleep(5 * time.Minute)
		r.end(run)
		r.left(0, 60)
		if n := r.requests(queuetest.OpProperties) + r.requests(queuetest.OpOther); n != 1 {
			t.Errorf("%d requests about metadata, want the one at the start", n)
		}
	})
}

// Between replicas a bad message's last attempts may cost some; good ones cost none.
func TestBadMessagesOfReplicasStillEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 300 {
			body := "good"
			if i%20 == 0 {
				body = "bad"
			}
			r.send(body)
		}
		end := r.replicas(3, processor.Config{Concurrency: 4}, r.handle(func(_ context.Context, m *processor.Message) error {
			time.Sleep(50 * time.Millisecond)
			if string(m.Body) == "bad" {
				return errBroken
			}
			return nil
		}))
		for range 300 {
			time.Sleep(time.Second)
			r.send("good", "good", "good", "good", "good", "good")
		}
		time.Sleep(5 * time.Minute)
		end()
		r.left(0, 15)
		r.logged(opened, 0)
		if n := r.calls.most(); n > 7 {
			t.Errorf("a bad message was delivered %d times", n)
		}
		if n := r.requests(queuetest.OpProperties) + r.requests(queuetest.OpOther); n > 300 {
			t.Errorf("%d requests about metadata", n)
		}
	})
}

func TestWhatTheRecordDoesNotExcuse(t *testing.T) {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	for name, metadata := range map[string]func() map[string]string{
		"nothing": func() map[string]string { return nil },
		"an outage before the messages": func() map[string]string {
			return map[string]string{processor.MetadataOutage: ago(3*time.Hour) + "/" + ago(2*time.Hour)}
		},
		"garbage":  func() map[string]string { return map[string]string{processor.MetadataOutage: "yes"} },
		"no times": func() map[string]string { return map[string]string{processor.MetadataOutage: "/"} },
		"the wrong way round": func() map[string]string {
			return map[string]string{processor.MetadataOutage: ago(0) + "/" + ago(time.Hour)}
		},
		"the future": func() map[string]string {
			return map[string]string{processor.MetadataOutage: ago(time.Hour) + "/" + ago(-24*time.Hour)}
		},
		"a long text": func() map[string]string {
			return map[string]string{processor.MetadataOutage: ago(time.Hour) + "/" + ago(0) + strings.Repeat("0", 4000)}
		},
		"few failing": func() map[string]string {
			return map[string]string{processor.MetadataFailing: ago(time.Minute) + "/" + ago(0) + "/a,b"}
		},
		"failing long ago": func() map[string]string {
			return map[string]string{processor.MetadataFailing: ago(time.Hour) + "/" + ago(20*time.Minute) + "/a,b,c"}
		},
		"doubles": func() map[string]string {
			return map[string]string{processor.MetadataFailing: ago(time.Minute) + "/" + ago(0) + "/a,a,a,,,b"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.fill(4)
				r.worn(5)
				before := metadata()
				r.setMetadata(before)
				r.runFor(time.Minute, processor.Config{}, r.handle(succeed))
				r.left(0, 4)
				if n := r.calls.count(); n != 0 {
					t.Errorf("%d deliveries to the handler", n)
				}
				if got := r.metadata(); len(before) > 0 && !maps.Equal(before, got) {
					t.Errorf("the metadata became %v", got)
				}
			})
		})
	}
}

// Nonsense in our place gives way to the next outage.
func TestAnOutageReplacesNonsense(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.setMetadata(map[string]string{processor.MetadataOutage: "2000-01-01T00:00:00Z/9999-12-31T00:00:00Z", processor.MetadataFailing: "x"})
		r.fill(3)
		r.runFor(10*time.Minute, processor.Config{}, r.handle(fail))
		if got := r.metadata()[processor.MetadataOutage]; got > "2000-01-01T00:00:00Z/2000-01-01T00:10:00Z" {
			t.Errorf("recorded %q", got)
		}
		r.runFor(5*time.Minute, processor.Config{}, r.handle(succeed))
		r.left(0, 0)
	})
}

// A message that ends its processes and lived in an outage ends as well.
func TestAFatalMessageThatSawAnOutageEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("fatal")
		r.lasted(time.Hour, 0)
		for range 60 {
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
		if n := r.calls.most(); n < 6 || n > 25 {
			t.Errorf("delivered %d times, want at most 25", n)
		}
	})
}

package processor_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Every option of the .NET library's table, under its name there: what happens by default, and what
// when it is set. Each is measured on the queue.
func TestOptions(t *testing.T) {
	type config = processor.Config
	quiet := func(c config) config { // nothing but the option decides
		c.Retry.Jitter = processor.Off
		return fast(c)
	}
	tests := []struct {
		option string
		// measure runs a processor so configured and says what it did.
		measure      func(t *testing.T, r *rig, c config) any
		set          config
		want, wanted any // by default, and set
	}{
		{
			option:  "MaxConcurrentMessages",
			measure: measureConcurrency, set: config{Concurrency: 4},
			want: 1, wanted: 4,
		}, {
			option:  "VisibilityTimeout",
			measure: measureLease, set: config{VisibilityTimeout: 5 * time.Minute},
			want: time.Minute, wanted: 5 * time.Minute,
		}, {
			option: "RenewVisibility", // a handler of five minutes
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				r.runFor(6*time.Minute, quiet(c), r.handle(takes(5*time.Minute)))
				return r.metric("queue_messages_processed_total") == 1 && r.calls.count() == 1
			},
			set: config{NoRenew: true}, want: true, wanted: false,
		}, {
			option: "MaxRenewalDuration", // a handler that hangs until it is cancelled
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				c.MaxDequeueCount = 1
				var ran time.Duration
				r.runFor(time.Hour, quiet(c), r.handle(func(ctx context.Context, _ *processor.Message) error {
					began := time.Now()
					<-ctx.Done()
					ran = time.Since(began).Round(time.Minute)
					return ctx.Err()
				}))
				return ran
			},
			set: config{MaxRenewal: 10 * time.Minute}, want: time.Hour + 1*time.Minute, wanted: 11 * time.Minute, // shutdown waits half a minute
		}, {
			option: "LongRunningHandlerWarning",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				began := time.Now()
				r.runFor(time.Hour, quiet(c), r.handle(takes(50*time.Minute)))
				return after(r, began, "handler runs long")
			},
			set: config{LongRunningWarning: 5 * time.Minute}, want: 10 * time.Minute, wanted: 5 * time.Minute,
		}, {
			option: "AutoComplete",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				r.runFor(30*time.Second, quiet(c), r.handle(succeed))
				return r.srv.Len(queuetest.AccountName, "orders") == 0
			},
			set: config{ManualSettle: true}, want: true, wanted: false,
		}, {
			option: "MaxDequeueCount",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				r.runFor(time.Hour, quiet(c), r.handle(fail))
				r.left(0, 1)
				return r.calls.count()
			},
			set: config{MaxDequeueCount: 3}, want: 5, wanted: 3,
		}, {
			option: "DeadLetterOnDeserializationFailure",
			measure: func(t *testing.T, r *rig, c config) any {
				if _, err := r.q.SendText(t.Context(), `{"$azqs-envelope":9,"body":1}`, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				r.runFor(time.Minute, quiet(c), r.handle(succeed))
				return r.srv.Len(queuetest.AccountName, "orders-poison") == 1 && r.calls.count() == 0
			},
			set: config{KeepUnreadable: true}, want: true, wanted: false,
		}, {
			option: "RetryDelay",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				c.MaxDequeueCount = 9
				r.runFor(time.Hour, quiet(c), r.handle(fail))
				return r.calls.gaps()
			},
			set:    config{Retry: processor.RetryConfig{Initial: 2 * time.Second, Max: 10 * time.Second}},
			want:   seconds(5, 10, 20, 40, 80, 160, 300, 300),
			wanted: seconds(2, 4, 8, 10, 10, 10, 10, 10),
		}, {
			option:  "DeadLetterOn<TException>()",
			measure: measurePolicy, set: config{Policy: processor.ErrorPolicy{DeadLetter: []func(error) bool{processor.DeadLetterIs(errBroken)}}},
			want: "max_dequeue after 5", wanted: "handler after 1",
		}, {
			option:  "OnHandlerError",
			measure: measurePolicy, set: config{Policy: processor.ErrorPolicy{Func: func(context.Context, *processor.Message, error) processor.Action {
				return processor.Action{Verdict: processor.Complete}
			}}},
			want: "max_dequeue after 5", wanted: "completed",
		}, {
			option: "RateLimiter",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.fill(100)
				r.runFor(10*time.Second+100*time.Millisecond, quiet(c), r.handle(succeed))
				return r.calls.count()
			},
			set: config{RateLimit: rate.NewLimiter(2, 1)}, want: 100, wanted: 21,
		}, {
			option:  "EmptyQueueBackoffMin / Max",
			measure: measurePolls(queuetest.Fault{}), set: config{EmptyBackoffMin: 3 * time.Second, EmptyBackoffMax: 10 * time.Second},
			want: seconds(1, 2, 4, 8, 16, 30, 30), wanted: seconds(3, 6, 10, 10, 10, 10, 10),
		}, {
			option:  "ErrorBackoffMax",
			measure: measurePolls(queuetest.Fault{Status: 403, Code: "AuthorizationFailure"}),
			set:     config{ErrorBackoffMax: 5 * time.Second}, want: seconds(1, 2, 4, 8, 16, 32, 60), wanted: seconds(1, 2, 4, 5, 5, 5, 5),
		}, {
			option: "ShutdownDrainTimeout",
			measure: func(_ *testing.T, r *rig, c config) any {
				r.send("m")
				var cancelled time.Time
				run := r.start(quiet(c), r.handle(func(ctx context.Context, _ *processor.Message) error {
					<-ctx.Done()
					cancelled = time.Now()
					return context.Cause(ctx)
				}))
				time.Sleep(time.Second)
				began := time.Now()
				r.end(run)
				return cancelled.Sub(began)
			},
			set: config{DrainTimeout: 5 * time.Second}, want: 30 * time.Second, wanted: 5 * time.Second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.option, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if diff := cmp.Diff(tt.want, tt.measure(t, r, config{})); diff != "" {
					t.Errorf("by default (-want +got):\n%s", diff)
				}
			})
			bubble(t, func(t *testing.T, r *rig) {
				if diff := cmp.Diff(tt.wanted, tt.measure(t, r, tt.set)); diff != "" {
					t.Errorf("set (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func seconds(n ...int) []time.Duration {
	all := make([]time.Duration, len(n))
	for i, s := range n {
		all[i] = time.Duration(s) * time.Second
	}
	return all
}

// after is how long after began a message was first logged.
func after(r *rig, began time.Time, message string) time.Duration {
	r.t.Helper()
	lines := r.logs.find(message)
	if len(lines) != 1 {
		r.t.Errorf("%q was logged %d times", message, len(lines))
		return 0
	}
	text, _ := lines[0]["time"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		r.t.Error(err)
	}
	return at.Sub(began).Round(time.Second)
}

// measureConcurrency is how many handlers run at once.
func measureConcurrency(_ *testing.T, r *rig, c processor.Config) any {
	r.fill(20)
	run := r.start(c, r.handle(takes(time.Minute)))
	time.Sleep(30 * time.Second)
	n := run.Status().Handlers
	r.end(run)
	return n
}

// measureLease is how long a message is hidden whose process dies.
func measureLease(_ *testing.T, r *rig, c processor.Config) any {
	r.send("m")
	began := time.Now()
	var hidden time.Duration
	r.runFor(time.Second, c, r.handle(func(context.Context, *processor.Message) error {
		hidden = r.srv.Messages(queuetest.AccountName, "orders")[0].VisibleAt.Sub(began)
		return nil
	}))
	return hidden
}

// measurePolicy is what becomes of a message that always fails.
func measurePolicy(t *testing.T, r *rig, c processor.Config) any {
	r.send("m")
	r.runFor(10*time.Minute, c, r.handle(fail))
	if r.srv.Len(queuetest.AccountName, "orders")+r.srv.Len(queuetest.AccountName, "orders-poison") == 0 {
		return "completed"
	}
	rec := r.poisoned()[0]
	if rec.DequeueCount != r.calls.count() {
		t.Errorf("%d calls, record %+v", r.calls.count(), rec)
	}
	return rec.Category + " after " + string(rune('0'+rec.DequeueCount))
}

// measurePolls are the times between the first eight receives, which end as the fault says. Each may be
// up to a tenth longer than planned, so it is taken for what may have been planned.
func measurePolls(f queuetest.Fault) func(*testing.T, *rig, processor.Config) any {
	planned := seconds(60, 32, 30, 16, 10, 8, 6, 5, 4, 3, 2, 1)
	return func(t *testing.T, r *rig, c processor.Config) any {
		var at []time.Time
		f.Match = func(op queuetest.Op) bool {
			if op.Operation != queuetest.OpReceive {
				return false
			}
			at = append(at, time.Now())
			return f.Status != 0
		}
		r.srv.Inject(f)
		r.runFor(10*time.Minute, c, r.handle(succeed))
		var gaps []time.Duration
		for i := 1; i < min(8, len(at)); i++ {
			gap := at[i].Sub(at[i-1])
			for _, p := range planned {
				if gap >= p {
					if gap > p+p/10+10*time.Millisecond {
						t.Errorf("a gap of %v", gap)
					}
					gaps = append(gaps, p)
					break
				}
			}
		}
		return gaps
	}
}

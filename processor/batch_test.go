package processor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// wholeBatches lets the first receive after a start or a wait take a whole batch as well.
var wholeBatches = processor.BreakerConfig{Off: true}

// sizes records the sizes of batches, and how many calls ran at once.
type sizes struct {
	mu            sync.Mutex
	all           []int
	running, most int
}

func (s *sizes) enter(n int) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, n)
	s.running++
	s.most = max(s.most, s.running)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}
}

func (r *rig) startBatch(cfg processor.BatchConfig, h processor.BatchHandler) *running {
	r.t.Helper()
	cfg.Logger, cfg.Metrics = r.logger, processor.NewMetrics(r.reg, processor.MetricsOptions{})
	p, err := processor.NewBatch(r.q, h, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	run := &running{p, stop, make(chan error, 1)}
	go func() { run.done <- p.Run(ctx) }()
	return run
}

func (r *rig) batchFor(d time.Duration, cfg processor.BatchConfig, h processor.BatchHandlerFunc) {
	r.t.Helper()
	run := r.startBatch(cfg, h)
	time.Sleep(d)
	r.end(run)
}

func (r *rig) sendMany(n int) {
	r.t.Helper()
	for i := range n {
		r.send(fmt.Sprintf("m%02d", i))
	}
}

func bodies(messages []*processor.Message) (list []string) {
	for _, m := range messages {
		list = append(list, string(m.Body))
	}
	slices.Sort(list)
	return list
}

func TestABatchIsWhatOneReceiveReturns(t *testing.T) {
	for name, tt := range map[string]struct {
		messages    int
		size, calls int
		want        []int
	}{
		"32 by default, and what is left":      {messages: 70, want: []int{32, 32, 6}},
		"no more than asked for":               {messages: 5, size: 2, want: []int{2, 2, 1}},
		"one message is a batch: nobody waits": {messages: 1, want: []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.sendMany(tt.messages)
				var s sizes
				r.batchFor(time.Second, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches}, MaxBatchSize: tt.size},
					func(_ context.Context, messages []*processor.Message) error {
						defer s.enter(len(messages))()
						return nil
					})
				if diff := cmp.Diff(tt.want, s.all); diff != "" {
					t.Error(diff)
				}
				r.left(0, 0)
				r.counted(map[string]float64{
					"queue_messages_processed_total":                                     float64(tt.messages),
					"queue_message_processing_duration_seconds{queue_outcome=completed}": float64(tt.messages),
					"queue_message_time_in_queue_seconds":                                float64(tt.messages),
				})
			})
		})
	}
}

func TestAfterAWaitTheFirstBatchIsOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(40)
		var s sizes
		r.batchFor(time.Second, processor.BatchConfig{}, func(_ context.Context, messages []*processor.Message) error {
			defer s.enter(len(messages))()
			return nil
		})
		if diff := cmp.Diff([]int{1, 32, 7}, s.all); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSeveralBatchesAreInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(20)
		var s sizes
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches}, MaxBatchSize: 4, MaxConcurrentBatches: 3},
			processor.BatchHandlerFunc(func(_ context.Context, messages []*processor.Message) error {
				defer s.enter(len(messages))()
				time.Sleep(time.Minute)
				return nil
			}))
		time.Sleep(30 * time.Second)
		if st := run.Status(); st.Handlers != 12 || st.MaxHandlers != 12 || st.Held != 12 {
			t.Errorf("%d messages of at most %d in handlers, %d held; want 12", st.Handlers, st.MaxHandlers, st.Held)
		}
		if got := r.metric("queue_processor_active_handlers"); got != 12 {
			t.Errorf("%v active handlers, want 12", got)
		}
		time.Sleep(5 * time.Minute)
		r.end(run)
		if diff := cmp.Diff([]int{4, 4, 4, 4, 4}, s.all); diff != "" || s.most != 3 {
			t.Errorf("%d calls at once; %s", s.most, diff)
		}
		r.left(0, 0)
	})
}

type slowToRead struct{}

func (slowToRead) Validate() error {
	time.Sleep(time.Minute)
	return nil
}

func TestTheLeasesOfABatchAreKeptFromReceipt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("{}", "{}", "{}")
		var calls int
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{VisibilityTimeout: 10 * time.Second, Breaker: wholeBatches}},
			processor.TypedBatch(func(ctx context.Context, jobs []*processor.Job[slowToRead]) error {
				calls++
				time.Sleep(time.Minute)
				if len(jobs) != 3 || ctx.Err() != nil {
					t.Errorf("%d jobs, %v", len(jobs), context.Cause(ctx))
				}
				return nil
			}))
		time.Sleep(10 * time.Minute)
		r.end(run)
		if calls != 1 {
			t.Errorf("called %d times", calls)
		}
		r.left(0, 0)
	})
}

func TestPoisonIsLeftOutOfTheBatch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send(order{ID: "old"})
		if ms, err := r.q.Receive(t.Context(), 1, time.Second); err != nil || len(ms) != 1 {
			t.Fatal(ms, err)
		}
		time.Sleep(2 * time.Second)
		r.send(order{ID: "a"}, "hello", order{ID: "b", Total: -1}, order{ID: "panic"}, order{ID: "c"})
		if _, err := r.q.SendText(t.Context(), `{"$azqs-envelope":9,"body":1}`, queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{MaxDequeueCount: 1, Breaker: wholeBatches}},
			processor.TypedBatch(func(_ context.Context, jobs []*processor.Job[order]) error {
				for _, j := range jobs {
					got = append(got, j.Value.ID)
				}
				return nil
			}))
		time.Sleep(time.Second)
		r.end(run)
		if diff := cmp.Diff([]string{"a", "c"}, got); diff != "" {
			t.Error(diff)
		}
		r.left(0, 5)
		r.counted(map[string]float64{
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=deserialization}": 2,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}":         1,
			"queue_messages_dead_lettered_total{queue_dead_letter_reason=max_dequeue}":     2, // the old one, and the panic's last attempt
			"queue_messages_processed_total":                                               2,
		})
	})
}

func TestABatchWithNothingToHandleCallsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("hello", "world")
		run := r.startBatch(processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches}},
			processor.TypedBatch(func(context.Context, []*processor.Job[order]) error { panic("called") }))
		time.Sleep(time.Second)
		r.send("again") // the slot was given back
		time.Sleep(time.Minute)
		r.end(run)
		r.left(0, 3)
	})
}

func TestReturningCompletesWhatTheHandlerDidNotSettle(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("keep", "again", "bad", "rest")
		var seen [][]string
		r.batchFor(2*time.Minute, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches, VisibilityTimeout: 10 * time.Second}},
			func(ctx context.Context, messages []*processor.Message) error {
				seen = append(seen, bodies(messages))
				for _, m := range messages {
					switch string(m.Body) {
					case "bad":
						if err := m.DeadLetter(ctx, "no good"); err != nil {
							t.Error(err)
						}
					case "again":
						if m.Attempt() == 1 {
							if err := m.Abandon(ctx, time.Minute); err != nil {
								t.Error(err)
							}
						}
					}
				}
				time.Sleep(30 * time.Second) // what is settled has no lease that could be lost
				if ctx.Err() != nil {
					t.Errorf("cancelled: %v", context.Cause(ctx))
				}
				return nil
			})
		if diff := cmp.Diff([][]string{{"again", "bad", "keep", "rest"}, {"again"}}, seen); diff != "" {
			t.Error(diff)
		}
		r.left(0, 1)
		r.counted(map[string]float64{"queue_messages_processed_total": 3, "queue_messages_failed_total": 0, "queue_lease_renewal_failures_total{reason=lost}": 0})
	})
}

func TestTheRateLimitMakesABatchSmaller(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(20)
		var s sizes
		r.batchFor(10*time.Second, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches, RateLimit: rate.NewLimiter(2, 5)}},
			func(_ context.Context, messages []*processor.Message) error {
				defer s.enter(len(messages))()
				return nil
			})
		total := 0
		for _, n := range s.all {
			total += n
		}
		if s.all[0] != 5 || total > 5+20+1 || slices.Max(s.all) > 5 {
			t.Errorf("batches of %v", s.all)
		}
	})
}

func TestABatchIsFollowedAsOne(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("a", "b", "bad")
		tr := &tracer{}
		r.batchFor(time.Second, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches, Tracer: tr, Retry: processor.RetryConfig{Initial: time.Hour}}},
			func(ctx context.Context, messages []*processor.Message) error {
				if ctx.Value(tracerKey{}) != messages[0].ID {
					t.Error("the handler's context is not made from the tracer's")
				}
				if err := messages[2].DeadLetter(ctx, "no"); err != nil {
					t.Error(err)
				}
				return errBroken
			})
		want := []processor.Ending{{Outcome: "mixed", ErrorType: "handler", Reason: "the widget is broken"}}
		if diff := cmp.Diff(want, tr.endings); diff != "" || tr.started != 3 {
			t.Errorf("%d messages followed; %s", tr.started, diff)
		}
	})
}

func TestABatchThatRunsLongIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.sendMany(5)
		r.batchFor(time.Hour, processor.BatchConfig{Config: processor.Config{Breaker: wholeBatches}}, func(context.Context, []*processor.Message) error {
			time.Sleep(15 * time.Minute)
			return nil
		})
		r.logged("handler runs long", 1)
	})
}

func TestEveryFaultOfABatchConfigurationIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ok := processor.BatchHandlerFunc(func(context.Context, []*processor.Message) error { return nil })
		wrap := func(h processor.Handler) processor.Handler { return h }
		for want, tt := range map[string]struct {
			h   processor.BatchHandler
			cfg processor.BatchConfig
		}{
			"batch processor: batch size 33 is not 1 to 32\n-1 concurrent batches are not 1 to 312\nthe handler is nil":            {nil, processor.BatchConfig{MaxBatchSize: 33, MaxConcurrentBatches: -1}},
			"batch processor: concurrency is set: a batch processor's is its batch size times its concurrent batches":              {ok, processor.BatchConfig{Config: processor.Config{Concurrency: 3}}},
			"batch processor: there is middleware, which wraps single messages: put it into the batch handler\nthe handler is nil": {processor.TypedBatch[order](nil), processor.BatchConfig{Config: processor.Config{Middleware: []processor.Middleware{wrap}}}},
			"processor of acct/orders: visibility timeout 1ms is outside 1s to 7 days":                                             {ok, processor.BatchConfig{Config: processor.Config{VisibilityTimeout: time.Millisecond}}},
		} {
			_, err := processor.NewBatch(r.q, tt.h, tt.cfg)
			if err == nil || err.Error() != want {
				t.Errorf("error %v\nwant %s", err, want)
			}
		}
	})
}

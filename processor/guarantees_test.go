package processor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/processor/cloudevents"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// task is what the messages of these tests are about.
type task struct {
	Name string `json:"name"`
}

// way is one of the ways to consume a queue: all of them give the same guarantees.
type way struct {
	cfg  queue.Config
	opts queue.SendOptions
	body func(name string) string // default: the task as JSON
	// sizes are those of its batches; nil: it has none.
	sizes *sizes
	// build makes a processor that does each message's task.
	build func(q *queue.Queue, cfg processor.Config, do func(ctx context.Context, name string) error) (*processor.Processor, error)
}

func ways(store *shelf) map[string]way {
	typed := func(do func(context.Context, string) error) func(context.Context, *processor.Job[task]) error {
		return func(ctx context.Context, j *processor.Job[task]) error { return do(ctx, j.Value.Name) }
	}
	one := func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
		return processor.New(q, processor.Typed(typed(do)), cfg)
	}
	var batches sizes
	return map[string]way{
		"typed": {build: one},
		"middleware": {build: func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
			around := func(h processor.Handler) processor.Handler {
				return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return h.Handle(ctx, m) })
			}
			cfg.Middleware = []processor.Middleware{around, around}
			return one(q, cfg, do)
		}},
		"batch": {sizes: &batches, build: func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
			calls := cfg.Concurrency
			cfg.Concurrency = 0
			return processor.NewBatch(q, processor.TypedBatch(func(ctx context.Context, jobs []*processor.Job[task]) error {
				defer batches.enter(len(jobs))()
				return together(ctx, jobs, do)
			}), processor.BatchConfig{Config: cfg, MaxBatchSize: 8, MaxConcurrentBatches: calls})
		}},
		"routing": {opts: queue.SendOptions{MessageType: "task"}, build: func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
			r := processor.NewRouter()
			processor.Route(r, "task", typed(do))
			return processor.New(q, r, cfg)
		}},
		"CloudEvents": {body: func(name string) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":"1","source":"/test","type":"task","data":{"name":%q}}`, name)
		}, build: func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
			return processor.New(q, cloudevents.Handler(func(ctx context.Context, e *cloudevents.Event[task]) error { return do(ctx, e.Value.Name) }), cfg)
		}},
		"middleware, routing and large bodies together": {
			cfg: queue.Config{BodyStore: store, BodyStoreThreshold: 1, Compress: true, CompressionThreshold: 1}, opts: queue.SendOptions{MessageType: "task"},
			build: func(q *queue.Queue, cfg processor.Config, do func(context.Context, string) error) (*processor.Processor, error) {
				r := processor.NewRouter()
				processor.Route(r, "task", typed(do))
				cfg.Middleware = []processor.Middleware{func(h processor.Handler) processor.Handler {
					return processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error { return h.Handle(ctx, m) })
				}}
				return processor.New(q, r, cfg)
			},
		},
		"large bodies": {cfg: queue.Config{BodyStore: store, BodyStoreThreshold: 1}, build: one},
	}
}

// together does the tasks of a batch at once, and settles each by what became of it. What may be tried again is left to
// the batch's error.
func together(ctx context.Context, jobs []*processor.Job[task], do func(context.Context, string) error) error {
	errs := make([]error, len(jobs))
	var all sync.WaitGroup
	for i, j := range jobs {
		all.Go(func() {
			err := do(ctx, j.Value.Name)
			switch {
			case err == nil:
				err = j.Complete(ctx)
			case processor.IsPermanent(err):
				err = j.DeadLetter(ctx, err.Error())
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// shelf is a store of large bodies.
type shelf struct {
	mu     sync.Mutex
	next   int
	bodies map[string][]byte
}

func (s *shelf) Put(_ context.Context, body []byte) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	ref := strconv.Itoa(s.next)
	s.bodies[ref] = append([]byte(nil), body...)
	return json.RawMessage(ref), nil
}

func (s *shelf) Fetch(_ context.Context, ref json.RawMessage, _ int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.bodies[string(ref)]
	if !ok {
		return nil, fmt.Errorf("%w: it is gone", queue.ErrUnreadable)
	}
	return b, nil
}

func (s *shelf) Delete(_ context.Context, ref json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, string(ref))
	return nil
}

// Each way to consume keeps what the bare processor promises: poison with its body, retries, leases
// beyond the visibility timeout, an orderly end, and the same metrics.
func TestEveryWayToConsumeKeepsTheGuarantees(t *testing.T) {
	for name := range ways(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &shelf{bodies: map[string][]byte{}}
				w := ways(store)[name]
				if w.body == nil {
					w.body = func(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }
				}
				r := newRig(t, w.cfg)
				send := func(names ...string) {
					for _, n := range names {
						if _, err := r.q.Send(t.Context(), w.body(n), w.opts); err != nil {
							t.Fatal(err)
						}
					}
				}
				var mu sync.Mutex
				calls, causes := map[string]int{}, map[string]error{}
				do := func(ctx context.Context, name string) error {
					mu.Lock()
					calls[name]++
					n := calls[name]
					mu.Unlock()
					switch name {
					case "bad":
						return processor.Permanent(errBroken)
					case "flaky":
						if n < 3 {
							return errBroken
						}
					case "slow", "last", "stolen":
						<-time.After(map[string]time.Duration{"slow": 3 * time.Minute, "last": 20 * time.Second, "stolen": time.Minute}[name])
						mu.Lock()
						causes[name] = context.Cause(ctx)
						mu.Unlock()
						return ctx.Err()
					}
					return nil
				}
				p, err := w.build(r.q, processor.Config{Concurrency: 4, Logger: r.logger, Metrics: processor.NewMetrics(r.reg, processor.MetricsOptions{})}, do)
				if err != nil {
					t.Fatal(err)
				}
				send("good", "bad", "flaky", "slow", "good again") // in hand together, but for the first
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- p.Run(ctx) }()
				time.Sleep(10 * time.Minute)
				r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Status: 404, Code: "MessageNotFound", Times: 1})
				send("stolen") // its first renewal is told that somebody else has it
				time.Sleep(10 * time.Minute)
				send("last")
				time.Sleep(35 * time.Second)
				stop() // while "last" is in hand, or about to be
				if err := <-done; err != nil {
					t.Error(err)
				}

				want := map[string]int{"good": 1, "bad": 1, "flaky": 3, "slow": 1, "good again": 1, "stolen": 2, "last": 1}
				for n, times := range want {
					if calls[n] != times {
						t.Errorf("%q was handled %d times, want %d", n, calls[n], times)
					}
				}
				if causes["slow"] != nil || causes["last"] != nil {
					t.Errorf("cancelled by %v, %v", causes["slow"], causes["last"])
				}
				if w.sizes != nil && !slices.ContainsFunc(w.sizes.all, func(n int) bool { return n > 3 }) {
					t.Errorf("batches of %v, want good and bad ones in one", w.sizes.all)
				}
				r.left(0, 1)
				recs := r.poisoned()
				peeked, err := r.q.Poison().Peek(t.Context(), 1)
				if err != nil || len(recs) != 1 || recs[0].Category != "handler" || recs[0].Reason != errBroken.Error() || string(peeked.Messages[0].Body) != w.body("bad") {
					t.Errorf("poison: %+v, error %v", recs, err)
				}
				if w.cfg.BodyStore != nil && len(store.bodies) != 1 {
					t.Errorf("%d bodies in the store, want the poisoned one", len(store.bodies))
				}
				r.counted(map[string]float64{
					"queue_messages_processed_total":                                       6,
					"queue_messages_dead_lettered_total{queue_dead_letter_reason=handler}": 1,
					"queue_lease_renewal_failures_total{reason=lost}":                      1,
				})
				if got := r.metric("queue_lease_renewals_total"); got < 5 {
					t.Errorf("%v renewals of a message that took three leases", got)
				}
			})
		})
	}
}

// A lost lease cancels the handler with that cause, whatever the way.
func TestEveryWayToConsumeCancelsOnALostLease(t *testing.T) {
	for name := range ways(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := ways(&shelf{bodies: map[string][]byte{}})[name]
				if w.body == nil {
					w.body = func(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }
				}
				r := newRig(t, w.cfg)
				if _, err := r.q.Send(t.Context(), w.body("x"), w.opts); err != nil {
					t.Fatal(err)
				}
				cause := make(chan error, 1)
				p, err := w.build(r.q, processor.Config{Concurrency: 1}, func(ctx context.Context, _ string) error {
					<-ctx.Done()
					select {
					case cause <- context.Cause(ctx):
					default:
					}
					return ctx.Err()
				})
				if err != nil {
					t.Fatal(err)
				}
				r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Status: 400, Code: "PopReceiptMismatch"})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- p.Run(ctx) }()
				select {
				case got := <-cause:
					if !errors.Is(got, queue.ErrLeaseLost) {
						t.Errorf("cause %v", got)
					}
				case <-time.After(time.Minute):
					t.Error("not cancelled within the lease")
				}
				if n := r.requests(queuetest.OpDelete); n != 0 {
					t.Errorf("%d deletes with a dead receipt", n)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

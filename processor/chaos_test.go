package processor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Whatever storage does for an hour, nothing is lost, and what is poison is so once.
func TestNothingIsLostOnABadStorage(t *testing.T) {
	const good, bad = 150, 15
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for i := range good + bad {
					body := fmt.Sprintf("good %d", i)
					if i%(good/bad+1) == 0 {
						body = fmt.Sprintf("bad %d", i)
					}
					r.send(body)
				}
				ids := map[string]string{} // of bad ones, to bodies
				for _, m := range r.srv.Messages(queuetest.AccountName, "orders") {
					if strings.HasPrefix(m.Text, "bad") {
						ids[m.ID] = m.Text
					}
				}

				var mu sync.Mutex
				rng := rand.New(rand.NewPCG(seed, 0))
				chance := func(p float64) func(queuetest.Op) bool {
					return func(op queuetest.Op) bool {
						mu.Lock()
						defer mu.Unlock()
						return op.Operation != queuetest.OpPeek && rng.Float64() < p
					}
				}
				for p, f := range map[float64]queuetest.Fault{
					.05: {DropResponse: true}, .06: {CommitThenFail: true}, .07: {Status: 503}, .08: {Refuse: true}, .02: {Hang: true}, .04: {Delay: 7 * time.Second},
				} {
					f.Match = chance(p)
					r.srv.Inject(f)
				}

				done := map[string]int{}
				handler := r.handle(func(ctx context.Context, m *processor.Message) error {
					body := string(m.Body)
					mu.Lock()
					slow, flaky := rng.Float64() < .1, rng.Float64() < .1
					mu.Unlock()
					if slow {
						if err := takes(45*time.Second)(ctx, m); err != nil {
							return err
						}
					}
					switch {
					case strings.HasPrefix(body, "bad"):
						return processor.Permanent(errBroken)
					case flaky:
						return errBroken
					}
					mu.Lock()
					defer mu.Unlock()
					done[body]++
					return nil
				})
				cfg := processor.Config{Concurrency: 4, VisibilityTimeout: 20 * time.Second, MaxDequeueCount: 100, Retry: processor.RetryConfig{Max: 20 * time.Second}}
				long := r.start(cfg, handler)
				for range 30 { // beside it, one that is deployed anew every two minutes
					short := r.start(cfg, handler)
					time.Sleep(2 * time.Minute)
					short.stop()
					if err := <-short.done; err != nil {
						t.Error(err)
					}
					short.Close()
				}
				r.srv.RemoveFaults()
				time.Sleep(10 * time.Minute)
				r.end(long)

				if n := r.srv.Len(queuetest.AccountName, "orders"); n != 0 {
					t.Errorf("%d messages left on the queue", n)
				}
				if len(done) != good {
					t.Errorf("%d good messages were handled, want %d", len(done), good)
				}
				entries := map[string]int{}
				for {
					got, err := r.q.Poison().Receive(t.Context(), 32, time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					if len(got) == 0 {
						break
					}
					for _, m := range got {
						if m.Record == nil || string(m.Body) != ids[m.Record.MessageID] {
							t.Errorf("poison copy %q with record %+v", m.Body, m.Record)
							continue
						}
						entries[m.Record.MessageID]++
					}
				}
				if len(entries) != bad {
					t.Errorf("%d logical poison entries, want %d", len(entries), bad)
				}
			})
		})
	}
}

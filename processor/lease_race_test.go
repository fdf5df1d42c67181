package processor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A renewal takes two seconds from the fifth on. Whenever the handler ends meanwhile, the delete has the receipt that holds.
func TestARenewalThatMeetsTheEndOfTheHandlerDoesNotBreakTheDelete(t *testing.T) {
	cfg := processor.Config{VisibilityTimeout: 10 * time.Second}
	for name, run := range map[string]func(r *rig, took time.Duration){
		"single": func(r *rig, took time.Duration) { r.runFor(30*time.Second, cfg, r.handle(takes(took))) },
		"batch": func(r *rig, took time.Duration) {
			cfg := processor.BatchConfig{Config: cfg}
			cfg.Breaker.Off = true // all three at once
			r.batchFor(30*time.Second, cfg, func(ctx context.Context, messages []*processor.Message) error {
				r.calls.note(messages[0])
				return takes(took)(ctx, messages[0])
			})
		},
	} {
		for took := 4800 * time.Millisecond; took <= 7200*time.Millisecond; took += 200 * time.Millisecond {
			t.Run(fmt.Sprintf("%s, ended after %v", name, took), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					n := 1
					if name == "batch" {
						n = 3
					}
					r.fill(n)
					r.inject(queuetest.Fault{Operation: queuetest.OpUpdate, Delay: 2 * time.Second})
					run(r, took)
					r.left(0, 0)
					if r.calls.count() != 1 || r.requests(queuetest.OpDelete) != n {
						t.Errorf("%d calls, %d deletes; want one call, and a delete for each of %d", r.calls.count(), r.requests(queuetest.OpDelete), n)
					}
					if renewals := r.requests(queuetest.OpUpdate); took > 5*time.Second && renewals != n {
						t.Errorf("%d renewals, want one for each of %d", renewals, n)
					}
					r.counted(map[string]float64{
						"queue_messages_processed_total":                      float64(n),
						"queue_pop_receipt_conflicts_total{operation=delete}": 0,
					})
				})
			})
		}
	}
}

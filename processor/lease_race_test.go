package processor_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// lateWire brings the answers to renewals a while after the service has acted on them.
type lateWire struct {
	srv  *queuetest.Server
	late time.Duration
}

func (w *lateWire) Do(r *http.Request) (*http.Response, error) {
	resp, err := w.srv.Do(r)
	if r.Method == http.MethodPut {
		time.Sleep(w.late)
	}
	return resp, err
}

// The answer to a renewal takes two seconds. Whenever the handler ends meanwhile, the delete has the receipt that holds.
func TestARenewalThatMeetsTheEndOfTheHandlerDoesNotBreakTheDelete(t *testing.T) {
	for _, n := range []int{1, 3} { // messages, in a batch if there are several
		for took := 4800 * time.Millisecond; took <= 7200*time.Millisecond; took += 200 * time.Millisecond {
			t.Run(fmt.Sprintf("%d messages, ended after %v", n, took), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					r.fill(n)
					acct, err := queue.NewAccount(queue.AccountConfig{
						Name: account, ConnectionString: queue.Secret(r.srv.ConnectionString()), Transport: &lateWire{r.srv, 2 * time.Second},
					})
					if err != nil {
						t.Fatal(err)
					}
					if r.q, err = acct.Queue("orders", queue.Config{}); err != nil {
						t.Fatal(err)
					}
					cfg := processor.Config{VisibilityTimeout: 10 * time.Second, Breaker: wholeBatches}
					if n == 1 {
						r.runFor(30*time.Second, cfg, r.handle(takes(took)))
					} else {
						r.batchFor(30*time.Second, processor.BatchConfig{Config: cfg}, func(ctx context.Context, messages []*processor.Message) error {
							r.calls.note(messages[0])
							return takes(took)(ctx, messages[0])
						})
					}
					r.left(0, 0)
					if calls, deletes := r.calls.count(), r.requests(queuetest.OpDelete); calls != 1 || deletes != n {
						t.Errorf("%d calls, %d deletes; want one call, and a delete for each of %d", calls, deletes, n)
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

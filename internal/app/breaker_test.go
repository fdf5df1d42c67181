package app_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
)

// TestAnOpenBreakerIsToldEverywhere: what handlers call is down, and nothing is quarantined for it.
func TestAnOpenBreakerIsToldEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error {
			if away.Load() {
				return processor.Unavailable(context.DeadlineExceeded)
			}
			return nil
		})})
		for range 5 {
			r.send("orders", "m")
		}
		settle(10*time.Minute + time.Second)
		r.want("http://probes/livez", 200, "ok")
		r.want("http://probes/readyz", 200, "breaker degraded: handlers_fail: acct/orders: handlers have been failing as a whole for 10m")
		r.want("http://main/metrics", 200, `queue_processor_breaker_open{account="acct",queue_name="orders"} 1`)
		r.want("http://main/api/v1/queues/acct/orders", 200, `"breakerOpen":true`)
		away.Store(false)
		settle(2 * time.Minute)
		r.want("http://probes/readyz", 200, "ok\n")
		r.want("http://main/metrics", 200, `queue_messages_processed_total{account="acct",queue_name="orders"} 5`)
		r.want("http://main/metrics", 200, `queue_processor_breaker_open{account="acct",queue_name="orders"} 0`)
		r.end()
	})
}

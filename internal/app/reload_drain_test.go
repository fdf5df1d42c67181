package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/processor"
)

// TestWhatAnOperatorPausedStaysPaused: through every reload, also one that changes the consumer.
func TestWhatAnOperatorPausedStaysPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := withTokens(t, oneQueue, "- {name: ann, role: operator, token: "+operatorToken+"}\n")
		r := start(t, text, idle())
		settle(time.Second)
		r.command("acct/orders/pause")
		for i := range 3 {
			r.reload(strings.Replace(text, "concurrency: 2", fmt.Sprintf("concurrency: %d", 3+i), 1))
			r.reload(strings.Replace(text, "concurrency: 2", fmt.Sprintf("concurrency: %d", 13+i), 1))
		}
		settle(time.Minute)
		r.want("http://main/api/v1/processors/acct/orders", 200, `"state":"paused"`)
		r.send("orders", "waits")
		settle(time.Minute)
		r.holds("orders", 1)
		r.command("acct/orders/resume")
		settle(time.Minute)
		r.holds("orders", 0)
		r.end()
	})
}

// TestARemovedConsumerDrains: what it holds is finished, its counts stay for a while, and it is sent nothing more.
func TestARemovedConsumerDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newTally(20 * time.Second)
		r := start(t, consuming(consumed("orders", 1), "{name: watched}"), map[string]processor.Handler{"acct/orders": h})
		r.send("orders", "at work")
		settle(15 * time.Second)
		r.reload(consuming("{name: orders}", "{name: watched}"))
		r.send("orders", "stays")
		r.lacks("http://main/readyz?verbose", "receiving")
		r.want("http://main/api/v1/processors/acct/orders", 404, "has no consumer in this process")
		settle(time.Minute)
		if h.handled["at work"] != 1 || h.handled["stays"] != 0 || h.interrupted != 0 {
			t.Errorf("handled: %v, interrupted: %d", h.handled, h.interrupted)
		}
		const processed = `queue_messages_processed_total{account="acct",queue_name="orders"} 1`
		r.want("http://main/metrics", 200, processed) // the scrape after the drain
		settle(10 * time.Minute)
		r.lacks("http://main/metrics", "queue_messages_processed_total{")
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="main",queue_name="orders"} 1`)

		// It comes back, and goes on.
		r.reload(consuming(consumed("orders", 1), "{name: watched}"))
		settle(2 * time.Minute)
		if h.handled["stays"] != 1 {
			t.Errorf("handled after it came back: %v", h.handled)
		}
		r.want("http://main/readyz?verbose", 200, "[+]receiving ok")
		r.end()
	})
}

// TestAConsumerThatComesBackWaitsForItself: a consumer that was removed and is there again before its drain is
// over does not run beside itself.
func TestAConsumerThatComesBackWaitsForItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newTally(20 * time.Second)
		with, without := consuming(consumed("orders", 1), "{name: watched}"), consuming("{name: watched}")
		r := start(t, with, map[string]processor.Handler{"acct/orders": h})
		for i := range 5 {
			r.send("orders", fmt.Sprint(i))
		}
		settle(5 * time.Second)
		for range 3 {
			r.reload(without)
			r.reload(with)
		}
		settle(5 * time.Minute)
		if h.worst != 1 || len(h.handled) != 5 || h.interrupted != 0 {
			t.Errorf("%d handlers at once, %d interrupted, handled: %v", h.worst, h.interrupted, h.handled)
		}
		r.want("http://main/metrics", 200, `queue_messages_processed_total{account="acct",queue_name="orders"} 5`)
		r.end()
	})
}

// TestAHandlerThatDoesNotReturnCannotStopReloads: its consumer is given up, and everything else goes on.
func TestAHandlerThatDoesNotReturnCannotStopReloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		well := newTally(time.Second)
		r := start(t, consuming(consumed("stuck", 1), consumed("well", 1)), map[string]processor.Handler{
			"acct/well":  well,
			"acct/stuck": processor.HandlerFunc(func(context.Context, *processor.Message) error { <-release; return nil }),
		})
		r.send("stuck", "never")
		settle(time.Minute)
		r.reload(consuming(consumed("stuck", 2), consumed("well", 1)))
		r.reload(consuming(consumed("well", 1)))
		settle(5 * time.Minute) // twice the drain timeout is long over
		r.send("well", "handled")
		settle(time.Minute)
		r.want("http://probes/livez", 200, "ok")
		if well.handled["handled"] != 1 || !strings.Contains(r.logs.String(), `"msg":"a consumer that was stopped has not ended well"`) {
			t.Errorf("handled: %v; the log:\n%s", well.handled, r.logs)
		}
		close(release)
		r.end()
	})
}

// TestNothingIsReloadedAtTheEnd: who asks is told.
func TestNothingIsReloadedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newTally(20 * time.Second)
		r := start(t, withTokens(t, oneQueue, "- {name: ann, role: operator, token: "+operatorToken+"}\n"), map[string]processor.Handler{"acct/orders": h})
		r.send("orders", "at work")
		settle(5 * time.Second)
		r.stop()
		settle(time.Second)
		if status, _, body := r.post(); status != http.StatusServiceUnavailable || !strings.Contains(body, "qwatch is ending") {
			t.Errorf("%d %s", status, body)
		}
		r.end()
		if h.handled["at work"] != 1 {
			t.Errorf("handled: %v", h.handled)
		}
	})
}

// A handler that is mended by a reload gets the messages that the outage spared.
func TestAReloadKeepsWhatAnOutageSpared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		h := processor.HandlerFunc(func(context.Context, *processor.Message) error {
			if !mended.Load() {
				return processor.Unavailable(errors.New("it is not there"))
			}
			return nil
		})
		r := start(t, consuming(consumed("orders", 1)), map[string]processor.Handler{"acct/orders": h})
		for range 3 {
			r.send("orders", "x")
		}
		settle(30 * time.Minute)
		mended.Store(true)
		r.reload(consuming(consumed("orders", 2)))
		settle(10 * time.Minute)
		r.want("http://main/metrics", 200, `queue_messages_processed_total{account="acct",queue_name="orders"} 3`)
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="poison",queue_name="orders"} 0`)
		r.end()
	})
}

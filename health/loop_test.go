package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/health"
)

func TestLoopMustBeatWithinItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(health.Config{})
		check := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, outcomes(h.Report(health.Live))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		check("without loops", "= ok")

		orders := h.Loop("orders/orders", time.Minute)
		watch := h.Loop("watch", 0)
		time.Sleep(time.Minute)
		check("at the bound, before the first beat", "= ok", "orders/orders ok", "watch ok")
		time.Sleep(time.Nanosecond)
		check("a moment later", "= failed",
			"orders/orders failed stalled no turn for 1m0s, longer than its bound of 1m0s", "watch ok")
		orders.Beat()
		check("after a beat", "= ok", "orders/orders ok", "watch ok")

		for range 24 * 60 { // a day without a message
			time.Sleep(time.Minute)
			orders.Beat()
			watch.Beat()
			check("while the loops turn", "= ok", "orders/orders ok", "watch ok")
		}

		time.Sleep(health.DefaultBound + time.Second)
		orders.Beat()
		check("when one is wedged", "= failed", "orders/orders ok",
			"watch failed stalled no turn for 2m1s, longer than its bound of 2m0s")
		watch.Stop()
		time.Sleep(30 * time.Second)
		check("when that one has ended", "= ok", "orders/orders ok")

		replaced := h.Loop("orders/orders", time.Second)
		orders.Stop() // the old loop ends after the new one began
		time.Sleep(time.Minute)
		check("when the new loop is silent", "= failed",
			"orders/orders failed stalled no turn for 1m0s, longer than its bound of 1s")
		replaced.Stop()
		replaced.Beat()
		check("when all have ended", "= ok")
	})
}

func TestLoopsAreNoPartOfReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(health.Config{})
		h.Started()
		h.Loop("orders/orders", time.Second)
		time.Sleep(time.Hour)
		if r := h.Report(health.Ready); r.Status != health.OK {
			t.Errorf("ready: %v", outcomes(r))
		}
	})
}

func BenchmarkBeat(b *testing.B) {
	l := health.New(health.Config{}).Loop("orders/orders", time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		l.Beat()
	}
}

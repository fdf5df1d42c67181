package metric

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// GaugeSet is what a processor is doing right now.
type GaugeSet struct {
	ActiveHandlers  int
	MaxHandlers     int
	OldestHandler   time.Duration // 0 when none runs
	Held            int           // hidden on the processor's account
	Paused          bool
	BreakerOpen     bool      // handlers fail as a whole
	ReceiveFailures int       // since the last success
	LastReceive     time.Time // last receive that succeeded, empty or not; zero: none yet
	Ended           bool      // it has been shut down
}

// gaugeDef is a gauge of the consumer and how to read it.
type gaugeDef struct {
	desc  *prometheus.Desc
	value func(GaugeSet) float64
}

func gaugeDefs() []gaugeDef {
	def := func(name string, value func(GaugeSet) float64) gaugeDef {
		return gaugeDef{Of(name).Desc(), value}
	}
	return []gaugeDef{
		def(ActiveHandlers, func(g GaugeSet) float64 { return float64(g.ActiveHandlers) }),
		def(MaxHandlers, func(g GaugeSet) float64 { return float64(g.MaxHandlers) }),
		def(OldestHandlerAge, func(g GaugeSet) float64 { return max(0, g.OldestHandler).Seconds() }),
		def(ProcessorPaused, func(g GaugeSet) float64 { return truth(g.Paused) }),
		def(BreakerOpen, func(g GaugeSet) float64 { return truth(g.BreakerOpen) }),
		def(HeldMessages, func(g GaugeSet) float64 { return float64(g.Held) }),
		def(ConsecutiveReceiveFailures, func(g GaugeSet) float64 { return float64(g.ReceiveFailures) }),
		def(LastReceive, func(g GaugeSet) float64 { return timestamp(g.LastReceive) }),
	}
}

func (c *Consumer) collectGauges(ch chan<- prometheus.Metric, k queueKey, set GaugeSet) {
	for _, g := range c.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(set), k.account, k.queue)
	}
}

// merge reads several processors of one queue as one: handlers add up, the worst age and
// failures show, an open breaker as well, and the queue is paused when all of them are. Of one that has ended
// only what it still hides shows, unless all have: then they show without the handlers that may run, of which there are
// none. It is false without any.
func merge(readers []func() GaugeSet) (GaugeSet, bool) {
	sets := make([]GaugeSet, 0, len(readers))
	held := 0
	for _, read := range readers {
		set := read()
		held += set.Held
		sets = append(sets, set)
	}
	if slices.ContainsFunc(sets, func(g GaugeSet) bool { return !g.Ended }) {
		sets = slices.DeleteFunc(sets, func(g GaugeSet) bool { return g.Ended })
	} else {
		for i := range sets { // all that one after the other replaced the last
			sets[i].MaxHandlers = 0
		}
	}
	if len(sets) == 0 {
		return GaugeSet{}, false
	}
	sum := sets[0]
	for _, g := range sets[1:] {
		sum.ActiveHandlers += g.ActiveHandlers
		sum.MaxHandlers += g.MaxHandlers
		sum.OldestHandler = max(sum.OldestHandler, g.OldestHandler)
		sum.Paused = sum.Paused && g.Paused
		sum.BreakerOpen = sum.BreakerOpen || g.BreakerOpen
		sum.ReceiveFailures = max(sum.ReceiveFailures, g.ReceiveFailures)
		if g.LastReceive.After(sum.LastReceive) {
			sum.LastReceive = g.LastReceive
		}
	}
	sum.Held = held
	return sum, true
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// timestamp is t as Unix seconds, or 0 for the zero time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

package metric

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of result on qwatch_forwarded_requests_total.
const (
	ForwardOK          = "ok"
	ForwardUnavailable = "unavailable"
)

// clusterDefs are about replicas that share a fleet, and about the canary that one of them lets fly.
func clusterDefs() []Def {
	defs := []Def{
		{
			Name: Leader, Type: Gauge, Combine: byMax, Absent: "unless watch.mode is leader",
			Help: "1 when this replica is the elected leader, which watches the fleet, otherwise 0.",
		},
		{
			Name: Shards, Type: Gauge, Combine: byMax, Absent: "unless watch.mode is shard",
			Help: "How many shards share the fleet, as far as this replica knows.",
		},
		{
			Name: ShardsAlive, Type: Gauge, Combine: byMin, Absent: "unless watch.mode is shard",
			Help: "How many of the shards this replica takes for alive, itself included; the queues of the others are watched by those.",
		},
		{
			Name: ForwardedRequests, Type: Counter, Combine: bySum, Labels: []Label{{LabelResult, []string{ForwardOK, ForwardUnavailable}}},
			Help: "Questions about queues of another replica that were passed on to it.",
		},
		{
			Name: CanaryRoundTrip, Type: Gauge, Unit: "seconds", Combine: byMax,
			Absent: "without a canary, where another replica lets it fly, and when the last one failed",
			Help:   "How long it took to send, receive and delete the last canary message.",
		},
		{
			Name: CanaryFailures, Type: Counter, Combine: bySum,
			Help: "Canary messages that could not be sent, received and deleted in time.",
		},
	}
	for i := range defs {
		defs[i].Owner, defs[i].Scope = OwnedByProcess, PerProcess
	}
	return defs
}

// leader reads whether this replica leads whenever it is scraped.
type leader struct {
	desc  *prometheus.Desc
	leads func() bool
}

// NewLeader registers with reg whether this replica leads.
func NewLeader(reg prometheus.Registerer, leads func() bool) {
	reg.MustRegister(leader{Of(Leader).Desc(), leads})
}

// Describe implements prometheus.Collector.
func (l leader) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

// Collect implements prometheus.Collector.
func (l leader) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, truth(l.leads()))
}

// shards reads how many shards live whenever it is scraped.
type shards struct {
	all, alive *prometheus.Desc
	count      func() (all, alive int)
}

// NewShards registers with reg how many shards there are, and how many live. count is called once a scrape.
func NewShards(reg prometheus.Registerer, count func() (all, alive int)) {
	reg.MustRegister(shards{Of(Shards).Desc(), Of(ShardsAlive).Desc(), count})
}

// Describe implements prometheus.Collector.
func (s shards) Describe(ch chan<- *prometheus.Desc) { ch <- s.all; ch <- s.alive }

// Collect implements prometheus.Collector.
func (s shards) Collect(ch chan<- prometheus.Metric) {
	all, alive := s.count()
	ch <- prometheus.MustNewConstMetric(s.all, prometheus.GaugeValue, float64(all))
	ch <- prometheus.MustNewConstMetric(s.alive, prometheus.GaugeValue, float64(alive))
}

// NewForwards registers with reg what counts questions that were passed on, and returns it.
func NewForwards(reg prometheus.Registerer) (count func(ok bool)) {
	d := Of(ForwardedRequests)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.LabelNames())
	reg.MustRegister(v)
	answered, not := v.WithLabelValues(ForwardOK), v.WithLabelValues(ForwardUnavailable)
	return func(ok bool) {
		if ok {
			answered.Inc()
		} else {
			not.Inc()
		}
	}
}

// Canary tells how a canary fares. Safe for concurrent use.
type Canary struct {
	desc     *prometheus.Desc
	last     atomic.Int64 // nanoseconds; -1: none
	failures prometheus.Counter
}

// NewCanary returns a Canary that is registered with reg.
func NewCanary(reg prometheus.Registerer) *Canary {
	c := &Canary{
		desc:     Of(CanaryRoundTrip).Desc(),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: CanaryFailures, Help: Of(CanaryFailures).Help}),
	}
	c.Rest()
	reg.MustRegister(c, c.failures)
	return c
}

// Returned says how long a canary was on its way.
func (c *Canary) Returned(d time.Duration) { c.last.Store(int64(max(0, d))) }

// Failed says that a canary did not return.
func (c *Canary) Failed() {
	c.failures.Inc()
	c.Rest()
}

// Rest says that none flies here.
func (c *Canary) Rest() { c.last.Store(-1) }

// Describe implements prometheus.Collector.
func (c *Canary) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *Canary) Collect(ch chan<- prometheus.Metric) {
	if d := time.Duration(c.last.Load()); d >= 0 {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, d.Seconds())
	}
}

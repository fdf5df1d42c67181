package collector

import (
	"cmp"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/qwatch/qwatch/internal/metric"
)

// scrape is everything at the time of one Gather.
type scrape struct {
	queues   []view // by account, queue, main before poison
	accounts []*account
	found    []discovered
}

// sink takes the samples of a family. The labels are good until it returns.
type sink func(labels []*dto.LabelPair, value float64)

// family is one of the watcher's metrics and how its samples are drawn.
type family struct {
	metric.Def
	collect func(*scrape, sink)
	reuses  bool // the labels of one sample for the next
}

// families returns the watcher's metrics by name; all of them, or the compact set.
func families(compact bool) []family {
	fs := everyFamily()
	if compact {
		fs = slices.DeleteFunc(fs, func(f family) bool { return f.Compact == metric.CompactDrop })
		for i := range fs {
			if fs[i].Compact == metric.CompactNonZero {
				fs[i].collect = nonZero(fs[i].collect)
			}
		}
	}
	slices.SortFunc(fs, func(a, b family) int { return cmp.Compare(a.Name, b.Name) })
	return fs
}

// nonZero leaves out the samples that are 0.
func nonZero(collect func(*scrape, sink)) func(*scrape, sink) {
	return func(s *scrape, out sink) {
		collect(s, func(labels []*dto.LabelPair, value float64) {
			if value != 0 {
				out(labels, value)
			}
		})
	}
}

func everyFamily() []family {
	return []family{
		perQueue(metric.QueueUp, func(v *view) (float64, bool) { return fact(v.upFact) }),
		perQueue(metric.QueueExists, func(v *view) (float64, bool) { return fact(v.existsNow) }),
		perQueue(metric.QueueApproximateMessages, func(v *view) (float64, bool) {
			return float64(v.count.Messages), v.countFresh
		}),
		perQueue(metric.QueuePeekedMessages, func(v *view) (float64, bool) {
			return float64(v.peek.Visible), v.peekFresh
		}),
		perQueue(metric.QueueOldestVisibleAge, func(v *view) (float64, bool) {
			return v.peek.OldestAge.Seconds(), v.peekFresh
		}),
		perQueue(metric.QueueNextExpiration, func(v *view) (float64, bool) {
			return timestamp(v.peek.NextExpiration), v.peekFresh && !v.peek.NextExpiration.IsZero()
		}),
		perQueue(metric.QueuePeekedAttemptsMax, func(v *view) (float64, bool) {
			return float64(v.peek.MaxDequeueCount), v.peekFresh
		}),
		perQueue(metric.QueueLastPollSuccess, func(v *view) (float64, bool) { return timestamp(v.lastSuccess), true }),
		perQueue(metric.QueueLastPollDuration, func(v *view) (float64, bool) {
			return v.lastDuration.Seconds(), v.polled()
		}),
		perQueue(metric.QueuePollInterval, func(v *view) (float64, bool) { return v.reading.interval.Seconds(), true }),
		perQueue(metric.QueuePolls, func(v *view) (float64, bool) { return float64(v.polls), true }),
		perQueue(metric.QueueAgesClamped, func(v *view) (float64, bool) { return float64(v.clamped), true }),
		perTarget(metric.QueueTimeInQueueObjective, func(v *view) (float64, bool) { return given(v.target.Objective.Seconds()) }),
		perTarget(metric.QueueTimeInQueueRatio, func(v *view) (float64, bool) { return given(v.target.ObjectiveRatio) }),
		perTarget(metric.QueueHandlerTimeLimit, func(v *view) (float64, bool) { return given(v.target.HandlerTimeLimit.Seconds()) }),
		perTarget(metric.QueueMonitorOnly, func(v *view) (float64, bool) { return truth(v.target.MonitorOnly), true }),
		perQueue(metric.QueueHeadUnchanged, func(v *view) (float64, bool) {
			return v.history.unchangedFor().Seconds(), v.peekFresh
		}),
		perQueue(metric.QueueForecastDrain, func(v *view) (float64, bool) { in, ok := v.drain(); return in.Seconds(), ok }),
		perQueue(metric.QueueForecastLoss, func(v *view) (float64, bool) { in, ok := v.loss(); return in.Seconds(), ok }),
		states(metric.QueueStatus, KindMain, func(v *view) int { return int(v.status) }),
		states(metric.QueuePoisonStatus, KindPoison, func(v *view) int { return int(v.poison) }),
		{Def: metric.Of(metric.QueueInfo), collect: func(s *scrape, out sink) {
			for i := range s.queues {
				out(s.queues[i].labels.info, 1)
			}
		}},
		pollFailures(),
		{Def: metric.Of(metric.ClockSkew), collect: func(s *scrape, out sink) {
			for _, a := range s.accounts {
				if skew, ok := a.ref.Load().Skew(); ok {
					out(a.labels, skew.Seconds())
				}
			}
		}},
		perDiscovery(metric.DiscoveryQueues, func(d *discovered) float64 { return float64(d.queues) }),
		perDiscovery(metric.DiscoveryDropped, func(d *discovered) float64 { return float64(d.dropped) }),
		perDiscovery(metric.DiscoveryLastSuccess, func(d *discovered) float64 { return timestamp(d.lastSuccess) }),
	}
}

func pollFailures() family {
	names := make([]string, 0, maxReasons)
	for _, r := range pollReasons() {
		names = append(names, string(r))
	}
	reasons := newRows(metric.LabelReason, names)
	return family{metric.Of(metric.QueuePollFailures), func(s *scrape, out sink) {
		var scratch []*dto.LabelPair
		for i := range s.queues {
			v := &s.queues[i]
			scratch = reasons.each(v.labels.queue, scratch, out, func(r int) float64 { return float64(v.failures[r]) })
		}
	}, true}
}

func perQueue(name string, value func(*view) (float64, bool)) family {
	return family{Def: metric.Of(name), collect: func(s *scrape, out sink) {
		for i := range s.queues {
			if x, ok := value(&s.queues[i]); ok {
				out(s.queues[i].labels.queue, x)
			}
		}
	}}
}

// perTarget is for what is said once for a main queue and its poison queue.
func perTarget(name string, value func(*view) (float64, bool)) family {
	return family{Def: metric.Of(name), collect: func(s *scrape, out sink) {
		for i := range s.queues {
			if v := &s.queues[i]; v.first {
				if x, ok := value(v); ok {
					out(v.labels.target, x)
				}
			}
		}
	}}
}

func perDiscovery(name string, value func(*discovered) float64) family {
	return family{Def: metric.Of(name), collect: func(s *scrape, out sink) {
		for i := range s.found {
			d := &s.found[i]
			out(d.labels, value(d))
		}
	}}
}

// states is for a set of states, of which the queue has one, counted from 1.
func states(name string, kind Kind, is func(*view) int) family {
	def := metric.Of(name)
	statuses := newRows(metric.LabelStatus, def.Values(metric.LabelStatus))
	return family{def, func(s *scrape, out sink) {
		var scratch []*dto.LabelPair
		for i := range s.queues {
			if v := &s.queues[i]; v.kind == kind {
				has := is(v)
				scratch = statuses.each(v.labels.queue, scratch, out, func(j int) float64 { return truth(j+1 == has) })
			}
		}
	}, true}
}

func fact(f Fact) (float64, bool) { return truth(f == Yes), f != 0 }

func given(x float64) (float64, bool) { return x, x > 0 }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// timestamp returns Unix seconds, 0 for the zero time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// Gather returns the watcher's metrics as they are now: families by name, and in each the
// series by account, queue, and main before poison. A family without series is left out. It
// makes no request and never fails. The result is to be read only; it shares labels with
// other results.
func (c *Collector) Gather() ([]*dto.MetricFamily, error) {
	s := c.scrape()
	fams := *c.families.Load()
	out := make([]*dto.MetricFamily, 0, len(fams))
	for _, fam := range fams {
		got := newSamples(fam.Type == metric.Counter, len(s.queues))
		got.copies = fam.reuses
		fam.collect(s, got.add)
		if len(got.list) == 0 {
			continue
		}
		mf := fam.Family()
		mf.Metric = got.list
		out = append(out, mf)
	}
	return out, nil
}

// scrape looks at everything.
func (c *Collector) scrape() *scrape {
	f, now := c.fleet.Load(), time.Now()
	s := &scrape{queues: make([]view, len(f.watches)), accounts: f.accounts, found: f.discoveries}
	for i, w := range f.watches {
		s.queues[i] = w.view(now)
	}
	return s
}

// Family is one of the watcher's metrics, as it was when Families returned it.
type Family struct {
	Name, Help string
	Counter    bool // else a gauge

	collect func(sink)
}

// Each hands out the samples one by one, in the order of Gather. The labels are by name, to be read only, and good
// until yield returns.
func (f Family) Each(yield func(labels []*dto.LabelPair, value float64)) { f.collect(yield) }

// Families returns what Gather does, without building a thing: it is for those who write the samples as they
// come, which saves a large fleet's scrape most of its time and memory. A family may have no sample.
func (c *Collector) Families() []Family {
	s := c.scrape()
	fams := *c.families.Load()
	out := make([]Family, len(fams))
	for i, f := range fams {
		out[i] = Family{f.Name, f.Help, f.Type == metric.Counter, func(to sink) { f.collect(s, to) }}
	}
	return out
}

const chunk = 256

// samples collects the samples of one family. They are cut from blocks, because a scrape
// makes tens of thousands of them.
type samples struct {
	counter bool
	copies  bool // labels
	list    []*dto.Metric
	metrics []dto.Metric
	labels  []*dto.LabelPair
	gauges  []gauge
	counts  []count
	common  [2]gauge // 0 and 1, which most values are
	zero    count
}

type gauge struct {
	dto.Gauge
	x float64
}

type count struct {
	dto.Counter
	x float64
}

func newSamples(counter bool, n int) *samples {
	s := &samples{counter: counter, list: make([]*dto.Metric, 0, n)}
	for i := range s.common {
		s.common[i].x = float64(i)
		s.common[i].Value = &s.common[i].x
	}
	s.zero.Value = &s.zero.x
	return s
}

func (s *samples) add(labels []*dto.LabelPair, x float64) {
	if len(s.metrics) == 0 {
		s.metrics = make([]dto.Metric, chunk)
	}
	m := &s.metrics[0]
	s.metrics = s.metrics[1:]
	m.Label = labels
	if s.copies {
		m.Label = s.keep(labels)
	}
	if s.counter {
		m.Counter = s.counted(x)
	} else {
		m.Gauge = s.measured(x)
	}
	s.list = append(s.list, m)
}

// keep copies labels, of blocks as well.
func (s *samples) keep(labels []*dto.LabelPair) []*dto.LabelPair {
	if len(s.labels) < len(labels) {
		s.labels = make([]*dto.LabelPair, chunk*max(1, len(labels)))
	}
	n := copy(s.labels, labels)
	kept := s.labels[:n:n]
	s.labels = s.labels[n:]
	return kept
}

func (s *samples) measured(x float64) *dto.Gauge {
	switch x {
	case 0:
		return &s.common[0].Gauge
	case 1:
		return &s.common[1].Gauge
	}
	if len(s.gauges) == 0 {
		s.gauges = make([]gauge, chunk)
	}
	g := &s.gauges[0]
	s.gauges = s.gauges[1:]
	g.x, g.Value = x, &g.x
	return &g.Gauge
}

func (s *samples) counted(x float64) *dto.Counter {
	if x == 0 {
		return &s.zero.Counter
	}
	if len(s.counts) == 0 {
		s.counts = make([]count, chunk)
	}
	k := &s.counts[0]
	s.counts = s.counts[1:]
	k.x, k.Value = x, &k.x
	return &k.Counter
}

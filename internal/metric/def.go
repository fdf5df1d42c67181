package metric

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Type is a metric's type.
type Type int

// The types. Info is exposed as a gauge that is always 1.
const (
	Counter Type = iota + 1
	Gauge
	Histogram
	Info
)

// String returns the type as the documentation spells it.
func (t Type) String() string {
	switch t {
	case Counter:
		return "counter"
	case Gauge:
		return "gauge"
	case Histogram:
		return "histogram"
	case Info:
		return "info"
	default:
		return "unknown"
	}
}

// Owner says who exports a metric, and thereby how replicas are combined: a watcher's
// gauges are replicated views (max by), a consumer's counters are disjoint (sum by).
type Owner int

// The owners.
const (
	OwnedByWatcher Owner = iota + 1
	OwnedByConsumer
	OwnedByProcess
)

// String returns the owner as the documentation spells it.
func (o Owner) String() string {
	switch o {
	case OwnedByWatcher:
		return "watcher"
	case OwnedByConsumer:
		return "consumer"
	case OwnedByProcess:
		return "process"
	default:
		return "unknown"
	}
}

// Scope is the thing of which there is one set of a metric's series. The number of series
// grows with the number of those things and with nothing else.
type Scope int

// The scopes.
const (
	PerQueue    Scope = iota + 1 // a watched queue, its poison queue included
	PerConsumer                  // a queue with a consumer in this process
	PerAccount                   // a configured account
	PerCheck                     // a health check, once for every probe it belongs to
	PerScaled                    // a queue that a scaler asked about in the last ten minutes
	PerProcess
)

// String returns the scope as the documentation spells it.
func (s Scope) String() string {
	switch s {
	case PerQueue:
		return "watched queue"
	case PerConsumer:
		return "consumed queue"
	case PerAccount:
		return "account"
	case PerCheck:
		return "health check and probe"
	case PerScaled:
		return "scaled queue"
	case PerProcess:
		return "process"
	default:
		return "unknown"
	}
}

// Compact says what becomes of a metric in the compact set of series, which is for large fleets.
type Compact int

// What becomes of it. Where only what is not 0 is kept, absent means 0.
const (
	CompactKeep    Compact = iota // all of it is kept; what every metric is without a word
	CompactNonZero                // samples that are 0 are left out
	CompactDrop                   // it is left out
)

// Label is a label of a metric.
type Label struct {
	Name   string
	Values []string // all it can have; nil: open, bounded by the configuration
}

// Def defines one metric.
type Def struct {
	Name    string
	Help    string
	Type    Type
	Unit    string // seconds, bytes, ratio; "" for a count or a truth
	Labels  []Label
	Buckets []float64 // upper bounds of a histogram, without +Inf
	Owner   Owner
	Scope   Scope
	Combine string // how series of several replicas become one: max, min or sum
	Absent  string // when there is no sample; "" when there always is one
	Compact Compact
}

// LabelNames returns the names of the labels, in order.
func (d Def) LabelNames() []string {
	names := make([]string, len(d.Labels))
	for i, l := range d.Labels {
		names[i] = l.Name
	}
	return names
}

// Values returns what the named label can be, or nil when it is open or not there.
func (d Def) Values(label string) []string {
	for _, l := range d.Labels {
		if l.Name == label {
			return slices.Clone(l.Values)
		}
	}
	return nil
}

// Desc returns the descriptor for client_golang.
func (d Def) Desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.LabelNames(), nil)
}

// Family returns an empty family of the metric, for those who build samples themselves.
func (d Def) Family() *dto.MetricFamily {
	t := dto.MetricType_GAUGE
	switch d.Type {
	case Counter:
		t = dto.MetricType_COUNTER
	case Histogram:
		t = dto.MetricType_HISTOGRAM
	}
	return &dto.MetricFamily{Name: &d.Name, Help: &d.Help, Type: &t}
}

// Samples returns how many lines of the text format the metric has for one of its scope:
// every combination of its closed labels, times what a histogram takes.
func (d Def) Samples() int {
	n := 1
	for _, l := range d.Labels {
		oneAtATime := d.Scope == PerCheck || d.Type == Info && l.Name != LabelKind
		if l.Values != nil && !oneAtATime {
			n *= len(l.Values)
		}
	}
	if d.Type == Histogram {
		n *= len(d.Buckets) + 3 // +Inf, sum and count
	}
	return n
}

// CompactSamples is Samples for the compact set: of a set of states there is the one that holds.
func (d Def) CompactSamples() int {
	n := d.Samples()
	switch {
	case d.Compact == CompactDrop:
		return 0
	case d.Compact == CompactNonZero:
		n /= max(1, len(d.Values(LabelStatus)))
	}
	return n
}

// Size is what the number of series depends on.
type Size struct {
	Queues    int  // watched, each with its poison queue
	Consumers int  // queues consumed by this process, those of the last five minutes included
	Accounts  int  // those of the last five minutes included
	Checks    int  // health checks, counted once for every probe
	Scaled    int  // queues that a scaler asked about in the last ten minutes
	Compact   bool // the watcher exports the compact set
}

// Series returns the most series a process of that size exports, without the families of
// the Go runtime, the process and the HTTP handler, which do not depend on it.
func Series(s Size) int {
	n := 0
	for _, d := range Catalogue() {
		switch d.Scope {
		case PerQueue:
			if s.Compact {
				n += s.Queues * d.CompactSamples()
				continue
			}
			n += s.Queues * d.Samples()
		case PerConsumer:
			n += s.Consumers * d.Samples()
		case PerAccount:
			n += s.Accounts * d.Samples()
		case PerScaled:
			n += s.Scaled * d.Samples()
		case PerCheck:
			n += s.Checks * d.Samples()
		default:
			n += d.Samples()
		}
	}
	return n
}

// Catalogue returns the definition of every metric, in the order of the documentation:
// the watcher's, the consumer's, the process's. The caller owns the slice.
func Catalogue() []Def {
	return slices.Concat(watcherDefs(), consumerDefs(), processDefs(), clusterDefs())
}

// Of returns the definition of the named metric. It panics when there is none: names are
// constants of this package.
func Of(name string) Def {
	for _, d := range Catalogue() {
		if d.Name == name {
			return d
		}
	}
	panic(fmt.Sprintf("metric: no metric is called %q", name))
}

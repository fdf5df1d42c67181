package collector

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/qwatch/qwatch/internal/metric"
)

// labelSets are the labels of one queue's series, made once and shared by every scrape.
// Each is in the order of label names.
type labelSets struct {
	queue   []*dto.LabelPair
	target  []*dto.LabelPair   // those of thresholds
	info    []*dto.LabelPair   // those of queue_info
	reasons [][]*dto.LabelPair // those of queue_poll_failures_total, in the order of pollReasons
}

// labelNames are the names of each of labelSets, as the catalogue has them.
type labelNames struct {
	queue, target, info, reasons, account []string
}

func newLabelNames() labelNames {
	sorted := func(name string) []string {
		names := metric.Of(name).LabelNames()
		slices.Sort(names)
		return names
	}
	return labelNames{
		queue: sorted(metric.QueueUp), target: sorted(metric.QueueMonitorOnly), info: sorted(metric.QueueInfo),
		reasons: sorted(metric.QueuePollFailures), account: sorted(metric.ClockSkew),
	}
}

// labeller makes labels. Pairs that are the same are the same object. It is not safe for concurrent use.
type labeller struct {
	labelNames
	pairs map[[2]string]*dto.LabelPair
}

func newLabeller() *labeller {
	return &labeller{labelNames: newLabelNames(), pairs: map[[2]string]*dto.LabelPair{}}
}

func (l *labeller) pair(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "�")
	k := [2]string{name, value}
	p := l.pairs[k]
	if p == nil {
		p = &dto.LabelPair{Name: &k[0], Value: &k[1]}
		l.pairs[k] = p
	}
	return p
}

func (l *labeller) make(names []string, value func(name string) string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, len(names))
	for i, n := range names {
		pairs[i] = l.pair(n, value(n))
	}
	return pairs
}

// sets returns the labels of a queue.
func (l *labeller) sets(s *spec) labelSets {
	value := func(name string) string { return s.label(name) }
	sets := labelSets{queue: l.make(l.queue, value)}
	if s.first {
		sets.target = l.make(l.target, value)
	}
	sets.info = l.make(l.info, value)
	for _, r := range pollReasons() {
		sets.reasons = append(sets.reasons, l.make(l.reasons, func(name string) string {
			if name == metric.LabelReason {
				return string(r)
			}
			return value(name)
		}))
	}
	return sets
}

// label returns the value of the named label for the queue.
func (s *spec) label(name string) string {
	switch name {
	case metric.LabelAccount:
		return s.account
	case metric.LabelQueue:
		return s.target.Queue.Name()
	case metric.LabelKind:
		return s.kind.String()
	case metric.LabelPhysicalName:
		return s.queue.Name()
	case metric.LabelPoisonQueue:
		return s.poisonName
	case metric.LabelMode:
		return s.target.Mode.String()
	case metric.LabelTeam:
		return s.target.Team
	case metric.LabelTier:
		if s.target.Tier == 0 {
			return ""
		}
		return strconv.Itoa(s.target.Tier)
	case metric.LabelStorageAccount:
		return s.queue.Account().StorageAccount()
	default:
		return ""
	}
}

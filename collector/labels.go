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
	queue  []*dto.LabelPair
	target []*dto.LabelPair // those of thresholds
	info   []*dto.LabelPair // those of queue_info
}

// labelNames are the names of each of labelSets, as the catalogue has them.
type labelNames struct {
	queue, target, info, account []string
}

func newLabelNames() labelNames {
	sorted := func(name string) []string {
		names := metric.Of(name).LabelNames()
		slices.Sort(names)
		return names
	}
	return labelNames{
		queue: sorted(metric.QueueUp), target: sorted(metric.QueueMonitorOnly), info: sorted(metric.QueueInfo),
		account: sorted(metric.ClockSkew),
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
	sets := labelSets{queue: l.make(l.queue, s.label), info: l.make(l.info, s.label)}
	if s.first {
		sets.target = l.make(l.target, s.label)
	}
	return sets
}

// rows are the pairs that tell several series of one queue apart, beside the queue's labels. Their name comes
// after those of the others, so that they are appended: no queue has to keep such labels.
type rows []*dto.LabelPair

func newRows(label string, values []string) rows {
	l := newLabeller()
	r := make(rows, 0, len(values))
	for _, v := range values {
		r = append(r, l.pair(label, v))
	}
	return r
}

// each hands out a sample for each row of a queue. The labels are good until the next.
func (r rows) each(base, scratch []*dto.LabelPair, out sink, value func(i int) float64) (used []*dto.LabelPair) {
	scratch = append(append(scratch[:0], base...), nil)
	for i, p := range r {
		scratch[len(base)] = p
		out(scratch, value(i))
	}
	return scratch
}

// identity is everything that label tells of.
type identity struct {
	account, storageAccount, queue, physical, poison, team string
	kind                                                   Kind
	mode                                                   Mode
	tier                                                   int
	first                                                  bool
}

func (s *spec) identity() identity {
	return identity{
		account: s.account, storageAccount: s.queue.Account().StorageAccount(), queue: s.target.Queue.Name(),
		physical: s.queue.Name(), poison: s.poisonName, team: s.target.Team,
		kind: s.kind, mode: s.target.Mode, tier: s.target.Tier, first: s.first,
	}
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

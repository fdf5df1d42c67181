package story

import (
	"cmp"
	"regexp"
	"slices"
	"time"
)

// A Cluster is dead-lettered messages that died for the same reason, as far as this process moved them.
type Cluster struct {
	Account  string    `json:"account"`
	Queue    string    `json:"queue"`
	Category string    `json:"category"`
	Reason   string    `json:"reason"` // of the latest
	Messages int64     `json:"messages"`
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
}

// maxClusters is how many reasons are told apart for a queue: the one that was seen least lately goes.
const maxClusters = 50

type clusterKey struct{ category, shape string }

type clusters map[clusterKey]*Cluster

// varying is what differs from message to message within one reason: numbers, ids, quoted values.
var varying = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0[xX][0-9a-fA-F]+|\b[0-9a-fA-F]{12,}\b|[0-9]+|"[^"]*"|'[^']*'`)

// Shape returns a reason without what varies in it: reasons of one shape are one reason.
func Shape(reason string) string { return varying.ReplaceAllString(cut(reason, 300), "…") }

func (c *clusters) add(category, reason string, at time.Time) {
	if *c == nil {
		*c = clusters{}
	}
	key := clusterKey{category, Shape(reason)}
	got := (*c)[key]
	if got == nil {
		if len(*c) >= maxClusters {
			c.dropOldest()
		}
		got = &Cluster{Category: category, Since: at}
		(*c)[key] = got
	}
	got.Reason, got.Last = cut(reason, 300), at
	got.Messages++
}

func (c *clusters) dropOldest() {
	var oldest clusterKey
	var at time.Time
	for k, v := range *c {
		if at.IsZero() || v.Last.Before(at) {
			oldest, at = k, v.Last
		}
	}
	delete(*c, oldest)
}

// Clusters returns why messages were dead-lettered by this process, the latest first: of one queue, or of
// all when name is zero.
func (r *Recorder) Clusters(name Name, most int) []Cluster {
	var out []Cluster
	collect := func(n Name, m *measure) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range m.deaths {
			one := *c
			one.Account, one.Queue = n.Account, n.Queue
			one.Since, one.Last = one.Since.UTC(), one.Last.UTC()
			out = append(out, one)
		}
	}
	if name != (Name{}) {
		if m := r.measures.get(name); m != nil {
			collect(name, m)
		}
	} else {
		for n, m := range r.measures.all() {
			collect(n, m)
		}
	}
	slices.SortFunc(out, func(a, b Cluster) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Reason, b.Reason))
	})
	return out[:min(len(out), most)]
}

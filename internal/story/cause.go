package story

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// CauseKind is what kind of thing is wrong with many queues at once.
type CauseKind string

// The kinds of causes.
const (
	CauseThrottled   CauseKind = "account_throttled"
	CauseAuth        CauseKind = "credential_refused"
	CauseUnreachable CauseKind = "account_unreachable"
	CauseHandler     CauseKind = "handler_down"
	CauseMissing     CauseKind = "queues_missing"
	CauseStalled     CauseKind = "stalled"
	CauseBehind      CauseKind = "falling_behind"
	CausePaused      CauseKind = "paused"
	CauseDying       CauseKind = "dead_lettering"
	CauseGrowing     CauseKind = "poison_growing"
	CauseClock       CauseKind = "clock"
	CauseListing     CauseKind = "listing_fails"
	CausePolls       CauseKind = "polls_stay_away"
)

// A Cause is one thing that is wrong with one queue or many.
type Cause struct {
	Kind CauseKind `json:"kind"`
	Finding

	Account  string    `json:"account,omitempty"`
	Affected int       `json:"affected"`         // queues
	Queues   []Name    `json:"queues,omitempty"` // the first of them
	Since    time.Time `json:"since,omitzero"`

	all []Name
}

const (
	causeQueues = 20               // named by a cause
	together    = 10 * time.Minute // stalls that began within that time have one cause
	lately      = 15 * time.Minute // for how long a dead-letter is news
	dying       = 5                // dead-letters for one reason that are worth a cause
)

// affects says whether the cause is one of the queue's.
func (c *Cause) affects(n Name) bool { return slices.Contains(c.all, n) }

func (c *Cause) add(n Name, since time.Time) {
	if !since.IsZero() && (c.Since.IsZero() || since.Before(c.Since)) {
		c.Since = since.UTC()
	}
	if slices.Contains(c.all[max(0, len(c.all)-1):], n) {
		return // main and poison come one after the other
	}
	c.Affected++
	c.all = append(c.all, n)
}

func (c *Cause) names() []string {
	out := make([]string, 0, len(c.all))
	for _, n := range c.all {
		out = append(out, n.String())
	}
	return out
}

// causes finds what is wrong, the worst first.
func (r *Recorder) causes(snap *collector.Snapshot, procs []processor.Status) []Cause {
	f := finder{Recorder: r, snap: snap, groups: map[groupKey]*Cause{}, errors: map[groupKey]string{}, open: map[Name]bool{}, deaths: map[groupKey][]string{}}
	for i := range procs {
		if procs[i].BreakerOpen {
			f.open[Name{procs[i].Account, procs[i].Queue}] = true
		}
	}
	f.accounts()
	f.dying()
	for i := range snap.Queues {
		f.queue(&snap.Queues[i])
	}
	for i := range procs {
		f.consumer(&procs[i])
	}
	out := f.words()
	slices.SortStableFunc(out, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Level.rank(), a.Level.rank()), cmp.Compare(b.Affected, a.Affected), cmp.Compare(a.Title, b.Title))
	})
	return out
}

// groupKey is what the affected of one cause have in common.
type groupKey struct {
	kind    CauseKind
	account string
	of      string // the reason, the handler, the hour
}

type finder struct {
	*Recorder
	snap   *collector.Snapshot
	groups map[groupKey]*Cause
	errors map[groupKey]string // one of them at length
	order  []groupKey
	stalls []*collector.QueueState
	deaths map[groupKey][]string
	open   map[Name]bool // queues whose handlers fail as a whole: that is why they stall
}

func (f *finder) group(k groupKey) *Cause {
	c := f.groups[k]
	if c == nil {
		c = &Cause{Kind: k.kind, Account: k.account}
		f.groups[k] = c
		f.order = append(f.order, k)
	}
	return c
}

// failing is the cause behind polls that fail for a reason.
func failing(reason queue.Result) CauseKind {
	switch reason {
	case queue.ResultThrottled:
		return CauseThrottled
	case queue.ResultAuth:
		return CauseAuth
	default:
		return CauseUnreachable
	}
}

func (f *finder) queue(s *collector.QueueState) {
	n := Name{s.Account, s.Queue}
	switch {
	case s.Rule == collector.RulePollsStayAway:
		f.group(groupKey{kind: CausePolls}).add(n, s.LastPoll)
	case s.Up == collector.No && s.Reason == queue.ResultNotFound && s.Kind == collector.KindMain:
		f.group(groupKey{CauseMissing, s.Account, ""}).add(n, s.Since)
	case s.Up == collector.No && s.Reason != "" && s.Reason != queue.ResultNotFound:
		k := groupKey{failing(s.Reason), s.Account, string(s.Reason)}
		f.group(k).add(n, s.LastSuccess)
		f.errors[k] = cmp.Or(f.errors[k], s.Error)
	case s.Poison == collector.PoisonGrowing:
		if f.isDying(n) {
			break // which says more
		}
		f.group(groupKey{CauseGrowing, s.Account, ""}).add(n, s.Since)
	case s.Kind != collector.KindMain:
	case s.Status == collector.StatusStalled && f.open[n]:
	case s.Status == collector.StatusStalled:
		f.stalls = append(f.stalls, s)
	case s.Status == collector.StatusFallingBehind:
		f.group(groupKey{CauseBehind, s.Account, ""}).add(n, s.Since)
	case s.Status == collector.StatusPaused:
		f.group(groupKey{kind: CausePaused}).add(n, s.Since)
	}
}

func (f *finder) consumer(p *processor.Status) {
	n := Name{p.Account, p.Queue}
	if p.BreakerOpen {
		settings, _ := f.cfg.Settings(p.Account, p.Queue)
		f.group(groupKey{kind: CauseHandler, of: settings.Handler}).add(n, f.snap.At.Add(-p.BreakerAge))
	}
	if reason := queue.Result(p.LastError); p.ReceiveFailures >= 3 && reason != queue.ResultNotFound {
		k := groupKey{failing(reason), p.Account, p.LastError}
		if c := f.group(k); !c.affects(n) {
			c.add(n, p.LastReceive)
		}
		f.errors[k] = cmp.Or(f.errors[k], fmt.Sprintf("%s in a row failed to receive from %s", Count(int64(p.ReceiveFailures), "request"), n))
	}
}

// accounts finds what is wrong with accounts as a whole.
func (f *finder) accounts() {
	for _, a := range f.snap.Accounts {
		if skew := max(a.Skew, -a.Skew); a.Answered && skew >= 5*time.Minute {
			k := groupKey{CauseClock, a.Name, ""}
			f.group(k).Affected = a.Queues
			f.errors[k] = fmt.Sprintf("the clock here is %s off the service's; requests signed with a key are refused at 15 m", Duration(skew))
		}
		if d := a.Discovery; d != nil && d.Failing != "" {
			k := groupKey{CauseListing, a.Name, string(d.Failing)}
			f.group(k).Affected = d.Queues
			if !d.LastSuccess.IsZero() {
				f.groups[k].Since = d.LastSuccess.UTC()
			}
		}
	}
}

// dying finds reasons for which messages die right now: one that several queues share is one cause, those of
// one queue alone are its own.
func (f *finder) dying() {
	var fresh []Cluster
	queues := map[string]map[Name]bool{}
	shape := func(c Cluster) string { return c.Category + " " + Shape(c.Reason) }
	for _, c := range f.Clusters(Name{}, maxClusters*10) {
		if f.snap.At.Sub(c.Last) > lately || c.Messages < dying {
			continue
		}
		fresh = append(fresh, c)
		if queues[shape(c)] == nil {
			queues[shape(c)] = map[Name]bool{}
		}
		queues[shape(c)][Name{c.Account, c.Queue}] = true
	}
	slices.SortStableFunc(fresh, func(a, b Cluster) int { return cmp.Compare(b.Messages, a.Messages) })
	for _, c := range fresh {
		n := Name{c.Account, c.Queue}
		k := groupKey{CauseDying, "", shape(c)}
		if len(queues[shape(c)]) == 1 {
			k = groupKey{CauseDying, c.Account, n.String()}
		}
		f.group(k).add(n, c.Since)
		f.deaths[k] = append(f.deaths[k], fmt.Sprintf("%s of %s: %s: %s", Count(c.Messages, "message"), c.Queue, words(c.Category), c.Reason))
	}
}

// isDying says whether a cause has been found for the queue's dead-letters.
func (f *finder) isDying(n Name) bool {
	for _, k := range f.order {
		if k.kind == CauseDying && f.groups[k].affects(n) {
			return true
		}
	}
	return false
}

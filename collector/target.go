package collector

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
)

// Mode says whether somebody here consumes a queue. Polling is the same for both.
type Mode int

// The modes. The zero Mode of a Target is ModeWatch.
const (
	ModeConsume Mode = iota + 1 // this process runs a consumer of the queue
	ModeWatch                   // the queue is only watched
)

// String returns the label form: "consume" or "watch".
func (m Mode) String() string {
	switch m {
	case ModeConsume:
		return "consume"
	case ModeWatch:
		return "watch"
	default:
		return "unknown"
	}
}

// Kind tells a main queue from a poison queue.
type Kind int

// The kinds.
const (
	KindMain Kind = iota + 1
	KindPoison
)

// String returns the label form: "main" or "poison".
func (k Kind) String() string {
	switch k {
	case KindMain:
		return metric.KindMain
	case KindPoison:
		return metric.KindPoison
	default:
		return "unknown"
	}
}

// Target is a queue to watch, together with its poison queue unless it has none.
//
// A poison queue shared by several queues must be a Target of its own (with
// queue.Config.NoPoison), or sums would count it twice. A Target that is the poison queue
// of another is exported under its own name with queue_kind "poison", and the targets that
// use it have no poison series.
type Target struct {
	Queue *queue.Queue // required
	Mode  Mode         // default ModeWatch

	// Interval between polls. Default: Config.Interval. It is longer while the queue is idle (see
	// Config.IdleInterval), and stretched when the polls of the account do not fit into
	// Config.RequestsPerSecond.
	Interval time.Duration
	// Scaled keeps Interval however idle the queue is, as a scaler needs. See Collector.Scaled.
	Scaled bool
	// PoisonOnly watches the poison queue alone, under the main queue's name: its main queue is not
	// there, or is nobody's business.
	PoisonOnly bool
	// CountsOnly reads the count and never a message, so that no permission to read
	// messages is needed. What comes from peeking is then unknown.
	CountsOnly bool

	// Team, Tier, Objective and ObjectiveRatio are as in Ownership. Each that is not set is taken from
	// the queue's own metadata (MetadataTeam and so on), else from Fallback: the nearest wins.
	Team           string
	Tier           int
	Objective      time.Duration
	ObjectiveRatio float64
	Fallback       Ownership // such as what name patterns say

	HandlerTimeLimit time.Duration // how long a handler may run; default 0: none
	MonitorOnly      bool          // a missing consumer is not a stall

	// Held returns how many messages of the main queue this process hides: its leases and the
	// retry delays it set. It must be fast and safe for concurrent use. Default: none.
	Held func() int
	// Busy returns how many handlers of this process are working on messages of the main queue.
	// As Held. Default: none.
	Busy func() int
	// Paused says whether the consumer in this process is paused. As Held. Default: it is not.
	Paused func() bool

	metadata map[string]string // as of the listing that found the queue
	found    bool              // by a listing: nobody named it
}

// id is what names a Target: two with the same id are the same queue.
type id struct{ account, queue string }

func (t Target) id() id { return id{t.Queue.Account().Name(), t.Queue.Name()} }

func (t Target) withDefaults(interval time.Duration) Target {
	if t.Mode == 0 {
		t.Mode = ModeWatch
	}
	if t.Interval == 0 {
		t.Interval = interval
	}
	return t
}

func (t Target) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.Mode != ModeConsume && t.Mode != ModeWatch {
		bad("mode %d is neither consume nor watch", t.Mode)
	}
	if t.Interval < MinInterval {
		bad("interval %v is shorter than %v", t.Interval, MinInterval)
	}
	for _, o := range []Ownership{{t.Team, t.Tier, t.Objective, t.ObjectiveRatio}, t.Fallback} {
		if o.Tier < 0 {
			bad("tier %d is negative", o.Tier)
		}
		if o.Objective < 0 {
			bad("objective %v is negative", o.Objective)
		}
		if !(o.ObjectiveRatio >= 0 && o.ObjectiveRatio < 1) { // NaN too
			bad("objective ratio %v is not between 0 and 1", o.ObjectiveRatio)
		}
	}
	if t.PoisonOnly && t.Queue.Poison() == nil {
		bad("it has no poison queue, which alone is to be watched")
	}
	if t.HandlerTimeLimit < 0 {
		bad("handler time limit %v is negative", t.HandlerTimeLimit)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("target %s/%s: %w", t.Queue.Account().Name(), t.Queue.Name(), errors.Join(errs...))
}

// checkTargets fills in defaults and returns every fault of the targets and of their combination.
func checkTargets(targets []Target, interval time.Duration) ([]Target, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	out := make([]Target, 0, len(targets))
	accounts := map[string]*queue.Account{}
	seen := map[id]bool{}
	poisonOf := map[id][]string{} // a poison queue, and who uses it
	for i, t := range targets {
		if t.Queue == nil {
			bad("target %d has no queue", i)
			continue
		}
		t = t.withDefaults(interval)
		if err := t.validate(); err != nil {
			errs = append(errs, err)
		}
		k, acct := t.id(), t.Queue.Account()
		if first, ok := accounts[k.account]; ok && first != acct {
			bad("target %s/%s: two accounts are called %q", k.account, k.queue, k.account)
		}
		accounts[k.account] = acct
		if seen[k] {
			bad("target %s/%s is given twice", k.account, k.queue)
			continue
		}
		seen[k] = true
		if p := t.Queue.Poison(); p != nil {
			pk := id{k.account, p.Name()}
			poisonOf[pk] = append(poisonOf[pk], k.queue)
		}
		out = append(out, t)
	}
	for pk, users := range poisonOf {
		if len(users) > 1 && !seen[pk] {
			slices.Sort(users)
			bad("poison queue %s/%s is shared by %q: make it a target of its own, or sums would count it %d times",
				pk.account, pk.queue, users, len(users))
		}
	}
	return out, errors.Join(errs...)
}

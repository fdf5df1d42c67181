package collector

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// Fact is something that may be unknown.
type Fact int

// The facts. The zero Fact is unknown.
const (
	No Fact = iota + 1
	Yes
)

func factOf(b bool) Fact {
	if b {
		return Yes
	}
	return No
}

// String returns "yes", "no" or "unknown".
func (f Fact) String() string {
	switch f {
	case Yes:
		return "yes"
	case No:
		return "no"
	default:
		return "unknown"
	}
}

// Snapshot is what is known about every queue at one time. It never changes, and the caller may keep it.
type Snapshot struct {
	At       time.Time      // local clock
	Queues   []QueueState   // by account, queue, and main before poison
	Accounts []AccountState // by name
}

// AccountState is what is known about an account as a whole.
type AccountState struct {
	Name           string // as configured
	StorageAccount string
	Queues         int           // polled, main and poison
	Failing        int           // of those, how many failed their last poll
	Answered       bool          // the service answered at least once, if only with an error
	Skew           time.Duration // service clock − local clock; 0 until Answered

	Discovery *DiscoveryState // nil without discovery
}

// DiscoveryState is what the listings of an account found.
type DiscoveryState struct {
	Queues      int          // found and watched, each with its poison queue
	Dropped     int          // asked for and not watched, because there are more than Discovery.MaxQueues
	LastSuccess time.Time    // zero before the first
	Failing     queue.Result // why the last listing failed; "" when it did not
}

// QueueState is what is known about one queue, main or poison. Times are on the local clock
// unless a field says otherwise.
type QueueState struct {
	Account        string // as configured
	StorageAccount string
	Queue          string // the main queue's name, for both kinds
	Kind           Kind
	PhysicalName   string // the queue's own name
	PoisonQueue    string // the poison queue's own name; "" when there is none
	Mode           Mode
	CountsOnly     bool

	Team             string // this and what follows: as it holds, whoever said so
	Tier             int
	Objective        time.Duration
	ObjectiveRatio   float64
	HandlerTimeLimit time.Duration
	MonitorOnly      bool
	MetadataFaults   []string          // what qwatch_… metadata says that is not valid
	Metadata         map[string]string // the queue's own, keys in lower case, of the last good poll; not to be changed

	Interval     time.Duration // effective: the one it is really polled at
	StaleAfter   time.Duration // how old a number may become
	Polls        uint64
	LastPoll     time.Time // zero before the first
	LastSuccess  time.Time // zero before the first
	PollDuration time.Duration

	Up     Fact         // Yes: the last poll succeeded; No as well when polls stay away; unknown before the first
	Reason queue.Result // why the last poll failed; "" when it succeeded
	Error  string       // the same at length, for a person to read
	Exists Fact

	Count Count
	Peek  Peek
	Held  int // hidden by this process: its leases and retry delays; main queues only

	// HeadUnchanged is how long the same messages have been visible at the head without one being
	// taken, as of the last peek; 0 when none is visible, and when the peek is unknown.
	HeadUnchanged time.Duration

	Status Status       // of a main queue
	Poison PoisonStatus // of a poison queue
	Rule   Rule         // what the status was found by
	Since  time.Time    // since when it holds; zero when that is not known
	Drain  Forecast     // when the queue is empty at the present rate; unknown when it does not drain
	// Loss is when the first message expires before anybody handled it; unknown when nothing that
	// was seen will. Of main queues whose messages are taken in time, nothing will.
	Loss Forecast

	partial      int64 // hidden messages at the last peek that was not full
	partialKnown bool
	history      *history
}

// Forecast is a time from the snapshot on.
type Forecast struct {
	Known bool
	In    time.Duration
}

// Evidence returns what the status rests on. Everybody gets an own copy.
func (s QueueState) Evidence() *Evidence {
	if s.history == nil {
		return &Evidence{Rule: RuleNotPolled}
	}
	e := s.history.evidence()
	e.Rule, e.Since = s.Rule, s.Since
	return e
}

// Count is how many messages the service says a queue holds, hidden and not yet reaped
// expired ones included.
type Count struct {
	Known    bool // false: not read yet, stale, or the main queue does not exist
	Messages int64
	At       time.Time // when it was read
}

// Age returns how old the count is at the given time.
func (c Count) Age(now time.Time) time.Duration { return now.Sub(c.At) }

// Peek is what one peek at the head of a queue showed.
type Peek struct {
	Known           bool // false: not read yet, stale, failed, not permitted, or the main queue does not exist
	At              time.Time
	Visible         int           // 0 to 32
	Full            bool          // Visible is 32: there may be more
	OldestAge       time.Duration // of the oldest message seen, by the service's clock; 0 when nothing is visible
	NextExpiration  time.Time     // service clock; zero when nothing seen expires
	MaxDequeueCount int
}

// Age returns how old the peek is at the given time.
func (p Peek) Age(now time.Time) time.Duration { return now.Sub(p.At) }

// KnownHidden returns how many messages are at least known to be hidden: by the last peek
// that was not full, while fresh, or by this process itself, whichever is more.
func (s QueueState) KnownHidden() int64 {
	n := int64(max(s.Held, 0))
	if s.partialKnown {
		n = max(n, s.partial)
	}
	return n
}

// Visible returns how many messages could be received now. Below 32 it is what the peek
// showed; saturated says that the peek was full, and n is then the count less the messages
// known to be hidden, and never under 32. It is not ok when the peek, or the count that a full peek
// needs, is unknown.
func (s QueueState) Visible() (n int64, saturated, ok bool) {
	switch {
	case !s.Peek.Known:
		return 0, false, false
	case !s.Peek.Full:
		return int64(s.Peek.Visible), false, true
	case !s.Count.Known:
		return 0, true, false
	default:
		return max(s.Count.Messages-s.KnownHidden(), int64(s.Peek.Visible)), true, true
	}
}

// Hidden returns how many messages are on the queue but not to be received now: leased,
// delayed, or expired and not yet reaped. floor says that the peek was full, and that there
// may be more. It is not ok when the count or the peek is unknown.
func (s QueueState) Hidden() (n int64, floor, ok bool) {
	switch {
	case !s.Count.Known || !s.Peek.Known:
		return 0, false, false
	case s.Peek.Full:
		return min(s.KnownHidden(), max(s.Count.Messages-int64(s.Peek.Visible), 0)), true, true
	default:
		return max(s.Count.Messages-int64(s.Peek.Visible), 0), false, true
	}
}

// reading is what the polls of one queue have shown so far. It never changes: each poll makes a new one.
type reading struct {
	polls        uint64
	failures     [maxReasons]uint64
	clamped      uint64 // ages that would have been negative
	lastPoll     time.Time
	lastSuccess  time.Time
	lastDuration time.Duration

	up       bool
	reason   queue.Result
	err      string
	exists   Fact
	existsAt time.Time
	count    Count
	peek     Peek
	hidden   int64     // at the last peek that was not full
	hiddenAt time.Time // zero: never
	metadata map[string]string
	history  *history
	interval time.Duration // effective: until the next poll
	longer   time.Duration // what it was before it changed; 0: a poll was made since
}

// staleAfter is how long a number is kept. A shorter interval makes none stale before there was a poll to replace it.
func (r *reading) staleAfter() time.Duration { return StaleIntervals * max(r.interval, r.longer) }

// every returns the reading with another interval.
func (r *reading) every(interval time.Duration) *reading {
	n := *r
	n.longer = max(n.longer, n.interval)
	n.interval = interval
	return &n
}

// view is a reading as it looks at a given time: without what is stale.
type view struct {
	*spec
	*reading
	upFact                              Fact
	existsNow                           Fact
	countFresh, peekFresh, partialFresh bool
	status                              Status
	poison                              PoisonStatus
	rule                                Rule
	now                                 time.Duration // since the history's epoch
}

func viewOf(s *spec, r *reading, now time.Time) view {
	limit := r.staleAfter()
	fresh := func(at time.Time) bool { return !at.IsZero() && now.Sub(at) <= limit }
	v := view{spec: s, reading: r}
	if r.polled() {
		v.upFact = factOf(r.up && fresh(r.lastSuccess))
	}
	if fresh(r.existsAt) {
		v.existsNow = r.exists
	}
	v.countFresh = r.count.Known && fresh(r.count.At)
	v.peekFresh = r.peek.Known && fresh(r.peek.At)
	v.partialFresh = fresh(r.hiddenAt)
	v.now = now.Sub(r.history.epoch)
	v.judge(now.Sub(r.lastPoll) <= limit)
	return v
}

// judge settles the status: the history's, unless something is known beside the samples.
func (v *view) judge(polled bool) {
	h := v.history
	v.status, v.poison, v.rule = h.status, h.poison, h.rule
	switch {
	case v.polled() && !polled:
		v.rule = RulePollsStayAway
		if v.kind == KindPoison {
			v.poison = PoisonUnknown
		} else {
			v.status = StatusUnreachable
		}
	case v.kind == KindPoison, v.target.Paused == nil, v.status == StatusUnreachable, v.status == StatusMissing:
	case v.target.Paused():
		v.status, v.rule = StatusPaused, RulePaused
	}
}

// drain and loss are the forecasts as they stand now.
func (v *view) drain() (time.Duration, bool) {
	in, ok := v.history.drain.in(v.now)
	return in, ok && v.countFresh
}

func (v *view) loss() (time.Duration, bool) {
	in, ok := v.history.loss(v.status, v.now)
	return in, ok && v.peekFresh
}

func (v view) state() QueueState {
	t, acct := v.target, v.queue.Account()
	s := QueueState{
		Account: v.account, StorageAccount: acct.StorageAccount(), Queue: v.target.Queue.Name(), Kind: v.kind,
		PhysicalName: v.queue.Name(), PoisonQueue: v.poisonName, Mode: t.Mode, CountsOnly: t.CountsOnly,
		Team: t.Team, Tier: t.Tier, Objective: t.Objective, ObjectiveRatio: t.ObjectiveRatio,
		HandlerTimeLimit: t.HandlerTimeLimit, MonitorOnly: t.MonitorOnly, Metadata: v.metadata,
		Interval: v.reading.interval, StaleAfter: v.reading.staleAfter(), Polls: v.polls,
		LastPoll: v.lastPoll, LastSuccess: v.lastSuccess, PollDuration: v.lastDuration,
		Up: v.upFact, Reason: v.reason, Error: v.err, Exists: v.existsNow,
	}
	_, s.MetadataFaults = ownershipOf(v.metadata)
	if v.countFresh {
		s.Count = v.count
	}
	if v.peekFresh {
		s.Peek = v.peek
	}
	if v.partialFresh {
		s.partial, s.partialKnown = v.hidden, true
	}
	if v.peekFresh {
		s.HeadUnchanged = v.history.unchangedFor()
	}
	s.Status, s.Poison, s.Rule, s.history = v.status, v.poison, v.rule, v.history
	if v.rule == v.history.rule {
		s.Since = v.history.epoch.Add(v.history.since)
	}
	s.Drain.In, s.Drain.Known = v.drain()
	s.Loss.In, s.Loss.Known = v.loss()
	if t.Held != nil && v.kind == KindMain {
		s.Held = t.Held()
	}
	return s
}

// Snapshot returns what is known now. It makes no request and takes no lock that a poll holds.
func (c *Collector) Snapshot() *Snapshot {
	fleet, now := c.fleet.Load(), time.Now()
	return &Snapshot{
		At: now, Queues: slices.AppendSeq(make([]QueueState, 0, len(fleet.watches)), fleet.states(now)), Accounts: fleet.accountStates(now),
	}
}

// All hands out the queues of a Snapshot one by one, without making it: it is for those who look for some of them.
func (c *Collector) All() iter.Seq[QueueState] { return c.fleet.Load().states(time.Now()) }

// Accounts returns the accounts of a Snapshot alone.
func (c *Collector) Accounts() []AccountState { return c.fleet.Load().accountStates(time.Now()) }

// states hands out the queues as they are.
func (f *fleet) states(now time.Time) iter.Seq[QueueState] {
	return func(yield func(QueueState) bool) {
		for _, w := range f.watches {
			if !yield(w.view(now).state()) {
				return
			}
		}
	}
}

func (f *fleet) accountStates(now time.Time) []AccountState {
	all := make([]AccountState, 0, len(f.accounts))
	at := make(map[string]int, len(f.accounts))
	for i, a := range f.accounts {
		acct := a.ref.Load()
		skew, answered := acct.Skew()
		at[a.name] = i
		all = append(all, AccountState{Name: a.name, StorageAccount: acct.StorageAccount(), Answered: answered, Skew: skew})
	}
	for _, d := range f.discoveries {
		all[at[d.account]].Discovery = &DiscoveryState{d.queues, d.dropped, d.lastSuccess, d.failing}
	}
	for _, w := range f.watches {
		a := &all[at[w.account]]
		a.Queues++
		if w.view(now).upFact == No {
			a.Failing++
		}
	}
	return all
}

// Queue returns what is known now about one queue: its main queue, then its poison queue.
// The name is the main queue's. It returns nil when no such queue is watched.
func (c *Collector) Queue(account, name string) []QueueState {
	var out []QueueState
	now := time.Now()
	for _, w := range c.fleet.Load().byID[id{account, name}] {
		out = append(out, w.view(now).state())
	}
	return out
}

// sameMetadata keeps the map that is there when the new one says the same.
func sameMetadata(old, new map[string]string) map[string]string {
	if maps.Equal(old, new) {
		return old
	}
	return new
}

package story

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// Number is a number that may be unknown, with its age. Floor says that it may be more.
type Number struct {
	Known      bool    `json:"-"`
	Value      int64   `json:"value"`
	AgeSeconds float64 `json:"ageSeconds"`
	Floor      bool    `json:"floor,omitempty"`
}

// IsZero says that the number is not known; JSON leaves it out then.
func (n Number) IsZero() bool { return !n.Known }

// UnmarshalJSON implements json.Unmarshaler: what is there is known.
func (n *Number) UnmarshalJSON(text []byte) error {
	type plain Number // without this method
	err := json.Unmarshal(text, (*plain)(n))
	n.Known = err == nil
	return err
}

// number makes a Number as old as d; of what is not known its zero value.
func number(known bool, value int64, age time.Duration, floor bool) Number {
	if !known {
		return Number{}
	}
	return Number{true, value, float64(max(0, age).Milliseconds()) / 1000, floor}
}

// Row is one queue with its poison queue and its consumer in this process, in short.
type Row struct {
	Name

	Team   string    `json:"team,omitempty"`
	Tier   int       `json:"tier,omitempty"`
	Status string    `json:"status"` // of the main queue; "" when only the poison queue is watched
	Rule   string    `json:"rule,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Level  Level     `json:"level"`            // the worst there is to say
	Reason string    `json:"reason,omitempty"` // why the last poll failed

	Messages     Number  `json:"messages,omitzero"` // hidden ones included
	Visible      Number  `json:"visible,omitzero"`  // of one peek
	Hidden       Number  `json:"hidden,omitzero"`
	Oldest       Number  `json:"oldestSeconds,omitzero"` // visible
	DrainSeconds float64 `json:"drainSeconds,omitempty"`
	LossSeconds  float64 `json:"lossSeconds,omitempty"`

	Poison       Number `json:"poison,omitzero"`
	PoisonOldest Number `json:"poisonOldestSeconds,omitzero"`
	PoisonStatus string `json:"poisonStatus,omitempty"`

	ReadSeconds float64 `json:"readSeconds"` // since the last poll that succeeded; −1: never
	Consumer    string  `json:"consumer,omitempty"`
	Handlers    int     `json:"handlers,omitempty"`
	MaxHandlers int     `json:"maxHandlers,omitempty"`
	BreakerOpen bool    `json:"breakerOpen,omitempty"`
}

// Totals are sums over a fleet.
type Totals struct {
	Queues        int            `json:"queues"`
	Statuses      map[string]int `json:"statuses"`
	Messages      int64          `json:"messages"` // where known
	Poison        int64          `json:"poison"`
	OldestSeconds int64          `json:"oldestSeconds"`
	Unread        int            `json:"unread"` // queues whose last poll failed, or that were not polled yet
}

// Expiry is messages that will be lost unless somebody handles them.
type Expiry struct {
	Name
	Poison    bool    `json:"poison,omitempty"` // those of the poison queue
	InSeconds float64 `json:"inSeconds"`        // until the first is lost
	Messages  Number  `json:"messages,omitzero"`
}

// Fleet is what there is to say about all queues at one time. It must not be changed.
type Fleet struct {
	At       time.Time
	Rows     []Row // the worst first
	Totals   Totals
	Causes   []Cause
	Expiring []Expiry // within ExpirySpan, the soonest first
}

// ExpirySpan is how far ahead expiries are told: to the morning.
const ExpirySpan = 12 * time.Hour

// fleetFresh is for how long a view of the fleet serves: many may look at once.
const fleetFresh = time.Second

type fleetCache struct {
	mu    sync.Mutex
	fleet *Fleet
}

// Fleet returns what there is to say about all queues. It is made anew at most once a second.
func (r *Recorder) Fleet() *Fleet {
	r.cached.mu.Lock()
	defer r.cached.mu.Unlock()
	if f := r.cached.fleet; f != nil && time.Since(f.At) < fleetFresh {
		return f
	}
	snap, procs := r.cfg.Snapshot(), r.cfg.Processors()
	f := &Fleet{At: snap.At, Totals: Totals{Statuses: map[string]int{}}}
	byName := make(map[Name]*processor.Status, len(procs))
	for i := range procs {
		byName[Name{procs[i].Account, procs[i].Queue}] = &procs[i]
	}
	f.Rows = make([]Row, 0, len(snap.Queues))
	for i := 0; i < len(snap.Queues); {
		n := Name{snap.Queues[i].Account, snap.Queues[i].Queue}
		first := i
		for i < len(snap.Queues) && snap.Queues[i].Account == n.Account && snap.Queues[i].Queue == n.Queue {
			i++
		}
		row := rowOf(snap.Queues[first:i], byName[n], snap.At)
		f.add(row, snap.Queues[first:i])
	}
	f.Causes = r.causes(snap, procs)
	slices.SortStableFunc(f.Rows, worst)
	slices.SortStableFunc(f.Expiring, func(a, b Expiry) int { return cmp.Compare(a.InSeconds, b.InSeconds) })
	r.cached.fleet = f
	return f
}

// processor returns the status of a queue's processor here; nil when there is none.
func (r *Recorder) processor(name Name) *processor.Status {
	for _, p := range r.cfg.Processors() {
		if p.Account == name.Account && p.Queue == name.Queue {
			return &p
		}
	}
	return nil
}

func (f *Fleet) add(row Row, states []collector.QueueState) {
	f.Rows = append(f.Rows, row)
	t := &f.Totals
	t.Queues++
	t.Statuses[cmp.Or(row.Status, "poison_only")]++
	t.Messages += row.Messages.Value
	t.Poison += row.Poison.Value
	t.OldestSeconds = max(t.OldestSeconds, row.Oldest.Value)
	unread := false
	for i := range states {
		s := &states[i]
		unread = unread || s.Up != collector.Yes && s.Exists != collector.No
		if s.Loss.Known && s.Loss.In <= ExpirySpan {
			f.Expiring = append(f.Expiring, Expiry{
				Name: row.Name, Poison: s.Kind == collector.KindPoison, InSeconds: s.Loss.In.Seconds(),
				Messages: number(s.Count.Known, s.Count.Messages, s.Count.Age(f.At), false),
			})
		}
	}
	if unread {
		t.Unread++
	}
}

// rowOf puts a queue's states, and its consumer if it has one, into one row.
func rowOf(states []collector.QueueState, p *processor.Status, now time.Time) Row {
	row := Row{Name: Name{states[0].Account, states[0].Queue}, Level: LevelUnknown, ReadSeconds: -1}
	good := false
	level := func(l Level) {
		good = good || l == LevelGood
		if l != LevelGood && (row.Level == LevelUnknown || l.Worse(row.Level)) {
			row.Level = l
		}
	}
	for i := range states {
		s := &states[i]
		row.Team, row.Tier = s.Team, s.Tier
		count := number(s.Count.Known, s.Count.Messages, s.Count.Age(now), false)
		oldest := number(s.Peek.Known, int64(s.Peek.OldestAge/time.Second), s.Peek.Age(now), s.Peek.Full)
		if row.ReadSeconds < 0 && !s.LastSuccess.IsZero() {
			row.ReadSeconds = max(0, now.Sub(s.LastSuccess)).Seconds()
		}
		if s.Up == collector.No && s.Exists != collector.No {
			row.Reason = string(s.Reason)
			level(LevelWarn)
		}
		if s.Loss.Known && (row.LossSeconds == 0 || s.Loss.In.Seconds() < row.LossSeconds) {
			row.LossSeconds = max(1, s.Loss.In.Seconds())
		}
		if s.Kind == collector.KindPoison {
			row.Poison, row.PoisonOldest, row.PoisonStatus = count, oldest, s.Poison.String()
			level(LevelOf(row.PoisonStatus))
			continue
		}
		row.Status, row.Rule, row.Since = s.Status.String(), string(s.Rule), s.Since.UTC()
		if s.Since.IsZero() {
			row.Since = time.Time{}
		}
		row.Messages, row.Oldest = count, oldest
		row.Visible = number(s.Peek.Known, int64(s.Peek.Visible), s.Peek.Age(now), s.Peek.Full)
		if n, floor, ok := s.Hidden(); ok {
			row.Hidden = number(true, n, max(s.Count.Age(now), s.Peek.Age(now)), floor)
		}
		if s.Drain.Known {
			row.DrainSeconds = s.Drain.In.Seconds()
		}
		level(LevelOf(row.Status))
	}
	if row.Level == LevelUnknown && good {
		row.Level = LevelGood
	}
	if p != nil {
		row.Consumer, row.Handlers, row.MaxHandlers, row.BreakerOpen = p.State.String(), p.Handlers, p.MaxHandlers, p.BreakerOpen
		if p.BreakerOpen {
			row.Level = LevelBad
		}
	}
	return row
}

// worst orders rows for a bad night.
func worst(a, b Row) int {
	tier := func(r Row) int {
		if r.Tier == 0 {
			return 1000
		}
		return r.Tier
	}
	return cmp.Or(
		cmp.Compare(b.Level.rank(), a.Level.rank()), cmp.Compare(LevelOf(b.Status).rank(), LevelOf(a.Status).rank()), cmp.Compare(tier(a), tier(b)),
		cmp.Compare(b.Oldest.Value, a.Oldest.Value), cmp.Compare(b.Messages.Value, a.Messages.Value),
		cmp.Compare(a.Account, b.Account), cmp.Compare(a.Queue, b.Queue),
	)
}

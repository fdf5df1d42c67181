package scaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/qwatch/qwatch/collector"
)

// Strategy is what a queue's depth is taken for.
type Strategy int

// The strategies.
const (
	StrategyAll      Strategy = iota + 1 // the service's count: waiting, leased, delayed, and expired messages
	StrategyVisible                      // what could be received now
	StrategyInflight                     // that and the running handlers
	StrategyDrain                        // replicas that handle the backlog within the objective
)

// Strategies are the names there are.
func Strategies() []string { return []string{"all", "visible", "inflight", "drain"} }

// String returns the name; "" for none of them.
func (s Strategy) String() string {
	if s < StrategyAll || s > StrategyDrain {
		return ""
	}
	return Strategies()[s-StrategyAll]
}

// ParseStrategy returns the strategy of that name; "" is StrategyAll.
func ParseStrategy(name string) (Strategy, error) {
	if name == "" {
		return StrategyAll, nil
	}
	for i, n := range Strategies() {
		if n == name {
			return StrategyAll + Strategy(i), nil
		}
	}
	return 0, failed(BadRequest, "there is no strategy %q; use all, visible, inflight or drain", name)
}

// facts are what a decision rests on.
type facts struct {
	count       collector.Count
	peek        collector.Peek
	hidden      int64  // at least so many messages are hidden
	reason      string // why count and peek are missing when they are
	running     workers
	objective   time.Duration // 0: none
	handling    time.Duration // of one message; 0: not known
	concurrency int           // of one replica, at least 1
	now         time.Time
}

// visible is what could be received now. A full peek shows 32 of more: the count tells the rest.
func (f facts) visible() (n int64, saturated bool, age time.Duration, err error) {
	switch {
	case !f.peek.Known && f.count.Known:
		return 0, false, 0, errors.New("what is visible is not known: messages are not looked at, or the last look failed")
	case !f.peek.Known:
		return 0, false, 0, errors.New(f.reason)
	case !f.peek.Full:
		return int64(f.peek.Visible), false, f.peek.Age(f.now), nil
	case !f.count.Known:
		return 0, false, 0, errors.New(f.reason)
	default:
		return max(f.count.Messages-f.hidden, int64(f.peek.Visible)), true, max(f.count.Age(f.now), f.peek.Age(f.now)), nil
	}
}

// decide is what a strategy makes of the facts. An error says what is not known.
func decide(s Strategy, f facts) (Answer, error) {
	if s == StrategyAll {
		if !f.count.Known {
			return Answer{}, errors.New(f.reason)
		}
		return Answer{Value: f.count.Messages, Strategy: s, Age: max(0, f.count.Age(f.now))}, nil
	}
	n, saturated, age, err := f.visible()
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Value: n, Strategy: s, Saturated: saturated, Age: max(0, age)}
	switch s {
	case StrategyVisible:
		return a, nil
	case StrategyInflight:
		if !f.running.known {
			return Answer{}, fmt.Errorf("how many handlers run is not known: %s", f.running.why)
		}
		a.Value += int64(f.running.handlers)
		a.Age = max(a.Age, f.running.age)
		return a, nil
	case StrategyDrain:
		return f.drain(a)
	default:
		return Answer{}, fmt.Errorf("there is no strategy %d", s)
	}
}

// drain turns visible messages into replicas: backlog × handling time ÷ (concurrency × time left).
func (f facts) drain(visible Answer) (Answer, error) {
	a := visible
	a.Backlog = visible.Value + int64(f.running.handlers)
	switch {
	case f.objective <= 0:
		return Answer{}, errors.New("it has no objective, which drain needs: set objective: {timeInQueue: …}")
	case !f.running.known && visible.Value == 0:
		// Handlers may be at work, and the last replica must not be taken from under them.
		return Answer{}, fmt.Errorf("nothing is visible, and how many handlers run is not known: %s", f.running.why)
	}
	a.Age = max(a.Age, f.running.age)
	if a.Backlog == 0 {
		a.Value = 0
		return a, nil
	}
	// A message occupies one slot: more slots than messages are of no use.
	most := ceilDiv(a.Backlog, int64(f.concurrency))
	// And those that are busy are needed: what arrives while they work is not in the backlog.
	least := max(1, ceilDiv(int64(f.running.handlers), int64(f.concurrency)))
	if f.handling <= 0 {
		a.Value, a.Saturated = least, true // the first messages tell how long they take
		return a, nil
	}
	need := float64(a.Backlog) * f.handling.Seconds() / (float64(f.concurrency) * f.timeLeft().Seconds())
	// Not one more for a rounding error.
	a.Value = max(least, min(most, int64(math.Ceil(min(need, maxReplicas)-1e-9))))
	return a, nil
}

// maxReplicas is far more than anybody runs, and far less than what overflows.
const maxReplicas = 1e9

// tightest is the least part of the objective in which drain wants to be done: of what is late
// already, four times as many replicas are enough.
const tightest = 4

// timeLeft is how long the backlog may take: the objective, and once the oldest message has spent half of it
// waiting, what is left of it. Messages that were delivered before are no measure of that: they are old
// because they failed.
func (f facts) timeLeft() time.Duration {
	if f.peek.MaxDequeueCount > 0 || f.peek.OldestAge <= f.objective/2 {
		return f.objective
	}
	return max(f.objective-f.peek.OldestAge, f.objective/tightest)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

package scaler

import (
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/collector"
)

func countOf(n int64) collector.Count {
	return collector.Count{Known: true, Messages: n, At: simEpoch.Add(-3 * time.Second)}
}

func peekOf(n int) collector.Peek {
	return collector.Peek{Known: true, At: simEpoch.Add(-2 * time.Second), Visible: n, Full: n == 32}
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	busy := workers{known: true, handlers: 6, slots: 8, replicas: 2, age: 9 * time.Second}
	base := facts{
		count: countOf(20), peek: peekOf(14), running: busy, objective: time.Minute, handling: 30 * time.Second, concurrency: 4, now: simEpoch,
		reason: "no poll has succeeded yet",
	}
	for name, tt := range map[string]struct {
		strategy Strategy
		change   func(*facts)
		want     int64
		more     bool // saturated
		age      time.Duration
		err      string
	}{
		"all is the service's count":                       {StrategyAll, nil, 20, false, 3 * time.Second, ""},
		"all without a count":                              {StrategyAll, func(f *facts) { f.count = collector.Count{} }, 0, false, 0, "no poll has succeeded yet"},
		"visible is the peek below 32":                     {StrategyVisible, nil, 14, false, 2 * time.Second, ""},
		"visible of a full peek is what is not hidden":     {StrategyVisible, func(f *facts) { f.peek, f.count, f.hidden = peekOf(32), countOf(500), 60 }, 440, true, 3 * time.Second, ""},
		"visible of a full peek is never under 32":         {StrategyVisible, func(f *facts) { f.peek, f.count, f.hidden = peekOf(32), countOf(40), 60 }, 32, true, 3 * time.Second, ""},
		"visible of a full peek without a count":           {StrategyVisible, func(f *facts) { f.peek, f.count = peekOf(32), collector.Count{} }, 0, false, 0, "no poll has succeeded yet"},
		"visible without a peek":                           {StrategyVisible, func(f *facts) { f.peek = collector.Peek{} }, 0, false, 0, "what is visible is not known"},
		"visible without anything":                         {StrategyVisible, func(f *facts) { f.peek, f.count = collector.Peek{}, collector.Count{} }, 0, false, 0, "no poll has succeeded yet"},
		"inflight adds the running handlers":               {StrategyInflight, nil, 20, false, 9 * time.Second, ""},
		"inflight with nothing visible":                    {StrategyInflight, func(f *facts) { f.peek = peekOf(0) }, 6, false, 9 * time.Second, ""},
		"inflight without knowing the handlers":            {StrategyInflight, func(f *facts) { f.running = workers{why: "peer x does not answer"} }, 0, false, 0, "peer x does not answer"},
		"drain is the backlog by time and slots":           {StrategyDrain, func(f *facts) { f.peek, f.count = peekOf(32), countOf(394) }, 50, true, 9 * time.Second, ""},
		"drain rounds up":                                  {StrategyDrain, nil, 3, false, 9 * time.Second, ""},
		"drain of nothing":                                 {StrategyDrain, func(f *facts) { f.peek, f.running.handlers = peekOf(0), 0 }, 0, false, 9 * time.Second, ""},
		"drain of little is one":                           {StrategyDrain, func(f *facts) { f.peek, f.running.handlers = peekOf(1), 0 }, 1, false, 9 * time.Second, ""},
		"drain keeps the replicas that are busy":           {StrategyDrain, func(f *facts) { f.running.handlers, f.handling = 40, time.Second }, 10, false, 9 * time.Second, ""},
		"drain has no more slots than messages":            {StrategyDrain, func(f *facts) { f.handling = time.Hour }, 5, false, 9 * time.Second, ""},
		"drain without an objective":                       {StrategyDrain, func(f *facts) { f.objective = 0 }, 0, false, 0, "it has no objective"},
		"drain without a handling time is one, or more":    {StrategyDrain, func(f *facts) { f.handling, f.running.handlers = 0, 0 }, 1, true, 9 * time.Second, ""},
		"drain without a handling time keeps who is busy":  {StrategyDrain, func(f *facts) { f.handling = 0 }, 2, true, 9 * time.Second, ""},
		"drain without knowing the handlers":               {StrategyDrain, func(f *facts) { f.running = workers{} }, 2, false, 2 * time.Second, ""},
		"drain without knowing whether the last is busy":   {StrategyDrain, func(f *facts) { f.running, f.peek = workers{}, peekOf(0) }, 0, false, 0, "nothing is visible, and how many handlers run is not known"},
		"drain with half of the objective over":            {StrategyDrain, func(f *facts) { f.objective, f.peek.OldestAge = 2*time.Minute, time.Minute }, 2, false, 9 * time.Second, ""},
		"drain with three quarters of the objective over":  {StrategyDrain, func(f *facts) { f.objective, f.peek.OldestAge = 2*time.Minute, 90*time.Second }, 5, false, 9 * time.Second, ""},
		"drain of what is late already":                    {StrategyDrain, func(f *facts) { f.objective, f.peek.OldestAge = 4*time.Minute, time.Hour }, 3, false, 9 * time.Second, ""},
		"drain of old messages that failed":                {StrategyDrain, func(f *facts) { f.objective, f.peek.OldestAge, f.peek.MaxDequeueCount = 4*time.Minute, time.Hour, 2 }, 2, false, 9 * time.Second, ""},
		"drain of more than anybody can count on":          {StrategyDrain, func(f *facts) { f.peek, f.count, f.objective = peekOf(32), countOf(1<<62), time.Nanosecond }, maxReplicas, true, 9 * time.Second, ""},
		"no such strategy":                                 {9, nil, 0, false, 0, "there is no strategy"},
		"drain where a message takes no time worth a name": {StrategyDrain, func(f *facts) { f.handling, f.running.handlers = time.Nanosecond, 0 }, 1, false, 9 * time.Second, ""},
	} {
		f := base
		if tt.change != nil {
			tt.change(&f)
		}
		a, err := decide(tt.strategy, f)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %+v, error %v, want %q", name, a, err, tt.err)
			}
			continue
		}
		if err != nil || a.Value != tt.want || a.Saturated != tt.more || a.Age != tt.age || a.Strategy != tt.strategy {
			t.Errorf("%s: %+v, %v; want %d, saturated %v, age %v", name, a, err, tt.want, tt.more, tt.age)
		}
	}
}

// A threshold is in messages, whatever the value is in.
func TestActivationIsInMessages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a          Answer
		activation float64
		want       bool
	}{
		{Answer{Value: 0}, 0, false},
		{Answer{Value: 1}, 0, true},
		{Answer{Value: 5}, 5, false},
		{Answer{Value: 6}, 5, true},
		{Answer{Value: 1, Backlog: 9, Strategy: StrategyDrain}, 5, true},
		{Answer{Value: 9, Backlog: 3, Strategy: StrategyDrain}, 5, false},
	} {
		if got := tt.a.Active(tt.activation); got != tt.want {
			t.Errorf("%+v, activation %v: %v", tt.a, tt.activation, got)
		}
	}
}

func TestHandlingTimeForgets(t *testing.T) {
	t.Parallel()
	var h handling
	if _, ok := h.mean(); ok {
		t.Error("a mean of nothing")
	}
	near := func(want time.Duration) {
		t.Helper()
		got, ok := h.mean()
		if !ok || got < want*95/100 || got > want*105/100 {
			t.Errorf("mean %v, %v; want about %v", got, ok, want)
		}
	}
	at := simEpoch
	h.add(at, 100, 100*time.Second)
	near(time.Second)
	h.add(at, 0, time.Hour) // nothing
	h.add(at, 1, -time.Second)
	near(time.Second)
	h.add(at.Add(time.Second), 100, 300*time.Second) // smoothed
	near(2 * time.Second)
	for range 60 {
		at = at.Add(10 * time.Second)
		h.add(at, 5, 50*time.Second)
	}
	near(10 * time.Second) // the past is over
	at = at.Add(48 * time.Hour)
	h.add(at, 1, time.Second) // one message after two days is not all there is to know
	near(9100 * time.Millisecond)
	h.add(at, 1, -1)
	var odd handling
	odd.add(at, 1, 0)
	if mean, ok := odd.mean(); !ok || mean != shortestMean {
		t.Errorf("mean %v, %v of a message that took no time", mean, ok)
	}
}

package web

import (
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/processor"
)

// queuesView is the answer to GET /api/v1/queues.
type queuesView struct {
	At     time.Time   `json:"at"`
	Queues []queueView `json:"queues"`
}

// queueView is one queue with its poison queue and its consumer. What is not known is
// absent.
type queueView struct {
	Account        string         `json:"account"`
	Queue          string         `json:"queue"`
	Mode           string         `json:"mode"` // consume or watch
	StorageAccount string         `json:"storageAccount"`
	Team           string         `json:"team,omitempty"`
	Tier           int            `json:"tier,omitempty"`
	MonitorOnly    bool           `json:"monitorOnly,omitempty"`
	Objective      *objectiveView `json:"objective,omitempty"`
	MetadataFaults []string       `json:"metadataFaults,omitempty"` // what qwatch_… metadata says that is not valid
	Main           *stateView     `json:"main,omitempty"`
	Poison         *stateView     `json:"poison,omitempty"`
	Consumer       *consumerView  `json:"consumer,omitempty"`
}

type objectiveView struct {
	TimeInQueueSeconds float64 `json:"timeInQueueSeconds"`
	Target             float64 `json:"target,omitempty"`
}

// stateView is what is known about one queue of the service.
type stateView struct {
	Name   string `json:"name"`
	Up     *bool  `json:"up,omitempty"` // the last poll succeeded
	Exists *bool  `json:"exists,omitempty"`
	Reason string `json:"reason,omitempty"` // why the last poll failed
	Error  string `json:"error,omitempty"`  // the same at length

	Status       string              `json:"status"`     // by its trend
	StatusRule   string              `json:"statusRule"` // what the status was found by
	StatusSince  *time.Time          `json:"statusSince,omitempty"`
	DrainSeconds *float64            `json:"drainSeconds,omitempty"` // until it is empty, at the present rate
	LossSeconds  *float64            `json:"lossSeconds,omitempty"`  // until the first message expires unhandled
	Evidence     *collector.Evidence `json:"evidence,omitempty"`     // of one queue only

	ApproximateMessages     *number `json:"approximateMessages,omitempty"` // hidden ones included
	Visible                 *number `json:"visible,omitempty"`             // what the peek saw, as the metric has it
	VisibleEstimate         *number `json:"visibleEstimate,omitempty"`     // of a full peek: the count less what is known to be hidden
	Hidden                  *number `json:"hidden,omitempty"`
	OldestVisibleAgeSeconds *number `json:"oldestVisibleAgeSeconds,omitempty"`
	HeadUnchangedSeconds    *number `json:"headUnchangedSeconds,omitempty"` // the same messages visible, and none taken
	MaxDequeueCount         *number `json:"maxDequeueCount,omitempty"`
	NextExpirationAt        *moment `json:"nextExpirationAt,omitempty"`

	IntervalSeconds       float64  `json:"intervalSeconds"`
	StaleAfterSeconds     float64  `json:"staleAfterSeconds"` // older numbers are left out
	LastPollAgeSeconds    *float64 `json:"lastPollAgeSeconds,omitempty"`
	LastSuccessAgeSeconds *float64 `json:"lastSuccessAgeSeconds,omitempty"`
}

// number is a value with its age. Floor and Saturated both say that it may be more; Saturated, that
// it is because the peek was full.
type number struct {
	Value      float64 `json:"value"`
	AgeSeconds float64 `json:"ageSeconds"`
	Floor      bool    `json:"floor,omitempty"`
	Saturated  bool    `json:"saturated,omitempty"`
}

// moment is a time with the age of what is known about it.
type moment struct {
	Value      time.Time `json:"value"`
	AgeSeconds float64   `json:"ageSeconds"`
}

// consumerView is the processor of a queue in this process.
type consumerView struct {
	State                 string   `json:"state"`
	Handlers              int      `json:"handlers"`
	MaxHandlers           int      `json:"maxHandlers"`
	BreakerOpen           bool     `json:"breakerOpen"` // handlers fail as a whole
	OldestHandlerSeconds  float64  `json:"oldestHandlerSeconds"`
	ReceiveFailures       int      `json:"receiveFailures"` // in a row
	LastReceiveAgeSeconds *float64 `json:"lastReceiveAgeSeconds,omitempty"`
	LastError             string   `json:"lastError,omitempty"`
}

// viewOf joins the states of queues, main before poison, with their processors.
func viewOf(states []collector.QueueState, procs []processor.Status, now time.Time) []queueView {
	type key struct{ account, queue string }
	consumers := make(map[key]*consumerView, len(procs))
	for _, p := range procs {
		consumers[key{p.Account, p.Queue}] = viewConsumer(p, now)
	}
	views := make([]queueView, 0, len(states))
	for _, s := range states {
		if n := len(views); n == 0 || views[n-1].Account != s.Account || views[n-1].Queue != s.Queue {
			views = append(views, queueView{
				Account: s.Account, Queue: s.Queue, Mode: s.Mode.String(), StorageAccount: s.StorageAccount,
				Team: s.Team, Tier: s.Tier, MonitorOnly: s.MonitorOnly, Consumer: consumers[key{s.Account, s.Queue}],
			})
			if s.Objective > 0 {
				views[n].Objective = &objectiveView{s.Objective.Seconds(), s.ObjectiveRatio}
			}
		}
		v := &views[len(views)-1]
		v.MetadataFaults = append(v.MetadataFaults, s.MetadataFaults...)
		if s.Kind == collector.KindPoison {
			v.Poison = viewState(s, now)
		} else {
			v.Main = viewState(s, now)
		}
	}
	return views
}

func viewState(s collector.QueueState, now time.Time) *stateView {
	v := &stateView{
		Name: s.PhysicalName, Up: truth(s.Up), Exists: truth(s.Exists), Reason: string(s.Reason), Error: s.Error,
		IntervalSeconds: s.Interval.Seconds(), StaleAfterSeconds: s.StaleAfter.Seconds(),
		LastPollAgeSeconds: since(s.LastPoll, now), LastSuccessAgeSeconds: since(s.LastSuccess, now),
		Status: s.Status.String() + s.Poison.String(), StatusRule: string(s.Rule),
	}
	if !s.Since.IsZero() {
		v.StatusSince = new(s.Since.UTC())
	}
	if s.Drain.Known {
		v.DrainSeconds = new(seconds(s.Drain.In))
	}
	if s.Loss.Known {
		v.LossSeconds = new(seconds(s.Loss.In))
	}
	countAge, peekAge := seconds(s.Count.Age(now)), seconds(s.Peek.Age(now))
	if s.Count.Known {
		v.ApproximateMessages = &number{Value: float64(s.Count.Messages), AgeSeconds: countAge}
	}
	if s.Peek.Known {
		v.Visible = &number{Value: float64(s.Peek.Visible), AgeSeconds: peekAge, Saturated: s.Peek.Full}
	}
	if n, saturated, ok := s.Visible(); ok && saturated {
		v.VisibleEstimate = &number{Value: float64(n), AgeSeconds: max(countAge, peekAge)}
	}
	if n, floor, ok := s.Hidden(); ok {
		v.Hidden = &number{Value: float64(n), AgeSeconds: max(countAge, peekAge), Floor: floor}
	}
	if s.Peek.Known {
		v.HeadUnchangedSeconds = &number{Value: seconds(s.HeadUnchanged), AgeSeconds: peekAge}
		v.OldestVisibleAgeSeconds = &number{Value: seconds(s.Peek.OldestAge), AgeSeconds: peekAge, Floor: s.Peek.Full}
		v.MaxDequeueCount = &number{Value: float64(s.Peek.MaxDequeueCount), AgeSeconds: peekAge, Floor: s.Peek.Full}
		if !s.Peek.NextExpiration.IsZero() {
			v.NextExpirationAt = &moment{s.Peek.NextExpiration.UTC(), peekAge}
		}
	}
	return v
}

func viewConsumer(p processor.Status, now time.Time) *consumerView {
	return &consumerView{
		State: p.State.String(), Handlers: p.Handlers, MaxHandlers: p.MaxHandlers, BreakerOpen: p.BreakerOpen,
		OldestHandlerSeconds: seconds(p.OldestHandler), ReceiveFailures: p.ReceiveFailures,
		LastReceiveAgeSeconds: since(p.LastReceive, now), LastError: p.LastError,
	}
}

func truth(f collector.Fact) *bool {
	switch f {
	case collector.Yes:
		return new(true)
	case collector.No:
		return new(false)
	default:
		return nil
	}
}

// seconds rounds to milliseconds: ages carry no more meaning than that.
func seconds(d time.Duration) float64 { return max(0, d).Round(time.Millisecond).Seconds() }

func since(t, now time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	return new(seconds(now.Sub(t)))
}

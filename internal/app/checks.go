package app

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/processor"
)

// Bounds of the loops: how long one may go without a turn before /livez fails. Both beat
// at least every ten seconds whatever storage does; a call to storage takes 30 s at most.
const (
	processorBound = 2 * time.Minute
	collectorBound = time.Minute
)

// failingReceives is how many receives in a row must fail before readiness is degraded:
// one alone is everyday life.
const failingReceives = 2

// drain says that the end has begun. The loops are about to end as they should, and a
// drain that takes long must not get the process killed. Nothing is reloaded any more.
func (s *service) drain() {
	s.health.Draining()
	s.applying.Lock()
	defer s.applying.Unlock()
	s.draining = true
	s.loop.Stop()
	s.storyLoop.Stop()
	for _, c := range s.state().consumers {
		c.loop.Stop()
	}
}

// checks adds what /readyz tells. Only the first contact can fail it; the others degrade
// it, so that an outage does not take every pod out of service at once.
func (s *service) checks() {
	add := s.check
	add("first_contact", func() health.Result {
		select {
		case <-s.collector.Contacted():
			return health.Result{}
		default:
			return health.Result{Status: health.Failed, Reason: health.ReasonStarting, Detail: "not every account has answered yet"}
		}
	})
	add("storage", func() health.Result {
		return degraded(health.ReasonStorage, unreachable(s.collector.Accounts()))
	})
	add("poison", func() health.Result { return poisonResult(s.collector.All()) })
	add("config", s.reloading.result)
}

func (s *service) check(name string, run func() health.Result) (remove func()) {
	return s.health.Add(health.Check{Name: name, Run: run})
}

// checkConsumers adds the checks of consumers, as long as there are any.
func (s *service) checkConsumers(any bool) {
	if any == (len(s.consumerChecks) > 0) {
		return
	}
	for _, remove := range s.consumerChecks {
		remove()
	}
	s.consumerChecks = nil
	if !any {
		return
	}
	add := func(name string, run func() health.Result) {
		s.consumerChecks = append(s.consumerChecks, s.check(name, run))
	}
	add("receiving", func() health.Result {
		return degraded(health.ReasonReceiveFailing, s.those(func(p processor.Status) (string, bool) {
			return fmt.Sprintf("%d failures in a row, %s", p.ReceiveFailures, p.LastError), p.ReceiveFailures >= failingReceives
		}))
	})
	add("processors", func() health.Result {
		return degraded(health.ReasonPaused, s.those(func(p processor.Status) (string, bool) {
			return "paused", p.State == processor.StatePaused
		}))
	})
	add("breaker", func() health.Result {
		return degraded(health.ReasonHandlersFail, s.those(func(p processor.Status) (string, bool) {
			return fmt.Sprintf("handlers have been failing as a whole for %v", p.BreakerAge.Round(time.Second)), p.BreakerOpen
		}))
	})
	add("handlers", func() health.Result {
		limits := s.handlerLimits()
		return degraded(health.ReasonOldHandler, s.those(func(p processor.Status) (string, bool) {
			limit := limits[fullName(p.Account, p.Queue)]
			return fmt.Sprintf("a handler has been running for %v", p.OldestHandler.Round(time.Second)), limit > 0 && p.OldestHandler > limit
		}))
	})
}

// handlerLimits is how long a handler of each consumed queue runs before it is worth a word.
func (s *service) handlerLimits() map[string]time.Duration {
	limits := map[string]time.Duration{}
	for _, q := range s.state().fleet.Queues {
		if c := q.Config.Consumer; c != nil {
			limits[q.String()] = c.LongRunningWarning
		}
	}
	return limits
}

// those lists the processors of which something is true, with what is to say about them.
func (s *service) those(is func(processor.Status) (string, bool)) []string {
	var found []string
	for _, p := range s.statuses() {
		if what, ok := is(p); ok {
			found = append(found, fullName(p.Account, p.Queue)+": "+what)
		}
	}
	return found
}

func unreachable(accounts []collector.AccountState) []string {
	var found []string
	for _, a := range accounts {
		if a.Queues > 0 && a.Failing == a.Queues {
			found = append(found, a.Name+": every poll fails")
		}
	}
	return found
}

// poisonResult tells of poison queues that hold messages, and of those whose depth is not known any
// more: what is unknown is not empty.
func poisonResult(queues iter.Seq[collector.QueueState]) health.Result {
	var found, unknown []string
	for q := range queues {
		if q.Kind != collector.KindPoison || q.Count.Known && q.Count.Messages == 0 {
			continue
		}
		name := fullName(q.Account, q.Queue)
		switch {
		case q.Count.Known && q.Count.Messages > 0:
			found = append(found, fmt.Sprintf("%s: %d", name, q.Count.Messages))
		case q.Count.Known || q.LastPoll.IsZero(): // empty, or not looked at yet
		case q.LastSuccess.IsZero():
			unknown = append(unknown, name+": never read")
		default:
			unknown = append(unknown, name+": not known since "+q.LastSuccess.UTC().Format(time.RFC3339))
		}
	}
	reason := health.ReasonPoison
	if len(found) == 0 {
		reason = health.ReasonStorage
	}
	return degraded(reason, append(found, unknown...))
}

// degraded is ok without findings, and otherwise names some of them.
func degraded(reason health.Reason, findings []string) health.Result {
	const most = 5
	switch n := len(findings); {
	case n == 0:
		return health.Result{}
	case n > most:
		findings = append(findings[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return health.Result{Status: health.Degraded, Reason: reason, Detail: strings.Join(findings, "; ")}
}

// healthMetric exports every check.
func (s *service) healthMetric() {
	metric.Health(s.registry, func(report func(probe, check string, status float64)) {
		s.health.Each(func(probe, check string, r health.Result) {
			status := float64(metric.HealthOK)
			switch r.Status {
			case health.Degraded:
				status = metric.HealthDegraded
			case health.Failed:
				status = metric.HealthFailed
			}
			report(probe, check, status)
		})
	})
}

package config

import (
	"fmt"
	"math"
	"time"
)

// warnings finds what works, though hardly as meant.
func warnings(c *Config) []Warning {
	var list []Warning
	warn := func(key, format string, args ...any) {
		list = append(list, Warning{Pos: c.pos(key), Text: fmt.Sprintf(format, args...)})
	}
	discovers := map[string]bool{}
	for i := range c.Accounts {
		a, key := &c.Accounts[i], fmt.Sprintf("accounts[%d]", i)
		discovers[a.Name] = a.Discovery != nil
		if len(a.Queues) == 0 && a.Discovery == nil {
			warn(key, "has neither queues nor discovery, so that nothing is watched; add one of them")
		}
		requests := 0
		for _, q := range a.Queues {
			requests += pollRequests(&q)
		}
		fits := time.Duration(math.Ceil(float64(requests)/c.Watch.RequestsPerSecond)) * time.Second
		if fits > c.Watch.Interval {
			warn("watch.interval", "%s cannot be kept for account %q: one round of its %d queues takes %d requests, which is %s at %v a second, and so each queue is polled every %s; lengthen interval or raise requestsPerSecond",
				formatDuration(c.Watch.Interval), a.Name, len(a.Queues), requests, formatDuration(fits), c.Watch.RequestsPerSecond, formatDuration(fits))
		}
	}
	for i := range c.rules {
		r := &c.rules[i]
		switch {
		case !r.used && !mayDiscover(r.match, discovers):
			warn(r.key+".match", "matches none of the configured queues; mend the glob or remove the default")
		case r.settings.Consumer != nil && !c.consumes(r.match):
			warn(r.key+".consumer", "has no effect: none of the queues that match has a consumer, and a default does not give one; write consumer: {} at the queue")
		}
	}
	return list
}

// pollRequests is how many requests one poll of a queue takes: properties and peek, of both kinds.
func pollRequests(q *Queue) int {
	kinds, each := 2, 2
	if q.NoPoison || q.SharedPoison {
		kinds = 1
	}
	if q.CountsOnly {
		each = 1
	}
	return kinds * each
}

// mayDiscover says whether a glob can match a queue that discovery finds.
func mayDiscover(glob string, discovers map[string]bool) bool {
	for account, on := range discovers {
		if on && globMatchesAccount(glob, account) {
			return true
		}
	}
	return false
}

func (c *Config) consumes(glob string) bool {
	for i := range c.Accounts {
		for _, q := range c.Accounts[i].Queues {
			if q.Consumer != nil && matches(glob, q.Account, q.Name) {
				return true
			}
		}
	}
	return false
}

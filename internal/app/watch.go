package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/queue"
)

// watchConfig translates the file's watch section.
func watchConfig(w config.Watch) collector.Config {
	return collector.Config{
		Interval:           w.Interval,
		IdleInterval:       w.IdleInterval,
		PoisonIdleInterval: w.PoisonIdleInterval,
		RequestsPerSecond:  w.RequestsPerSecond,
		Patience:           w.Patience,
		Compact:            w.Series == config.SeriesCompact,
	}
}

// target says how a queue is watched. What the file says at the queue holds; what its defaults say
// gives way to the queue's own metadata.
func target(q FleetQueue) collector.Target {
	c := q.Config
	t := collector.Target{Queue: q.Queue, Mode: collector.ModeWatch, CountsOnly: c.CountsOnly, MonitorOnly: c.MonitorOnly}
	if c.FromDefaults.Team {
		t.Fallback.Team = c.Team
	} else {
		t.Team = c.Team
	}
	if c.FromDefaults.Tier {
		t.Fallback.Tier = c.Tier
	} else {
		t.Tier = c.Tier
	}
	switch o := c.Objective; {
	case o == nil:
	case c.FromDefaults.Objective:
		t.Fallback.Objective, t.Fallback.ObjectiveRatio = o.TimeInQueue, o.Target
	default:
		t.Objective, t.ObjectiveRatio = o.TimeInQueue, o.Target
	}
	if c.Consumer != nil {
		t.Mode, t.HandlerTimeLimit = collector.ModeConsume, c.Consumer.Handler.Timeout()
	}
	return t
}

// sharedPoison returns a target for each poison queue that several queues use and that is
// not configured as a queue itself, so that it is counted once.
func sharedPoison(f *Fleet) ([]collector.Target, error) {
	known := map[string]bool{}
	for _, name := range f.Names() {
		known[name] = true
	}
	var targets []collector.Target
	for _, q := range f.Queues {
		if !q.Config.SharedPoison || q.Poison() == nil {
			continue
		}
		name := fullName(q.Config.Account, q.Poison().Name())
		if known[name] {
			continue
		}
		known[name] = true
		p, err := q.Account().Queue(q.Poison().Name(), queue.Config{NoPoison: true, Encoding: q.Queue.Config().Encoding})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.Config.Pos, err)
		}
		targets = append(targets, collector.Target{
			Queue: p, Mode: collector.ModeWatch, CountsOnly: q.Config.CountsOnly, Team: q.Config.Team, Tier: q.Config.Tier,
		})
	}
	return targets, nil
}

// discoveries returns how the accounts that ask for it are searched for queues.
func (f *Fleet) discoveries() []collector.Discovery {
	var all []collector.Discovery
	for i, a := range f.config.Accounts {
		d, acct := a.Discovery, f.accounts[i]
		if d == nil {
			continue
		}
		exclude := d.Exclude
		if c := f.config.Watch.Canary; c != nil && c.Account == a.Name {
			exclude = append(slices.Clone(exclude), c.Queue) // it looks after itself
		}
		all = append(all, collector.Discovery{
			Account: acct, Include: d.Include, Exclude: exclude, Interval: d.Interval, MaxQueues: d.MaxQueues,
			Target: func(name string) (collector.Target, error) { return f.found(acct, name) },
		})
	}
	return all
}

// poisonSuffix is what poison queues are called after.
const poisonSuffix = "-poison"

// found says how a queue that a listing found is watched: by the file's defaults. It is only looked at, so that
// it needs nothing that reads bodies.
func (f *Fleet) found(acct *queue.Account, name string) (collector.Target, error) {
	qc := f.config.QueueFor(acct.Name(), name)
	cfg := queue.Config{PoisonQueue: qc.PoisonQueue, NoPoison: qc.NoPoison, MaxBodyBytes: 1}
	if strings.HasSuffix(name, poisonSuffix) && qc.PoisonQueue == name+poisonSuffix {
		cfg.PoisonQueue, cfg.NoPoison = "", true // a poison queue that is watched like any other has none itself
	}
	q, err := acct.Queue(name, cfg)
	if err != nil {
		return collector.Target{}, err
	}
	return target(FleetQueue{Queue: q, Config: qc}), nil
}

package manifest

import (
	"fmt"
	"time"

	"github.com/qwatch/qwatch/internal/scaler"
)

// warnings are the combinations that cannot work, or not as they seem to.
func (o Options) warnings() []string {
	var list []string
	say := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	say(o.Fallback > 0 && o.Kind == KindJob, "--fallback has no effect: a ScaledJob has none")
	say(o.Fallback > 0 && o.Kind == KindObject && o.Min == 0,
		"--fallback has no effect while there are no replicas, and --min is 0: at zero KEDA asks the scaler alone; use --min 1")
	say(o.Activation > 0 && o.Min > 0, "--activation-queue-length has no effect: with --min %d there is always a replica", o.Min)
	strategy := o.JobStrategy
	say(strategy == "accurate" && o.countsRunning(),
		"--scaling-strategy accurate with %s starts jobs for the messages that running jobs hold: %s counts them; use default, or visible", o.Strategy, o.Strategy)
	say(strategy == "default" && !o.countsRunning(),
		"--scaling-strategy default with %s starts too few jobs: it subtracts the running ones, whose messages are not counted; use accurate, or all", o.Strategy)
	say(strategy == "eager" && o.countsRunning(),
		"--scaling-strategy eager with %s starts jobs for the messages that running jobs hold; use default", o.Strategy)
	say(o.Polling > 0 && o.PollInterval > 2*o.Polling && o.Scaler != ScalerPrometheus,
		"KEDA asks every %v, and qwatch looks every %v: what it is told is up to %v old; set watch.interval to %v",
		o.Polling, o.PollInterval, o.PollInterval+time.Second, o.Polling)
	for _, q := range o.Queues {
		o.warnOf(q, say)
	}
	return list
}

func (o Options) warnOf(q Queue, say func(when bool, format string, args ...any)) {
	peeks := o.Strategy != scaler.StrategyAll
	say(peeks && q.CountsOnly, "%s: %s needs to look at messages, and countsOnly forbids it: there would never be a value; use all", q, o.Strategy)
	blind := !o.Peers && !q.Consumed && o.Scaler != ScalerPrometheus
	say(o.Strategy == scaler.StrategyInflight && blind,
		"%s: inflight is the same as visible here: no consumer of the queue is in the file, and scaling.peers is not set, so that nobody tells which handlers run", q)
	if o.Strategy == scaler.StrategyDrain {
		say(q.Objective == 0, "%s: drain needs an objective, and the file has none: set objective: {timeInQueue: …}, or qwatch_objective in the queue's metadata", q)
		say(q.HandlingTime == 0 && o.Min == 0,
			"%s: drain has nothing to reckon with until the first messages were handled, and asks for one replica: set scaling: {handlingTime: …}", q)
		say(blind, "%s: drain reckons with the configured handling time and concurrency for good: set scaling.peers, so that they are measured, and that replicas at work are seen", q)
	}
	say(o.Strategy == scaler.StrategyAll && o.Kind == KindObject,
		"%s: all counts messages that are hidden in retry delays: a storm of failing messages holds replicas up for nothing", q)
}

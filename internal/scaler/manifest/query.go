package manifest

import (
	"fmt"
	"strconv"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/scaler"
)

// query is the strategy in PromQL. Where something is not known it returns nothing, which KEDA takes for a
// failure, not for 0.
func (o Options) query(q Queue) string {
	watched := fmt.Sprintf(`{account=%q, queue_name=%q, queue_kind="main"}`, q.Account, q.Name)
	consumed := fmt.Sprintf(`{account=%q, queue_name=%q}`, q.Account, q.Name)
	all := "max(" + metric.QueueApproximateMessages + watched + ")"
	if o.Strategy == scaler.StrategyAll {
		return all
	}
	sum := func(name string) string { return "(sum(" + name + consumed + ") or vector(0))" }
	visible := fmt.Sprintf("(max(%s%s) < 32 or clamp_min(%s - %s, 32))", metric.QueuePeekedMessages, watched, all, sum(metric.HeldMessages))
	if o.Strategy == scaler.StrategyVisible {
		return visible
	}
	inflight := visible + " + " + sum(metric.ActiveHandlers)
	if o.Strategy == scaler.StrategyInflight {
		return inflight
	}
	rate := func(part string) string {
		return "sum(rate(" + metric.ProcessingDuration + part + consumed + "[5m]))"
	}
	mean := rate("_sum") + " / (" + rate("_count") + " > 0)"
	if q.HandlingTime > 0 {
		mean = "(" + mean + " or vector(" + strconv.FormatFloat(q.HandlingTime.Seconds(), 'f', -1, 64) + "))"
	} else {
		mean = "(" + mean + ")"
	}
	return fmt.Sprintf("ceil((%s) * %s / ((avg(%s%s) or vector(%d)) * max(%s%s)))",
		inflight, mean, metric.MaxHandlers, consumed, max(1, q.Concurrency), metric.QueueTimeInQueueObjective, consumed)
}

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
	peeked := "max(" + metric.QueuePeekedMessages + watched + ")"
	visible := fmt.Sprintf("(%[1]s < 32 or clamp_min(%[2]s - %[3]s, 32) and %[1]s >= 32)", peeked, all, sum(metric.HeldMessages))
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
	objective := "max(" + metric.QueueTimeInQueueObjective + consumed + ")"
	concurrency := fmt.Sprintf("clamp_min(avg(%s%s) or vector(%d), 1)", metric.MaxHandlers, consumed, max(1, q.Concurrency))
	need := fmt.Sprintf("(%s) * %s / (%s * %s)", inflight, mean, concurrency, objective)
	if q.HandlingTime <= 0 {
		// Until somebody has handled something, one replica finds out how long it takes.
		need += fmt.Sprintf(" or (%s > bool 0) and %s", "("+inflight+")", objective)
	}
	// The replicas that are busy are needed: what arrives while they work is in no backlog.
	return fmt.Sprintf("clamp_min(ceil(%s), scalar(ceil(%s / %s)))", need, sum(metric.ActiveHandlers), concurrency)
}

package dashboards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/qwatch/qwatch/internal/metric"
)

// The variables of every dashboard. All of $account and $queue_name is .+, so that series without
// them are nobody's.
const (
	varDatasource = "datasource"
	varAccount    = "account"
	varQueue      = "queue_name"
)

// window is the range of every rate: long enough for four scrapes, and as long as a pixel is wide.
const window = "[$__rate_interval]"

// The matchers of the two kinds.
const (
	onMain   = metric.LabelKind + `="` + metric.KindMain + `"`
	onPoison = metric.LabelKind + `="` + metric.KindPoison + `"`
)

// The usual groupings.
const (
	byQueue         = metric.LabelAccount + ", " + metric.LabelQueue
	byQueueInstance = byQueue + ", instance"
)

// legendQueue names a series by its queue.
const legendQueue = "{{account}}/{{queue_name}}"

// sel selects the series of a metric, or of a histogram's part, that the variables choose and the matchers allow.
func sel(name string, matchers ...string) string {
	def := definition(name)
	var all []string
	for _, l := range def.LabelNames() {
		switch l {
		case metric.LabelAccount:
			all = append(all, `account=~"$`+varAccount+`"`)
		case metric.LabelQueue:
			all = append(all, `queue_name=~"$`+varQueue+`"`)
		}
	}
	if all = append(all, matchers...); len(all) == 0 {
		return name
	}
	return name + "{" + strings.Join(all, ",") + "}"
}

// catalogue is read hundreds of times, and never changes.
var catalogue = sync.OnceValue(metric.Catalogue)

// definition is that of the metric, whose name may be that of a histogram's part.
func definition(name string) metric.Def {
	for _, d := range catalogue() {
		part, ok := strings.CutPrefix(name, d.Name)
		if ok && (part == "" || d.Type == metric.Histogram && slices.Contains([]string{"_bucket", "_count", "_sum"}, part)) {
			return d
		}
	}
	panic("dashboards: no metric is called " + strconv.Quote(name)) // a mistake in this package
}

// now is the value of a gauge, by queue unless other labels are named, however many replicas report it.
func now(name string, matchers ...string) string { return nowBy(byQueue, name, matchers...) }

func nowBy(by, name string, matchers ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", definition(name).Combine, by, sel(name, matchers...))
}

// rate is the rate of a counter, summed.
func rate(by, name string, matchers ...string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s%s))", by, sel(name, matchers...), window)
}

// seen makes what a counter counted within the dashboard's range out of its rates, window by window: so it survives
// restarts, and one window is enough for any range.
func seen(by, name string, matchers ...string) string {
	return fmt.Sprintf("sum_over_time(sum by (%s) (increase(%s%s))[$__range:$__rate_interval])", by, sel(name, matchers...), window)
}

// quantile works for native and classic histograms; it is absent where nothing was observed.
func quantile(q float64, by, name string, matchers ...string) string {
	return fmt.Sprintf("(histogram_quantile(%[1]g, sum by (%[2]s) (rate(%[3]s%[5]s))) or histogram_quantile(%[1]g, sum by (%[2]s, le) (rate(%[4]s%[5]s)))) >= 0",
		q, by, sel(name, matchers...), sel(name+"_bucket", matchers...), window)
}

// spread is a histogram for a heatmap: a native one if there is one, otherwise the classic one's buckets.
func spread(name string) string {
	native := fmt.Sprintf("sum(rate(%s%s))", sel(name), window)
	return fmt.Sprintf("%s or (sum by (le) (rate(%s%s)) unless on () %s)", native, sel(name+"_bucket"), window, native)
}

// counted is how many series an expression has, and 0 when it has none although the other has: what is not watched is
// absent, not 0.
func counted(expr, of string) string { return fmt.Sprintf("count(%s) or 0 * count(%s)", expr, of) }

// share is a part of a whole, absent while the whole is 0.
func share(part, whole string) string { return fmt.Sprintf("%s / (%s > 0)", part, whole) }

// statusCode is the number of a queue's status, see codes; the worst when replicas differ.
func statusCode() string { return code(metric.QueueStatus, codes()) }

// poisonCode is statusCode for the poison queue.
func poisonCode() string { return code(metric.QueuePoisonStatus, poisonCodes()) }

func code(name string, values []value) string {
	terms := make([]string, len(values))
	for i, v := range values {
		status := strings.ReplaceAll(v.text, " ", "_")
		terms[i] = fmt.Sprintf("%g * (%s == 1)", v.number, sel(name, `status="`+status+`"`))
	}
	return fmt.Sprintf("max by (%s) (%s)", byQueue, strings.Join(terms, " or "))
}

// having are the queues that have one of the statuses.
func having(name, statuses string) string {
	return fmt.Sprintf("max by (%s) (%s == 1)", byQueue, sel(name, `status=~"`+statuses+`"`))
}

// The statuses by how soon somebody should look.
const (
	stopped    = "missing|stalled|unreachable"
	struggling = "falling_behind|hidden"
)

// depth is the service's count of one kind.
func depth(kind string) string { return now(metric.QueueApproximateMessages, kind) }

// settled is how many messages leave a queue each second, one way or the other.
func settled() string {
	return fmt.Sprintf("(%s + %s)", rate(byQueue, metric.MessagesProcessed), rate(byQueue, metric.MessagesDeadLettered))
}

// attainment is the share of messages started in time, over the dashboard's range or in each window.
func attainment(by string, ranged bool) string {
	late, started := rate(by, metric.MessagesLate), rate(by, metric.MessagesStarted)
	if ranged {
		late, started = seen(by, metric.MessagesLate), seen(by, metric.MessagesStarted)
	}
	return "1 - " + share(late, started)
}

// worst keeps the n queues where an expression is highest.
func worst(n int, expr string) string { return fmt.Sprintf("topk(%d, %s)", n, expr) }

// ofQwatch keeps the series of a metric that every process has to those of qwatch's processes, whatever their job is called.
func ofQwatch(expr string) string {
	return fmt.Sprintf("%s and on (job, instance) %s", expr, metric.QwatchBuildInfo)
}

// alerts are the series that Prometheus, or Grafana where it rules, keeps of alerts: those of the chosen accounts
// and those that are about no account.
func alerts(matchers string) string {
	const of = `alertname=~"Qwatch.+",account=~"$account|",queue_name=~"$queue_name|"`
	return fmt.Sprintf(`(ALERTS{%[1]s,%[2]s} or GRAFANA_ALERTS{%[1]s,%[2]s})`, of, matchers)
}

// to is the address of another dashboard for a queue, keeping the time and the data source. The account and the queue are
// Grafana's variables for them.
func to(uid, account, queue string) string {
	return "/d/" + uid + "?var-datasource=${" + varDatasource + "}&var-account=" + account + "&var-queue_name=" + queue + "&${__url_time_range}"
}

// rowLinks are links from a table's row, whose columns are called Account and Queue; seriesLinks are those from a series.
func rowLinks(uids ...string) []dataLink {
	return links("${__data.fields.Account}", "${__data.fields.Queue}", uids)
}

func seriesLinks(uids ...string) []dataLink {
	return links("${__field.labels.account}", "${__field.labels.queue_name}", uids)
}

func links(account, queue string, uids []string) []dataLink {
	titles := map[string]string{UIDQueue: "This queue", UIDConsumers: "Its consumers", UIDPoison: "Its poison queue"}
	made := make([]dataLink, len(uids))
	for i, uid := range uids {
		made[i] = dataLink{title: titles[uid], url: to(uid, account, queue)}
	}
	return made
}

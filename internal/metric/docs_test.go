package metric_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/metric"
)

var update = flag.Bool("update", false, "write the generated documentation again")

const documentation = "../../docs/metrics.md"

func TestDocumentation(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile(documentation, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/metrics.md is not current; run go generate ./internal/metric (-want +got):\n%s", diff)
	}
}

// document renders the catalogue.
func document() string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from internal/metric by go generate; do not edit. -->

# Metrics

What qwatch exports on ` + "`/metrics`" + `, as Prometheus text, OpenMetrics or protobuf. Metrics about queues begin with
` + "`queue_`" + `, those about qwatch itself with ` + "`qwatch_`" + `; ` + "`go_*`, `process_*` and `promhttp_*`" + ` come from the Prometheus
client library. A scrape calls no storage.

` + "`account`" + ` is the account's configured name. ` + "`queue_name`" + ` is always the main queue's name, on the series of its poison
queue as well: ` + "`queue_kind`" + ` tells ` + "`main`" + ` from ` + "`poison`" + `. No label ever holds a message id, a receipt, an error's text or
anything a handler supplies.

Every combination of a counter's or histogram's closed labels exists at 0 from the first scrape. Gauges are absent
when the truth is unknown, as told below; they are never NaN and never a made-up zero.

"Replicas" says how the series of several instances become one: the watcher's gauges are views of the same thing
(` + "`max by`, `min by`" + `), a consumer's counters and histograms are parts of a whole (` + "`sum by`" + `).
`)
	for _, part := range []struct {
		owner      metric.Owner
		title, say string
		common     []string
	}{
		{
			metric.OwnedByWatcher, "Watcher",
			"Of every watched queue. Labels `account`, `queue_name` and `queue_kind`, unless told otherwise.",
			[]string{metric.LabelAccount, metric.LabelQueue, metric.LabelKind},
		},
		{
			metric.OwnedByConsumer, "Consumer",
			"Of every queue that this process consumes, and of no other; a queue it only sends to has `queue_messages_sent_total`. " +
				"Labels `account` and `queue_name`, and those named.",
			[]string{metric.LabelAccount, metric.LabelQueue},
		},
		{metric.OwnedByProcess, "Process", "Of the process itself.", nil},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", part.title, part.say)
		b.WriteString("| metric | type | labels | meaning | absent | replicas |\n|---|---|---|---|---|---|\n")
		for _, d := range metric.Catalogue() {
			if d.Owner == part.owner {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n",
					d.Name, d.Type, labels(d, part.common), d.Help, d.Absent, d.Combine)
			}
		}
		if part.owner == metric.OwnedByWatcher {
			b.WriteString(compact())
		}
	}
	b.WriteString("\n## Buckets\n\nUpper bounds of the classic histograms. Native histograms, on request, grow by a factor of 1.1 at most, in at most\n" +
		"160 buckets, and come beside the classic ones. Exemplars carry `trace_id`, on the processing duration and the time in queue.\n\n")
	for _, d := range metric.Catalogue() {
		if d.Type == metric.Histogram {
			fmt.Fprintf(&b, "- `%s`: %s\n", d.Name, bounds(d.Buckets))
		}
	}
	b.WriteString(cardinality())
	return b.String()
}

// labels tells what a metric has beyond the common labels, and what it lacks of them.
func labels(d metric.Def, common []string) string {
	var out []string
	names := d.LabelNames()
	if len(common) > 0 && !slices.Equal(names[:min(len(names), len(common))], common) {
		out = append(out, "only")
		common = nil
	}
	for _, l := range d.Labels {
		if slices.Contains(common, l.Name) {
			continue
		}
		s := "`" + l.Name + "`"
		if l.Values != nil {
			s += ": " + strings.Join(l.Values, ", ")
		}
		out = append(out, s)
	}
	if len(out) > 0 && out[0] == "only" {
		return "only " + strings.Join(out[1:], ", ")
	}
	return strings.Join(out, "; ")
}

// compact tells what the compact set leaves out.
func compact() string {
	names := map[metric.Compact][]string{}
	for _, d := range metric.Catalogue() {
		names[d.Compact] = append(names[d.Compact], "`"+d.Name+"`")
	}
	return fmt.Sprintf(`
The compact set, for large fleets (`+"`watch: {series: compact}`"+`), leaves out %s. Of
%s
it has only the samples that are not 0: there, absent means 0, and a counter is born at its first count.
`, strings.Join(names[metric.CompactDrop], " and "), strings.Join(names[metric.CompactNonZero], ", "))
}

func bounds(buckets []float64) string {
	out := make([]string, len(buckets))
	for i, v := range buckets {
		out[i] = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strings.Join(out, ", ")
}

func cardinality() string {
	alone := metric.Series(metric.Size{})
	per := func(s metric.Size) int { return metric.Series(s) - alone }
	queue, consumer := per(metric.Size{Queues: 1}), per(metric.Size{Consumers: 1})
	account, check, scaled := per(metric.Size{Accounts: 1}), per(metric.Size{Checks: 1}), per(metric.Size{Scaled: 1})
	small := metric.Series(metric.Size{Queues: 1, Compact: true}) - alone
	requests := metric.Of(metric.StorageRequestDuration)
	operations := len(requests.Values(metric.LabelOperation))
	return fmt.Sprintf(`
## Cardinality

A process exports at most

    series = %d × queues + %d × consumers + %d × accounts + %d × checks + %d × scaled queues + %d

where *queues* are those watched, each with its poison queue; *consumers* those this process consumes; *checks* the
health checks, counted once for every probe they belong to; *scaled queues* those a scaler asked about in the last ten minutes.
Consumers and accounts that a reload removed count for five minutes after their drain, as long as their last counts are exported: after
many changes at once, a process has for that time what it had before and what it has now. No traffic, no message and no error adds to it. It is
less where gauges are absent, and where an account is not used for every operation: each of the %d accounts for %d of
an account's series, and an account that is only watched uses two. With native histograms the protobuf format adds at
most 160 buckets to each histogram, and no series. In the compact set a queue has %d series at most; a healthy idle one
has about twenty, and fifty in the full set.

| queues | consumers | accounts | checks | series |
|---|---|---|---|---|
%s`, queue, consumer, account, check, scaled, alone, operations, requests.Samples()/operations, small, sizes())
}

func sizes() string {
	var b strings.Builder
	for _, s := range []metric.Size{
		{Queues: 1, Consumers: 1, Accounts: 1, Checks: 5},
		{Queues: 50, Consumers: 10, Accounts: 2, Checks: 25},
		{Queues: 1000, Accounts: 1, Checks: 5},
		{Queues: 10_000, Accounts: 5, Checks: 5},
	} {
		fmt.Fprintf(&b, "| %d | %d | %d | %d | %d |\n", s.Queues, s.Consumers, s.Accounts, s.Checks, metric.Series(s))
	}
	return b.String()
}

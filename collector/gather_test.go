package collector_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// watched returns a collector of which every metric has a sample.
func watched(t *testing.T) *collector.Collector {
	t.Helper()
	s := newStorage(t, queuetest.Options{})
	q := create(t, s.acct, "orders")
	send(t, q, 40, queue.SendOptions{TimeToLive: time.Hour})
	send(t, q.Poison(), 1, queue.SendOptions{TimeToLive: time.Hour})
	c := run(t, collector.Config{Discovery: []collector.Discovery{{Account: s.acct}}, Targets: []collector.Target{{
		Queue: q, Mode: collector.ModeConsume, Team: "payments\xff \"a\\b\"\n", Tier: 2,
		Objective: 5 * time.Minute, ObjectiveRatio: 0.99, HandlerTimeLimit: time.Minute,
	}}})
	for range 6 { // it drains
		time.Sleep(time.Minute)
		for _, m := range lease(t, q, 5, time.Minute) {
			if err := m.Complete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(time.Minute)
	return c
}

// T4: the metrics are those of the catalogue, with its help, types and labels.
func TestMetricsAreTheCatalogues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		families, err := watched(t).Gather()
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, d := range metric.Catalogue() {
			if d.Owner == metric.OwnedByWatcher {
				want = append(want, d.Name)
			}
		}
		slices.Sort(want)
		for _, mf := range families {
			got = append(got, mf.GetName())
			d := metric.Of(mf.GetName())
			if mf.GetHelp() != d.Help || mf.GetType() != d.Family().GetType() {
				t.Errorf("%s: help %q, type %v", d.Name, mf.GetHelp(), mf.GetType())
			}
			names := d.LabelNames()
			slices.Sort(names)
			for _, m := range mf.GetMetric() {
				var has []string
				for _, l := range m.GetLabel() {
					has = append(has, l.GetName())
					if closed := d.Values(l.GetName()); closed != nil && !slices.Contains(closed, l.GetValue()) {
						t.Errorf("%s: %s is %q, not one of %q", d.Name, l.GetName(), l.GetValue(), closed)
					}
				}
				if diff := cmp.Diff(names, has); diff != "" {
					t.Errorf("%s: labels (-want +got):\n%s", d.Name, diff)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metrics (-catalogue +got):\n%s", diff)
		}
	})
}

// T1: every counter is there at 0 before anything happened.
func TestCountersExistFromTheFirstScrape(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	c, err := collector.New(collector.Config{Targets: targets(open(t, s.acct, "orders", queue.Config{}))})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, kind := range []string{"main", "poison"} {
		labels := `{account="acct",queue_kind="` + kind + `",queue_name="orders"`
		want = append(want, polls+labels+"}", clamped+labels+"}", success+labels+"}")
		for _, reason := range metric.Of(metric.QueuePollFailures).Values(metric.LabelReason) {
			want = append(want, "queue_poll_failures_total"+labels+`,reason="`+reason+`"}`)
		}
	}
	want = append(want, `queue_monitor_only{account="acct",queue_name="orders"}`)
	for _, s := range metric.QueueStatuses() {
		want = append(want, `queue_status{account="acct",queue_kind="main",queue_name="orders",status="`+s+`"}`)
	}
	for _, s := range metric.QueuePoisonStatuses() {
		want = append(want, `queue_poison_status{account="acct",queue_kind="poison",queue_name="orders",status="`+s+`"}`)
	}
	slices.Sort(want)
	var got []string
	for name, x := range samples(t, c) {
		if strings.HasPrefix(name, "queue_info") || strings.HasPrefix(name, interval) {
			continue
		}
		if x != 0 && !strings.HasSuffix(name, `status="unknown"}`) {
			t.Errorf("%s is %v", name, x)
		}
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples before the first poll (-want +got):\n%s", diff)
	}
}

func TestQueueInfo(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	c, err := collector.New(collector.Config{Targets: []collector.Target{
		{Queue: open(t, s.acct, "orders", queue.Config{PoisonQueue: "bad-orders"}), Mode: collector.ModeConsume, Team: "payments", Tier: 1},
		{Queue: open(t, s.acct, "audit", queue.Config{NoPoison: true})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`queue_info{account="acct",mode="consume",physical_name="bad-orders",poison_queue="bad-orders",queue_kind="poison",queue_name="orders",storage_account="devstoreaccount1",team="payments",tier="1"}`,
		`queue_info{account="acct",mode="consume",physical_name="orders",poison_queue="bad-orders",queue_kind="main",queue_name="orders",storage_account="devstoreaccount1",team="payments",tier="1"}`,
		`queue_info{account="acct",mode="watch",physical_name="audit",poison_queue="",queue_kind="main",queue_name="audit",storage_account="devstoreaccount1",team="",tier=""}`,
	}
	got := keys(samples(t, c))
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "queue_info") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("queue_info (-want +got):\n%s", diff)
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	c, err := collector.New(collector.Config{Targets: []collector.Target{
		{
			Queue: open(t, s.acct, "orders", queue.Config{}), MonitorOnly: true,
			Objective: 90 * time.Second, ObjectiveRatio: 0.99, HandlerTimeLimit: time.Minute,
		},
		{Queue: open(t, s.acct, "audit", queue.Config{})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for name, x := range samples(t, c) {
		if !strings.Contains(name, "queue_kind") {
			got[name] = x
		}
	}
	want := map[string]float64{
		`queue_time_in_queue_objective_seconds{account="acct",queue_name="orders"}`: 90,
		`queue_time_in_queue_objective_ratio{account="acct",queue_name="orders"}`:   0.99,
		`queue_handler_time_limit_seconds{account="acct",queue_name="orders"}`:      60,
		`queue_monitor_only{account="acct",queue_name="orders"}`:                    1,
		`queue_monitor_only{account="acct",queue_name="audit"}`:                     0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
}

func TestExpositionIsClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := watched(t)
		problems, err := testutil.GatherAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", err, problems)
		}

		// The registry's own checks: names, types, duplicates, order.
		checked, err := prometheus.Gatherers{c}.Gather()
		if err != nil {
			t.Fatal(err)
		}
		plain, err := c.Gather()
		if err != nil || len(plain) != len(checked) {
			t.Errorf("%d families, %d after the checks: %v", len(plain), len(checked), err)
		}
		if !slices.IsSortedFunc(plain, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) }) {
			t.Error("families are not sorted by name")
		}

		text := encode(t, c, expfmt.NewFormat(expfmt.TypeTextPlain))
		if again := encode(t, c, expfmt.NewFormat(expfmt.TypeTextPlain)); !bytes.Equal(text, again) {
			t.Error("two scrapes at the same time differ")
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		parsed, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil || len(parsed) != len(plain) {
			t.Errorf("the text format has %d families of %d: %v", len(parsed), len(plain), err)
		}
		open := string(encode(t, c, expfmt.NewFormat(expfmt.TypeOpenMetrics)))
		if !strings.HasSuffix(open, "\n# EOF\n") || !strings.Contains(open, "# TYPE queue_polls counter\n") || !strings.Contains(open, "queue_polls_total{") {
			t.Errorf("OpenMetrics:\n%s", open)
		}
		dec, n := expfmt.NewDecoder(bytes.NewReader(encode(t, c, expfmt.NewFormat(expfmt.TypeProtoDelim))), expfmt.NewFormat(expfmt.TypeProtoDelim)), 0
		for {
			var mf dto.MetricFamily
			if err := dec.Decode(&mf); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != len(plain) {
			t.Errorf("the protobuf format has %d families of %d", n, len(plain))
		}
	})
}

// The number of series is what the catalogue says: it depends on the queues, and on nothing in them.
func TestNumberOfSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, want := len(samples(t, watched(t))), 0
		for _, d := range metric.Catalogue() {
			if d.Owner == metric.OwnedByWatcher {
				want += d.Samples()
			}
		}
		// The main queue loses nothing, and the poison queue does not drain.
		if got != want-2 {
			t.Errorf("%d series, want %d less two", got, want)
		}
	})
}

// What is handed out sample by sample is what Gather builds.
func TestFamiliesAreWhatGatherBuilds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := watched(t)
		built, err := c.Gather()
		if err != nil {
			t.Fatal(err)
		}
		want, got := []string{}, []string{}
		for _, f := range built {
			for _, m := range f.GetMetric() {
				value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
				want = append(want, fmt.Sprint(f.GetName(), f.GetHelp(), f.GetType() == dto.MetricType_COUNTER, m.GetLabel(), value))
			}
		}
		for _, f := range c.Families() {
			f.Each(func(labels []*dto.LabelPair, value float64) {
				got = append(got, fmt.Sprint(f.Name, f.Help, f.Counter, labels, value))
			})
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
			t.Errorf("%d samples (-Gather +Families):\n%s", len(want), diff)
		}
	})
}

// The compact set is the full one without what the catalogue says.
func TestCompactSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		busy, idle := create(t, s.acct, "busy"), create(t, s.acct, "idle")
		send(t, busy, 3, queue.SendOptions{})
		ts := []collector.Target{{Queue: busy, MonitorOnly: true, Objective: time.Minute}, {Queue: idle}, {Queue: open(t, s.acct, "gone", queue.Config{})}}
		full, small := run(t, collector.Config{Targets: ts}), run(t, collector.Config{Targets: ts, Compact: true})
		time.Sleep(time.Hour)
		want := samples(t, full)
		for name, x := range want {
			switch base, _, _ := strings.Cut(name, "{"); metric.Of(base).Compact {
			case metric.CompactDrop:
				delete(want, name)
			case metric.CompactNonZero:
				if x == 0 {
					delete(want, name)
				}
			}
		}
		// The two are not polled at the same moment.
		if diff := cmp.Diff(keys(want), keys(samples(t, small))); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
		per := map[string]int{}
		for name := range samples(t, small) {
			for _, q := range []string{"busy", "idle", "gone"} {
				if strings.Contains(name, `queue_name="`+q+`"`) {
					per[q]++
				}
			}
		}
		most := 0
		for _, d := range metric.Catalogue() {
			if d.Scope == metric.PerQueue {
				most += d.CompactSamples()
			}
		}
		if per["idle"] > 22 || per["busy"] > most || per["gone"] > most {
			t.Errorf("series by queue: %v, at most %d", per, most)
		}
		problems, err := testutil.GatherAndLint(small)
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", err, problems)
		}
	})
}

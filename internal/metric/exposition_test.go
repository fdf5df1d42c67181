package metric_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/internal/metric"
)

// everything returns the whole exposition of a process of the given size, just started.
func everything(size metric.Size, opts metric.Options) prometheus.Gatherers {
	reg := prometheus.NewPedanticRegistry()
	consumer := metric.NewConsumer(reg, opts)
	for i := range size.Consumers {
		q := consumer.Queue("thing-"+strconv.Itoa(i), "orders")
		q.Watch(func() metric.GaugeSet { return metric.GaugeSet{} })
	}
	storage, credentials, bill := metric.NewStorage(reg, opts), metric.NewCredentials(reg), metric.NewBill(reg, 0.004)
	for i := range size.Accounts {
		name := "thing-" + strconv.Itoa(i)
		storage.Init(name, metric.Of(metric.StorageRequestDuration).Values(metric.LabelOperation))
		bill.Init(name)
		bill.Age(name, time.Hour)
		credentials.Watch(name, func() (time.Time, bool) { return time.Unix(1e9, 0), true })
	}
	metric.Scaling(reg, func(report func(account, queue string, age time.Duration)) {
		for i := range size.Scaled {
			report("thing-"+strconv.Itoa(i), "orders", time.Second)
		}
	})
	metric.NewLeader(reg, func() bool { return true })
	metric.NewShards(reg, func() (all, alive int) { return 3, 2 })
	metric.NewForwards(reg)
	metric.NewCanary(reg).Returned(time.Second)
	metric.NewReload(reg)
	metric.BuildInfo(reg, "v1.2.3", "0123abc", "go1.26")
	metric.Health(reg, func(report func(probe, check string, status float64)) {
		for i := range size.Checks {
			report("ready", "check-"+strconv.Itoa(i), metric.HealthOK)
		}
	})
	return prometheus.Gatherers{watcher(size.Queues, size.Accounts), reg}
}

func TestExpositionPassesPromlint(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(everything(metric.Size{Queues: 2, Consumers: 2, Accounts: 2, Checks: 2, Scaled: 2}, metric.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestExpositionIsTheCatalogue(t *testing.T) {
	t.Parallel()
	type family struct {
		Help, Type string
		Labels     []string
	}
	want := map[string]family{}
	for _, d := range metric.Catalogue() {
		kind := d.Type.String()
		if d.Type == metric.Info {
			kind = "gauge"
		}
		want[d.Name] = family{d.Help, kind, slices.Sorted(slices.Values(d.LabelNames()))}
	}
	families, err := everything(metric.Size{Queues: 1, Consumers: 1, Accounts: 1, Checks: 1, Scaled: 1}, metric.Options{}).Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]family{}
	for _, f := range families {
		var labels []string
		for i, m := range f.Metric {
			var names []string
			for _, l := range m.Label {
				names = append(names, l.GetName())
			}
			slices.Sort(names)
			if i == 0 {
				labels = names
			} else if !slices.Equal(names, labels) {
				t.Errorf("%s: labels %v here and %v there", f.GetName(), labels, names)
			}
		}
		got[f.GetName()] = family{f.GetHelp(), strings.ToLower(f.GetType().String()), labels}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exported families (-catalogue +exported):\n%s", diff)
	}
}

func TestClosedLabelsHaveEveryValueAtZeroOnTheFirstScrape(t *testing.T) {
	t.Parallel()
	families, err := everything(metric.Size{Consumers: 1, Accounts: 1}, metric.Options{}).Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range families {
		for _, m := range f.Metric {
			switch {
			case m.Counter != nil && m.Counter.GetValue() != 0,
				m.Histogram != nil && m.Histogram.GetSampleCount() != 0:
				t.Errorf("%s starts at %v", f.GetName(), m)
			}
		}
		found[f.GetName()] = len(f.Metric)
	}
	for _, d := range metric.Catalogue() {
		if d.Owner == metric.OwnedByWatcher || d.Type != metric.Counter && d.Type != metric.Histogram {
			continue
		}
		want := 1
		for _, l := range d.Labels {
			want *= max(1, len(l.Values))
		}
		if found[d.Name] != want {
			t.Errorf("%s has %d combinations of labels at first, want %d", d.Name, found[d.Name], want)
		}
	}
}

func TestNumberOfSeriesFollowsTheFormula(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]metric.Size{
		"nothing configured":                   {},
		"one queue, watched":                   {Queues: 1, Accounts: 1},
		"one queue, watched and consumed":      {Queues: 1, Consumers: 1, Accounts: 1},
		"many queues, a few consumers, checks": {Queues: 100, Consumers: 3, Accounts: 2, Checks: 7, Scaled: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := len(samples(t, everything(size, metric.Options{}))), metric.Series(size)
			if got != want {
				t.Errorf("%d series, by the formula %d", got, want)
			}
		})
	}
}

// The grammar of a sample of OpenMetrics, with an exemplar on counters and buckets only.
var openMetricsSample = regexp.MustCompile(
	`^[a-z_]+(?:\{[a-z_]+="[^"]*"(?:,[a-z_]+="[^"]*")*\})? [0-9.e+-]+( # \{trace_id="[0-9a-f]{32}"\} [0-9.e+-]+ [0-9.e+-]+)?$`)

func TestExpositionParsesInEveryFormat(t *testing.T) {
	t.Parallel()
	size := metric.Size{Queues: 1, Consumers: 1, Accounts: 1, Checks: 1, Scaled: 1}
	gatherer := everything(size, metric.Options{Native: true})

	text := expose(t, gatherer, expfmt.NewFormat(expfmt.TypeTextPlain))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("text: %v", err)
	}
	if got, want := len(parsed), len(metric.Catalogue()); got != want {
		t.Errorf("text has %d families, want %d", got, want)
	}

	lines := strings.Split(expose(t, gatherer, expfmt.NewFormat(expfmt.TypeOpenMetrics)), "\n")
	if got := lines[len(lines)-2:]; !slices.Equal(got, []string{"# EOF", ""}) {
		t.Errorf("OpenMetrics ends with %q", got)
	}
	for _, line := range lines[:len(lines)-2] {
		if !strings.HasPrefix(line, "#") && !openMetricsSample.MatchString(line) {
			t.Errorf("not a sample of OpenMetrics: %s", line)
		}
	}

	protobuf := expose(t, gatherer, expfmt.NewFormat(expfmt.TypeProtoDelim))
	decoder := expfmt.NewDecoder(strings.NewReader(protobuf), expfmt.NewFormat(expfmt.TypeProtoDelim))
	var native []string
	for {
		var f dto.MetricFamily
		if decoder.Decode(&f) != nil {
			break
		}
		for _, m := range f.Metric {
			if m.Histogram != nil && m.Histogram.Schema != nil && len(m.Histogram.Bucket) > 0 {
				native = append(native, f.GetName())
				break
			}
		}
	}
	var histograms []string
	for _, d := range metric.Catalogue() {
		if d.Type == metric.Histogram {
			histograms = append(histograms, d.Name)
		}
	}
	slices.Sort(histograms)
	slices.Sort(native)
	if diff := cmp.Diff(histograms, native); diff != "" {
		t.Errorf("histograms both native and classic (-want +got):\n%s", diff)
	}
}

func TestHistogramsTellQueueTimesApart(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, times := range map[string][]time.Duration{
		metric.ProcessingDuration: {5 * time.Millisecond, 200 * time.Millisecond, 15 * time.Second, 30 * time.Minute, 3 * time.Hour, 11 * time.Hour},
		metric.TimeInQueue:        {50 * time.Millisecond, 15 * time.Second, 30 * time.Minute, 3 * time.Hour, day, 6 * day},
	} {
		bounds := metric.Of(name).Buckets
		seen := map[int]time.Duration{}
		for _, d := range times {
			i, _ := slices.BinarySearch(bounds, d.Seconds())
			if i == len(bounds) {
				t.Errorf("%s: %v is beyond the last bucket", name, d)
			}
			if other, ok := seen[i]; ok {
				t.Errorf("%s: %v and %v share a bucket", name, other, d)
			}
			seen[i] = d
		}
	}
}

func ExampleSeries() {
	fmt.Println(metric.Series(metric.Size{Queues: 1000, Accounts: 1}) < 65_000)
	// Output: true
}

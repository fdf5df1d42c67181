package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func families(t *testing.T, exposition string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	fs, err := parser.TextToMetricFamilies(strings.NewReader(exposition))
	if err != nil {
		t.Fatalf("the exposition cannot be parsed: %v", err)
	}
	return fs
}

func TestEveryCounterIsThereOnTheFirstScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, idle())
		_, body := r.get("http://main/metrics")
		fs := families(t, body)
		checked := 0
		for _, def := range metric.Catalogue() {
			if def.Type != metric.Counter && def.Type != metric.Histogram {
				continue
			}
			have := map[string]float64{}
			for _, m := range fs[def.Name].GetMetric() {
				have[labels(m)] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
			for _, want := range series(def) {
				value, ok := have[want]
				switch {
				case !ok:
					t.Errorf("%s{%s} is not there on the first scrape", def.Name, want)
				case value != 0 && def.Owner == metric.OwnedByConsumer && def.Name != metric.ReceiveRequests:
					t.Errorf("%s{%s} is %v before anything happened", def.Name, want, value)
				}
				checked++
			}
		}
		if checked < 100 {
			t.Errorf("only %d series were looked for", checked)
		}
		r.end()
	})
}

// labels writes a series' labels in order of their names.
func labels(m *dto.Metric) string {
	pairs := make([]string, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// series are the label sets that a metric must have for the rig's queues: acct/orders is
// consumed and acct/watched is not, so the account sends, but never lists or clears.
func series(def metric.Def) []string {
	sets := []map[string]string{{}}
	for _, l := range def.Labels {
		values := def.Values(l.Name)
		switch {
		case l.Name == metric.LabelAccount:
			values = []string{"acct"}
		case l.Name == metric.LabelQueue && def.Owner == metric.OwnedByConsumer:
			values = []string{"orders"}
		case l.Name == metric.LabelQueue:
			values = []string{"orders", "watched"}
		case l.Name == metric.LabelOperation && def.Name == metric.StorageRequestDuration:
			values = []string{"receive", "peek", "send", "update", "delete", "properties", "create"}
		}
		var next []map[string]string
		for _, set := range sets {
			for _, v := range values {
				s := maps.Clone(set)
				s[l.Name] = v
				next = append(next, s)
			}
		}
		sets = next
	}
	texts := make([]string, 0, len(sets))
	for _, set := range sets {
		pairs := make([]string, 0, len(set))
		for k, v := range set {
			pairs = append(pairs, k+"="+v)
		}
		slices.Sort(pairs)
		texts = append(texts, strings.Join(pairs, ","))
	}
	return texts
}

func TestTheWholeExpositionIsWellFormed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, idle())
		r.send("orders", "a")
		settle(2 * time.Minute)
		_, body := r.get("http://main/metrics")

		// Merging adds families that no registry checked: none twice, all in order, each
		// series once.
		var names []string
		seen := map[string]bool{}
		for line := range strings.Lines(body) {
			if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
				names = append(names, strings.Fields(name)[0])
			}
			if s, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
				if seen[s] {
					t.Errorf("series %s is there twice", s)
				}
				seen[s] = true
			}
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("families are not sorted, or one is there twice: %q", names)
		}
		problems, err := promlint.New(strings.NewReader(body)).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if !strings.HasPrefix(p.Metric, "go_") && !strings.HasPrefix(p.Metric, "process_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
		known := map[string]bool{}
		for _, d := range metric.Catalogue() {
			known[d.Name] = true
		}
		for _, n := range names {
			foreign := strings.HasPrefix(n, "go_") || strings.HasPrefix(n, "process_") || strings.HasPrefix(n, "promhttp_")
			if !foreign && !known[n] {
				t.Errorf("%s is not in the catalogue", n)
			}
		}
		if strings.Contains(body, "NaN") {
			t.Error("something is NaN")
		}

		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://main/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text; version=1.0.0") {
			t.Errorf("asked for OpenMetrics, got %q", got)
		}
		r.end()
	})
}

func TestASharedPoisonQueueIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, poisonQueue: bin}
      - {name: emails, poisonQueue: bin}
`, nil)
		r.create("bin")
		r.send("bin", "x")
		settle(2 * time.Minute)
		_, body := r.get("http://main/metrics")
		var got []string
		for _, m := range families(t, body)[metric.QueueApproximateMessages].GetMetric() {
			if m.GetGauge().GetValue() > 0 {
				got = append(got, labels(m))
			}
		}
		if want := []string{"account=acct,queue_kind=poison,queue_name=bin"}; !slices.Equal(got, want) {
			t.Errorf("the message in the shared poison queue is in %q, want %q", got, want)
		}
		r.want("http://main/api/v1/queues/acct/bin", 200, `"poison":{"name":"bin"`)
		r.want("http://main/", 200, "poison queue")
		r.end()
	})
}

// TestNothingSecretLeaves runs messages through every way they can end, with all logging
// on, and looks for them everywhere qwatch speaks.
func TestNothingSecretLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const marker = "s3cr3t-b0dy"
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			switch {
			case strings.HasSuffix(string(m.Body), "permanent"):
				return processor.Permanent(errors.New("refused"))
			case strings.HasSuffix(string(m.Body), "panic"):
				panic("handler")
			case strings.HasSuffix(string(m.Body), "transient"):
				return errors.New("later")
			}
			return nil
		})})
		for _, body := range []string{"good", "permanent", "panic", "transient"} {
			r.send("orders", marker+body)
			r.send("watched", marker+body)
		}
		q := r.queue("orders")
		for _, text := range []string{
			`{"$azqs-envelope":99,"body":"` + marker + `"}`,
			`{"$azqs-envelope":1,"headers":{"` + marker + `":"` + marker + `"},"body64":"` + marker + `"}`,
			`{"$azqs-envelope":1,"encoding":"zstd","body64":"` + marker + `"}`,
		} {
			if _, err := q.SendText(t.Context(), text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, op := range []string{"peek", "receive", "delete", "update", "send", "properties"} {
			r.storage.Inject(queuetest.Fault{Operation: queuetest.Operation(op), Times: 2, Skip: 1, Status: 403, Code: "AuthorizationFailure"})
		}
		settle(time.Hour)
		if n := r.storage.Len(queuetest.AccountName, "orders-poison"); n != 6 {
			t.Errorf("%d messages are poisoned, want 6: the ways were not all gone", n)
		}

		spoken := map[string]string{"log": ""}
		for _, url := range []string{
			"http://main/", "http://main/metrics", "http://main/api/v1/queues", "http://main/api/v1/queues/acct/orders",
			"http://main/readyz?verbose&format=json", "http://probes/livez?verbose",
		} {
			_, spoken[url] = r.get(url)
		}
		r.end()
		spoken["log"] = r.logs.String()
		if !strings.Contains(spoken["log"], `"category":"handler"`) && !strings.Contains(spoken["log"], "permanent") && !strings.Contains(spoken["log"], "refused") {
			t.Error("the log does not tell of the refused message: nothing was looked at")
		}
		for where, text := range spoken {
			for what, secret := range map[string]string{"a body": marker, "the key": queuetest.AccountKey, "a signature": "sig="} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows %s: %s", where, what, around(text, secret))
				}
			}
		}
	})
}

func around(text, part string) string {
	i := strings.Index(text, part)
	return fmt.Sprintf("…%s…", text[max(0, i-200):min(len(text), i+len(part)+50)])
}

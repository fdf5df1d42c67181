package metric_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/internal/metric"
)

// sampled is a traceparent of a sampled trace, and trace its id.
const (
	trace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	sampled = "00-" + trace + "-00f067aa0ba902b7-01"
)

// expose returns what a scrape of g in the given format would read.
func expose(t *testing.T, g prometheus.Gatherer, format expfmt.Format) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	var b bytes.Buffer
	e := expfmt.NewEncoder(&b, format)
	for _, f := range families {
		if err := e.Encode(f); err != nil {
			t.Fatalf("encode %s: %v", f.GetName(), err)
		}
	}
	if c, ok := e.(expfmt.Closer); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	return b.String()
}

// samples returns the value of every line of the text format, by name and labels.
func samples(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(expose(t, g, expfmt.NewFormat(expfmt.TypeTextPlain))) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		if _, twice := out[line[:at]]; twice {
			t.Fatalf("series %s is there twice", line[:at])
		}
		out[line[:at]] = v
	}
	return out
}

// changed returns the series that are not 0, without the buckets.
func changed(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	out := samples(t, g)
	for series, v := range out {
		if v == 0 || strings.Contains(series, "_bucket{") {
			delete(out, series)
		}
	}
	return out
}

// watcher exports every watcher metric of n queues and a accounts, as full as they can be.
func watcher(n, a int) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var families []*dto.MetricFamily
		for _, d := range metric.Catalogue() {
			if d.Owner != metric.OwnedByWatcher {
				continue
			}
			f, things := d.Family(), n
			if d.Scope == metric.PerAccount {
				things = a
			}
			for i := range things {
				f.Metric = append(f.Metric, combinations(d, "thing-"+strconv.Itoa(i))...)
			}
			families = append(families, f)
		}
		return families, nil
	})
}

// combinations returns a zero metric of d for every combination of the closed labels that
// exist together.
func combinations(d metric.Def, name string) []*dto.Metric {
	out := []*dto.Metric{{}}
	for _, l := range d.Labels {
		values := l.Values
		switch {
		case values == nil:
			values = []string{name}
		case l.Name == metric.LabelMode: // one at a time
			values = values[:1]
		}
		var next []*dto.Metric
		for _, m := range out {
			for _, v := range values {
				labels := append(m.Label[:len(m.Label):len(m.Label)], &dto.LabelPair{Name: new(l.Name), Value: new(v)})
				next = append(next, &dto.Metric{Label: labels})
			}
		}
		out = next
	}
	for _, m := range out {
		if d.Type == metric.Counter {
			m.Counter = &dto.Counter{Value: new(0.0)}
		} else {
			m.Gauge = &dto.Gauge{Value: new(0.0)}
		}
	}
	return out
}

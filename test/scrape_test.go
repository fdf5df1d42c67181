package test_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// get reads a URL, ten seconds at most.
func get(ctx context.Context, url string) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// mustGet reads a URL that must answer 200.
func mustGet(t *testing.T, url string) []byte {
	t.Helper()
	status, text, err := get(t.Context(), url)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: status %d, %v\n%s", url, status, err, text)
	}
	return text
}

// A scrape is one exposition.
type scrape map[string]*dto.MetricFamily

func scrapeOf(t *testing.T, s *service) scrape {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(mustGet(t, s.main+"/metrics")))
	if err != nil {
		t.Fatalf("read /metrics: %v", err)
	}
	return families
}

// A series is a metric's name with labels in pairs: name, label, value, ….
type series []string

func (s series) String() string { return fmt.Sprint([]string(s)) }

// value returns the sum of the series that have these labels, and whether there is one.
// A histogram's value is its count.
func (s scrape) value(of series) (sum float64, ok bool) {
	family := s[of[0]]
	for _, m := range family.GetMetric() {
		labels := make(map[string]string)
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 1; i < len(of); i += 2 {
			matches = matches && labels[of[i]] == of[i+1]
		}
		if !matches {
			continue
		}
		ok = true
		switch {
		case m.Counter != nil:
			sum += m.GetCounter().GetValue()
		case m.Histogram != nil:
			sum += float64(m.GetHistogram().GetSampleCount())
		default:
			sum += m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return sum, ok
}

// is tells whether the series exists with this value.
func (s scrape) is(want float64, of ...string) bool {
	got, ok := s.value(of)
	return ok && got == want
}

// has tells whether the series exists.
func (s scrape) has(of ...string) bool {
	_, ok := s.value(of)
	return ok
}

// want fails the test unless the series exists with this value.
func (s scrape) want(t *testing.T, want float64, of ...string) {
	t.Helper()
	if got, ok := s.value(of); !ok || got != want {
		t.Errorf("%v is %v (present: %v), want %v", series(of), got, ok, want)
	}
}

package web

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

func family(name, help string, kind dto.MetricType, label string, values ...float64) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
	for _, v := range values {
		m := &dto.Metric{Label: []*dto.LabelPair{{Name: new("account"), Value: &label}, {Name: new("queue_name"), Value: new("orders")}}}
		if kind == dto.MetricType_COUNTER {
			m.Counter = &dto.Counter{Value: new(v)}
		} else {
			m.Gauge = &dto.Gauge{Value: new(v)}
		}
		f.Metric = append(f.Metric, m)
	}
	return f
}

var formats = []expfmt.Format{
	expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeOpenMetrics),
}

func bothWays(t *testing.T, f *dto.MetricFamily, format expfmt.Format) (want, got string) {
	t.Helper()
	var common, quick bytes.Buffer
	if err := expfmt.NewEncoder(&common, format).Encode(f); err != nil {
		t.Fatal(err)
	}
	e := newQuickEncoder(&quick, format)
	defer e.close()
	if err := e.encode(sourced{f, true}); err != nil {
		t.Fatal(err)
	}
	if err := e.flush(); err != nil {
		t.Fatal(err)
	}
	return common.String(), quick.String()
}

func TestQuickIsWhatExpfmtWrites(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		for _, f := range []*dto.MetricFamily{
			family("queue_up", `1 when "up"\or`+"\nnot.", dto.MetricType_GAUGE, "acct", 0, 1, -1, 2, 32),
			family("queue_polls_total", "Polls.", dto.MetricType_COUNTER, "acct", 0, 1, 1e21, 123456789),
			family("queue_polls", "A counter without its suffix.", dto.MetricType_COUNTER, "acct", 3),
			family("queue_age_seconds", "Ages.", dto.MetricType_GAUGE, "a\"b\\c\nd ä",
				0.1, 1.796055035711e+09, 999999, 1e6, 999999.5, -999999, -1e6, 1e-7, 1e20, 1e21, math.MaxFloat64,
				math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)),
		} {
			want, got := bothWays(t, f, format)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s as %s (-expfmt +quick):\n%s", f.GetName(), format, diff)
			}
		}
	}
}

func FuzzQuickIsWhatExpfmtWrites(f *testing.F) {
	f.Add("acct", 1.5, true)
	f.Add("\"\\\n", math.Inf(1), false)
	f.Add("\xff", 1e6, false)
	f.Fuzz(func(t *testing.T, label string, value float64, counter bool) {
		kind := dto.MetricType_GAUGE
		if counter {
			kind = dto.MetricType_COUNTER
		}
		for _, format := range formats {
			want, got := bothWays(t, family("queue_x_total", label, kind, label, value), format)
			if want != got {
				t.Errorf("%q %v as %s:\n%s\nwant\n%s", label, value, format, got, want)
			}
		}
	})
}

func TestWhatIsNotSimpleIsLeftToExpfmt(t *testing.T) {
	t.Parallel()
	timed := family("a", "b", dto.MetricType_GAUGE, "c", 1)
	timed.Metric[0].TimestampMs = new(int64(5))
	exemplar := family("a_total", "b", dto.MetricType_COUNTER, "c", 1)
	exemplar.Metric[0].Counter.Exemplar = &dto.Exemplar{}
	mixed := family("a", "b", dto.MetricType_GAUGE, "c", 1)
	mixed.Metric[0].Gauge = nil
	histogram := family("a", "b", dto.MetricType_HISTOGRAM, "c", 1)
	protobuf := expfmt.NewFormat(expfmt.TypeProtoDelim)
	for name, tt := range map[string]struct {
		family sourced
		format expfmt.Format
	}{
		"a time":              {sourced{timed, true}, formats[0]},
		"an exemplar":         {sourced{exemplar, true}, formats[1]},
		"a value of no kind":  {sourced{mixed, true}, formats[0]},
		"a histogram":         {sourced{histogram, true}, formats[0]},
		"the registry's":      {sourced{family("a", "b", dto.MetricType_GAUGE, "c", 1), false}, formats[0]},
		"protobuf":            {sourced{family("a", "b", dto.MetricType_GAUGE, "c", 1), true}, protobuf},
		"a family of nothing": {sourced{family("a", "b", dto.MetricType_GAUGE, "c"), true}, formats[0]},
	} {
		var b bytes.Buffer
		e := newQuickEncoder(&b, tt.format)
		if err := e.encode(tt.family); err != errNotQuick {
			t.Errorf("%s: %v, want errNotQuick", name, err)
		}
		if err := e.flush(); err != nil || b.Len() > 0 {
			t.Errorf("%s: %d bytes were written, %v", name, b.Len(), err)
		}
		e.close()
	}
}

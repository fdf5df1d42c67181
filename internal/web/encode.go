package web

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/collector"
)

// quickEncoder writes prebuilt gauges and counters exactly as package expfmt does, at a
// fraction of the cost: it relies on the source's promise where expfmt checks.
type quickEncoder struct {
	w    io.Writer
	buf  *[]byte
	text bool // the classic text format
	open bool // OpenMetrics
}

// errNotQuick is about a family that expfmt must write.
var errNotQuick = errors.New("not for the quick encoder")

// flushAt is how much is collected before it is written.
const flushAt = 32 << 10

var quickBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, flushAt+4<<10)
	return &b
}}

func newQuickEncoder(w io.Writer, format expfmt.Format) *quickEncoder {
	kind := format.FormatType()
	return &quickEncoder{
		w: w, buf: quickBuffers.Get().(*[]byte),
		text: kind == expfmt.TypeTextPlain, open: kind == expfmt.TypeOpenMetrics,
	}
}

func (e *quickEncoder) close() {
	*e.buf = (*e.buf)[:0]
	quickBuffers.Put(e.buf)
}

func (e *quickEncoder) flush() error {
	if len(*e.buf) == 0 {
		return nil
	}
	_, err := e.w.Write(*e.buf)
	*e.buf = (*e.buf)[:0]
	return err
}

// encode collects a family, or returns errNotQuick.
func (e *quickEncoder) encode(f sourced) error {
	if !f.prebuilt || !e.text && !e.open || !simple(f.MetricFamily) {
		return errNotQuick
	}
	e.head(f.GetName(), f.GetHelp(), f.GetType() == dto.MetricType_COUNTER)
	for _, m := range f.Metric {
		value := m.GetGauge().GetValue()
		if m.Counter != nil {
			value = m.GetCounter().GetValue()
		}
		if err := e.sample(f.GetName(), m.GetLabel(), value); err != nil {
			return err
		}
	}
	return nil
}

// stream collects a family whose samples come one by one, or returns errNotQuick.
func (e *quickEncoder) stream(f *collector.Family) (err error) {
	if !e.text && !e.open {
		return errNotQuick
	}
	begun := false
	f.Each(func(labels []*dto.LabelPair, value float64) {
		if err != nil {
			return
		}
		if !begun {
			begun = true
			e.head(f.Name, f.Help, f.Counter)
		}
		err = e.sample(f.Name, labels, value)
	})
	return err
}

// sample collects one sample, and writes what was collected when that is enough.
func (e *quickEncoder) sample(name string, labels []*dto.LabelPair, value float64) error {
	b := append(*e.buf, name...)
	b = appendLabels(b, labels)
	b = append(b, ' ')
	b = e.appendFloat(b, value)
	*e.buf = append(b, '\n')
	if len(*e.buf) < flushAt {
		return nil
	}
	return e.flush()
}

// simple says that a family is nothing but gauges or counters: no times, no exemplars.
func simple(f *dto.MetricFamily) bool {
	kind := f.GetType()
	if kind != dto.MetricType_GAUGE && kind != dto.MetricType_COUNTER || f.Help == nil || f.Unit != nil || len(f.Metric) == 0 {
		return false
	}
	for _, m := range f.Metric {
		if m.TimestampMs != nil ||
			kind == dto.MetricType_GAUGE && m.Gauge == nil ||
			kind == dto.MetricType_COUNTER && (m.Counter == nil || m.Counter.Exemplar != nil || m.Counter.CreatedTimestamp != nil) {
			return false
		}
	}
	return true
}

func (e *quickEncoder) head(name, help string, counter bool) {
	b, kind := *e.buf, " gauge\n"
	if counter {
		kind = " counter\n"
		if e.open {
			base, ok := strings.CutSuffix(name, "_total")
			if !ok {
				kind = " unknown\n"
			}
			name = base
		}
	}
	b = append(b, "# HELP "...)
	b = append(b, name...)
	b = append(b, ' ')
	b = appendEscaped(b, help, e.open)
	b = append(b, "\n# TYPE "...)
	b = append(b, name...)
	*e.buf = append(b, kind...)
}

func appendLabels(b []byte, labels []*dto.LabelPair) []byte {
	if len(labels) == 0 {
		return b
	}
	separator := byte('{')
	for _, l := range labels {
		b = append(b, separator)
		b = append(b, l.GetName()...)
		b = append(b, '=', '"')
		b = appendEscaped(b, l.GetValue(), true)
		b = append(b, '"')
		separator = ','
	}
	return append(b, '}')
}

// appendEscaped escapes backslashes, line feeds and, in label values and in OpenMetrics'
// help, quotes.
func appendEscaped(b []byte, s string, quotes bool) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\':
			b = append(b, '\\', '\\')
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '"' && quotes:
			b = append(b, '\\', '"')
		default:
			b = append(b, c)
		}
	}
	return b
}

// appendFloat writes a number; OpenMetrics marks every one as a float.
func (e *quickEncoder) appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	start := len(b)
	if v == math.Trunc(v) && math.Abs(v) < 1e6 { // as 'g' writes it, sooner
		b = strconv.AppendInt(b, int64(v), 10)
	} else {
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	if e.open && !bytes.ContainsAny(b[start:], "e.") {
		b = append(b, ".0"...)
	}
	return b
}

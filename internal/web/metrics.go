package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/qwatch/qwatch/collector"
)

// maxScrapes is how many scrapes run at once; more are answered 503.
const maxScrapes = 10

// metrics serves a registry and a source of families that are ready as they are.
//
// A registry checks every metric it gathers, and the common encoder every name it writes;
// both grow with the fleet, and thousands of queues make them the larger part of a scrape.
// The prebuilt source promises well-formed families, none of them the registry's, with
// names and labels of the classic character set; a test of the whole exposition keeps it
// to that.
type metrics struct {
	registry prometheus.Gatherer
	prebuilt prometheus.Gatherer
	log      *slog.Logger
	errors   *prometheus.CounterVec
	slots    chan struct{}
}

// metricsHandler returns the handler of /metrics, whose own metrics are registered with reg.
func metricsHandler(reg *prometheus.Registry, prebuilt prometheus.Gatherer, logger *slog.Logger) http.Handler {
	m := &metrics{
		registry: reg, prebuilt: prebuilt, log: logger, slots: make(chan struct{}, maxScrapes),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "promhttp_metric_handler_errors_total",
			Help: "Total number of internal errors encountered by the promhttp metric handler.",
		}, []string{"cause"}),
	}
	m.errors.WithLabelValues(causeGathering)
	m.errors.WithLabelValues(causeEncoding)
	reg.MustRegister(m.errors)
	return onlyGET(compress(promhttp.InstrumentMetricHandler(reg, m)))
}

// The causes of errors, by promhttp's names.
const (
	causeGathering = "gathering"
	causeEncoding  = "encoding"
)

// ServeHTTP implements http.Handler. What one metric does wrong is logged and counted and
// leaves the others be.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, strconv.Itoa(maxScrapes)+" scrapes are under way; try again later", http.StatusServiceUnavailable)
		return
	}
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Content-Type", string(format))
	for _, err := range m.write(w, format) {
		level := slog.LevelError
		if r.Context().Err() != nil {
			level = slog.LevelDebug // the scraper has gone
		}
		m.log.Log(r.Context(), level, "serve metrics", "error", err)
	}
}

// write gathers and writes everything.
func (m *metrics) write(w io.Writer, format expfmt.Format) []error {
	families, err := m.gather(format)
	var errs []error
	if err != nil {
		m.errors.WithLabelValues(causeGathering).Inc()
		errs = append(errs, fmt.Errorf("gather metrics: %w", err))
	}
	common := expfmt.NewEncoder(w, format)
	quick := newQuickEncoder(w, format)
	defer quick.close()
	for _, f := range families {
		if f.stream != nil {
			err = quick.stream(f.stream)
		} else {
			err = quick.encode(f.sourced)
		}
		if errors.Is(err, errNotQuick) {
			if err = quick.flush(); err == nil {
				err = common.Encode(f.MetricFamily)
			}
		}
		if err != nil {
			m.errors.WithLabelValues(causeEncoding).Inc()
			return append(errs, fmt.Errorf("write metric %s: %w", f.name(), err))
		}
	}
	err = quick.flush()
	if c, ok := common.(expfmt.Closer); ok && err == nil {
		err = c.Close()
	}
	if err != nil {
		m.errors.WithLabelValues(causeEncoding).Inc()
		errs = append(errs, fmt.Errorf("write metrics: %w", err))
	}
	return errs
}

// sourced is a family, and whether it comes from the prebuilt source.
type sourced struct {
	*dto.MetricFamily

	prebuilt bool
}

// entry is a family to write: one that is built, or one of the prebuilt source whose samples come one by one.
type entry struct {
	sourced
	stream *collector.Family
}

func (e entry) name() string {
	if e.stream != nil {
		return e.stream.Name
	}
	return e.GetName()
}

// streaming is a prebuilt source that need not build anything for a text format.
type streaming interface{ Families() []collector.Family }

// gather returns all families by name.
func (m *metrics) gather(format expfmt.Format) ([]entry, error) {
	own, err := m.registry.Gather()
	all := make([]entry, 0, len(own)+64)
	for _, f := range own {
		all = append(all, entry{sourced: sourced{f, false}})
	}
	kind := format.FormatType()
	if s, ok := m.prebuilt.(streaming); ok && (kind == expfmt.TypeTextPlain || kind == expfmt.TypeOpenMetrics) {
		families := s.Families()
		for i := range families {
			all = append(all, entry{stream: &families[i]})
		}
	} else {
		more, moreErr := m.prebuilt.Gather()
		for _, f := range more {
			all = append(all, entry{sourced: sourced{f, true}})
		}
		err = errors.Join(err, moreErr)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.name(), b.name()) })
	return all, err
}

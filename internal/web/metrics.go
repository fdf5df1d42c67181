package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// maxScrapes is how many scrapes run at once; more are answered 503.
const maxScrapes = 10

// merged gathers a registry and then a source of families that are ready as they are.
//
// A prometheus.Registry checks every metric it gathers, and that work grows with the
// fleet: thousands of queues make it the larger part of a scrape. The prebuilt source
// promises well-formed, sorted families of names that the registry does not have; a
// test of the whole exposition keeps it to that.
type merged struct {
	registry prometheus.Gatherer
	prebuilt prometheus.Gatherer
}

func (m merged) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	more, moreErr := m.prebuilt.Gather()
	all := make([]*dto.MetricFamily, 0, len(families)+len(more))
	all = append(append(all, families...), more...)
	slices.SortStableFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, errors.Join(err, moreErr)
}

// metricsHandler serves both sources. Simultaneous scrapes share one gathering, and an
// error in one family leaves the others be.
func metricsHandler(reg *prometheus.Registry, prebuilt prometheus.Gatherer, logger *slog.Logger) http.Handler {
	var g prometheus.Gatherer = reg
	if prebuilt != nil {
		g = merged{registry: reg, prebuilt: prebuilt}
	}
	h := promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            promLog{logger},
		ErrorHandling:       promhttp.ContinueOnError,
		Registry:            reg,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
		DisableCompression:  true, // compress does it
	})
	return onlyGET(compress(promhttp.InstrumentMetricHandler(reg, h)))
}

// promLog carries promhttp's errors into slog.
type promLog struct{ logger *slog.Logger }

func (l promLog) Println(v ...any) {
	args := make([]any, 0, 2)
	if len(v) > 0 {
		args = append(args, "error", v[len(v)-1])
	}
	l.logger.Error("gather metrics", args...)
}

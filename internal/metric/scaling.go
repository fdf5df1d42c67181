package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scaling reads the ages whenever it is scraped.
type scaling struct {
	desc *prometheus.Desc
	each func(report func(account, queue string, age time.Duration))
}

// Scaling registers the age of the scaling signal with reg. each is called once a scrape and must report every
// queue that a scaler asks about once.
func Scaling(reg prometheus.Registerer, each func(report func(account, queue string, age time.Duration))) {
	reg.MustRegister(scaling{Of(ScalingSignalAge).Desc(), each})
}

// Describe implements prometheus.Collector.
func (s scaling) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s scaling) Collect(ch chan<- prometheus.Metric) {
	s.each(func(account, queue string, age time.Duration) {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, max(0, age).Seconds(), account, queue)
	})
}

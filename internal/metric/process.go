package metric

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// BuildInfo registers the constant metric that says what qwatch was built from.
func BuildInfo(reg prometheus.Registerer, version, revision, goversion string) {
	d := Of(QwatchBuildInfo)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.LabelNames())
	g.WithLabelValues(version, revision, goversion).Set(1)
	reg.MustRegister(g)
}

// Reload tells how the last load of the configuration went. Safe for concurrent use.
type Reload struct{ successful, at prometheus.Gauge }

// NewReload registers the reload metrics with reg. Both are 0 until the first Succeeded.
func NewReload(reg prometheus.Registerer) *Reload {
	gauge := func(name string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: Of(name).Help})
		reg.MustRegister(g)
		return g
	}
	return &Reload{successful: gauge(ConfigLastReloadSuccessful), at: gauge(ConfigLastReloadSuccessTime)}
}

// Succeeded says that a configuration was loaded at the given time, the first one included.
func (r *Reload) Succeeded(at time.Time) {
	r.at.Set(timestamp(at))
	r.successful.Set(1)
}

// Refused says that a configuration was refused and the previous one stands.
func (r *Reload) Refused() { r.successful.Set(0) }

// Credentials exports when credentials expire. Safe for concurrent use.
type Credentials struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	read map[string]func() (time.Time, bool)
}

// NewCredentials registers the expiry metric with reg.
func NewCredentials(reg prometheus.Registerer) *Credentials {
	c := &Credentials{desc: Of(CredentialExpiry).Desc(), read: map[string]func() (time.Time, bool){}}
	reg.MustRegister(c)
	return c
}

// Watch sets what tells an account's expiry; false means unknown and exports nothing. It
// is called once a scrape and must return at once.
func (c *Credentials) Watch(account string, expiry func() (time.Time, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[account] = expiry
}

// Delete forgets the account.
func (c *Credentials) Delete(account string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.read, account)
}

// Describe implements prometheus.Collector.
func (c *Credentials) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *Credentials) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	read := maps.Clone(c.read)
	c.mu.Unlock()
	for account, expiry := range read {
		if at, ok := expiry(); ok {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, timestamp(at), account)
		}
	}
}

// Values of qwatch_health_check_status.
const (
	HealthOK       = 1
	HealthDegraded = 0.5
	HealthFailed   = 0
)

// health reads the checks whenever it is scraped.
type health struct {
	desc *prometheus.Desc
	each func(report func(probe, check string, status float64))
}

// Health registers the health check metric with reg. each is called once a scrape and must
// report every check of every probe (live, ready, startup) once, with HealthOK,
// HealthDegraded or HealthFailed.
func Health(reg prometheus.Registerer, each func(report func(probe, check string, status float64))) {
	reg.MustRegister(health{Of(HealthCheckStatus).Desc(), each})
}

// Describe implements prometheus.Collector.
func (h health) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

// Collect implements prometheus.Collector.
func (h health) Collect(ch chan<- prometheus.Metric) {
	h.each(func(probe, check string, status float64) {
		ch <- prometheus.MustNewConstMetric(h.desc, prometheus.GaugeValue, status, probe, check)
	})
}

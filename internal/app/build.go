package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/otlp"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/telemetry"
)

// service is everything Run runs, built and at rest. What the configuration decides is in its state; what is
// here stays for the life of the process.
type service struct {
	o   Options
	log *slog.Logger

	registry    *prometheus.Registry
	consumers   *processor.Metrics
	storage     *metric.Storage
	bill        *metric.Bill
	credentials *metric.Credentials
	collector   *collector.Collector
	loop        *health.Loop // the collector's
	story       *story.Recorder
	storyLoop   *health.Loop
	health      *health.Health
	tokens      *web.Tokens // nil: nobody may steer consumers
	exporter    *otlp.Exporter
	follow      *telemetry.Telemetry // nil: nobody wants to be told
	opening     FleetOptions
	scalerFields
	clusterFields

	inUse     atomic.Pointer[state]
	applied   []func(*state) // called with each state once it is in use, the first one included
	reloading reloading
	leaving   map[string]*consumer // by name: removed, and still counting; for the loop of reloads alone

	applying       sync.Mutex // held while a state takes the place of another
	draining       bool
	consumerChecks []func() // that remove them

	work web.Work // what operators have storage do

	ready chan struct{} // closed when consumption may begin
	ended chan struct{} // closed when the end begins
}

// build makes everything the configuration describes. It opens nothing and makes no request.
func build(o Options) (*service, error) {
	if files(o.Config) != nil {
		return nil, buildable(o.Config) // which tells what else is wrong
	}
	s := &service{
		o: o, log: o.Logger, registry: prometheus.NewRegistry(), ready: make(chan struct{}), ended: make(chan struct{}), leaving: map[string]*consumer{},
		health: health.New(health.Config{Strict: o.Config.Server.StrictReadiness}),
	}
	if err := s.openTokens(); err != nil {
		return nil, err
	}
	s.storage, s.bill = metric.NewStorage(s.registry, metric.Options{}), metric.NewBill(s.registry, 0)
	s.credentials = metric.NewCredentials(s.registry)
	s.consumers = processor.NewMetrics(s.registry, processor.MetricsOptions{})
	if err := s.export(); err != nil {
		return nil, err
	}
	s.opening = FleetOptions{
		Logger:    o.Logger,
		Transport: o.Transport,
		Observe: func(r queue.Request) {
			s.storage.Observe(r.Account, string(r.Operation), string(r.Result), r.Duration)
			s.bill.Count(r.Account)
		},
	}
	if s.follow != nil {
		s.opening.Tracer = s.follow
	}
	s.process()
	s.tellStories()
	if err := s.assemble(); err != nil {
		s.exporter.Abandon()
		return nil, err
	}
	return s, nil
}

// close releases connections. Nothing may run any more.
func (s *service) close() {
	s.exporter.Abandon()
	for _, c := range s.state().consumers {
		c.close()
	}
	s.state().fleet.Close()
}

// assemble builds the first state, and what watches it.
func (s *service) assemble() error {
	st, err := s.prepare(s.o.Config, nil)
	if err != nil {
		return err
	}
	cfg, err := st.watching()
	if err == nil {
		s.loop = s.health.Loop("collector", collectorBound)
		cfg.Beat, cfg.Logger = s.loop.Beat, s.log
		err = s.share(&cfg)
	}
	if err == nil {
		if s.collector, err = collector.New(cfg); err != nil {
			err = &ConfigError{fmt.Errorf("%s: %w", st.config.At("watch"), err)}
		}
	}
	if err != nil {
		st.abandon(nil)
		return err
	}
	s.checks()
	s.sharingChecks()
	s.canary = &canary{service: s, metrics: metric.NewCanary(s.registry)}
	s.applied = append(s.applied, s.canary.leaveOut)
	for _, c := range st.consumers {
		c.loop = s.health.Loop("processor "+c.name, processorBound)
	}
	if err := s.scaling(); err != nil {
		st.abandon(nil)
		return &ConfigError{err}
	}
	s.adopt(st)
	return nil
}

// processorConfig translates the file's consumer, whose defaults are filled in, so that
// its 0 means off.
func processorConfig(c *config.Consumer) processor.Config {
	off := func(d time.Duration) time.Duration {
		if d == 0 {
			return processor.Off
		}
		return d
	}
	cfg := processor.Config{
		Concurrency:        c.Concurrency,
		VisibilityTimeout:  c.VisibilityTimeout,
		NoRenew:            !c.Renew,
		MaxRenewal:         c.MaxRenewal,
		LongRunningWarning: off(c.LongRunningWarning),
		MaxDequeueCount:    c.MaxDequeueCount,
		MaxAge:             c.MaxAge,
		Retry:              processor.RetryConfig{Initial: c.Retry.Initial, Max: c.Retry.Max, Jitter: c.Retry.Jitter},
		EmptyBackoffMin:    c.EmptyBackoff.Min,
		EmptyBackoffMax:    c.EmptyBackoff.Max,
		ErrorBackoffMax:    c.ErrorBackoffMax,
		DrainTimeout:       off(c.DrainTimeout),
		Breaker:            processor.BreakerConfig{Off: !c.Breaker, NoRecord: !c.OutageRecord},
	}
	if r := c.RateLimit; r != nil {
		cfg.RateLimit = rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
	}
	if c.Retry.Jitter == 0 {
		cfg.Retry.Jitter = processor.Off
	}
	return cfg
}

// process registers the metrics about the process itself.
func (s *service) process() {
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	metric.BuildInfo(s.registry, s.o.Version, s.o.Revision, runtime.Version())
	s.reloading.init(metric.NewReload(s.registry))
	s.healthMetric()
}

// operations are the storage operations an account is used for, whose series exist from
// the first scrape.
func operations(a config.Account) []string {
	ops := []queue.Operation{queue.OpProperties, queue.OpPeek}
	if a.Discovery != nil {
		ops = append(ops, queue.OpList)
	}
	if slices.ContainsFunc(a.Queues, func(q config.Queue) bool {
		return q.LargeMessages != nil || q.Consumer != nil && (q.Consumer.FailureRecords != nil || q.Consumer.Idempotency != nil)
	}) {
		ops = append(ops, queue.OpOther)
	}
	if slices.ContainsFunc(a.Queues, func(q config.Queue) bool {
		return q.Consumer != nil && q.Consumer.Breaker && q.Consumer.OutageRecord
	}) {
		ops = append(ops, queue.OpSetMetadata)
	}
	for _, q := range a.Queues {
		if q.Consumer != nil {
			ops = append(ops, queue.OpReceive, queue.OpSend, queue.OpUpdate, queue.OpDelete, queue.OpCreate)
			break
		}
	}
	names := make([]string, 0, len(ops))
	for _, op := range ops {
		names = append(names, string(op))
	}
	return names
}

// handler is what the main listener answers with.
func (s *service) handler() http.Handler {
	return web.Handler(web.Options{
		Registry:   s.registry,
		Collector:  s.collector,
		Processors: s.statuses,
		Consumer:   s.steered,
		Reload:     s.reload,
		Tokens:     s.tokens,
		Story:      s.story,
		Router:     s.router,
		Shard:      s.shardHandler(),
		Storage:    s.triaging(),
		Elsewhere:  s.elsewhere,
		Scaler:     s.scalingAPI,
		Health:     s.health,
		Version:    s.o.Version,
		Logger:     s.log.With("component", "web"),
	})
}

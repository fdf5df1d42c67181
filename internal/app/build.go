package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/time/rate"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/otlp"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/telemetry"
)

// service is everything Run runs, built and at rest.
type service struct {
	o   Options
	log *slog.Logger

	registry   *prometheus.Registry
	fleet      *Fleet
	processors []*processor.Processor
	collector  *collector.Collector
	health     *health.Health
	tokens     *web.Tokens // nil: nobody may steer consumers
	reload     *metric.Reload
	exporter   *otlp.Exporter
	follow     *telemetry.Telemetry // nil: nobody wants to be told
	loops      []*health.Loop
	scalerFields
	closers []func()

	ready chan struct{} // closed when consumption may begin
}

// build makes everything the configuration describes. It opens nothing and makes no request.
func build(o Options) (*service, error) {
	if path := o.Config.Server.WebConfigFile; path != "" {
		if err := web.CheckWebConfig(path); err != nil {
			return nil, &ConfigError{fmt.Errorf("%s: %w", o.Config.At("server.webConfigFile"), err)}
		}
	}
	s := &service{o: o, log: o.Logger, registry: prometheus.NewRegistry(), ready: make(chan struct{})}
	if err := s.openTokens(); err != nil {
		return nil, err
	}
	storage, count := metric.NewStorage(s.registry, metric.Options{}), s.bill()
	consumers := processor.NewMetrics(s.registry, processor.MetricsOptions{})
	consumed := map[string]bool{}
	for _, a := range o.Config.Accounts {
		storage.Init(a.Name, operations(a))
		for _, q := range a.Queues {
			consumed[fullName(a.Name, q.Name)] = q.Consumer != nil
		}
	}
	if err := s.export(); err != nil {
		return nil, err
	}
	opts := FleetOptions{
		Logger:    o.Logger,
		Transport: o.Transport,
		Observe: func(r queue.Request) {
			storage.Observe(r.Account, string(r.Operation), string(r.Result), r.Duration)
			count(r.Account)
		},
		OnSend: func(account, name string) func() {
			if !consumed[fullName(account, name)] {
				return nil
			}
			return consumers.Sent(account, name)
		},
	}
	if s.follow != nil {
		opts.Tracer = s.follow
	}
	var err error
	if s.fleet, err = OpenFleet(o.Config, opts); err != nil {
		s.exporter.Abandon()
		return nil, err
	}
	s.closers = append(s.closers, s.exporter.Abandon)
	if err := s.assemble(consumers); err != nil {
		s.close()
		return nil, &ConfigError{err}
	}
	s.process()
	return s, nil
}

// close releases connections. Nothing may run any more.
func (s *service) close() {
	for _, c := range s.closers {
		c()
	}
	s.fleet.Close()
}

// assemble builds what stands on the fleet.
func (s *service) assemble(consumers *processor.Metrics) error {
	var errs []error
	s.health = health.New(health.Config{Strict: s.o.Config.Server.StrictReadiness})
	targets := make([]collector.Target, 0, len(s.fleet.Queues))
	for _, q := range s.fleet.Queues {
		t := target(q)
		if c := q.Config.Consumer; c != nil {
			p, err := s.consumer(q, c, consumers)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", q.Config.Pos, err))
				continue
			}
			s.processors = append(s.processors, p)
			consumedBy(&t, p)
		}
		targets = append(targets, t)
	}
	shared, err := sharedPoison(s.fleet)
	if err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cfg := watchConfig(s.o.Config.Watch)
	cfg.Targets, cfg.Discovery = append(targets, shared...), s.fleet.discoveries()
	cfg.Beat, cfg.Logger = s.loop("collector", collectorBound), s.log
	if s.collector, err = collector.New(cfg); err != nil {
		return fmt.Errorf("%s: %w", s.o.Config.At("watch"), err)
	}
	s.checks()
	return s.scaling()
}

// consumer builds the processor of a queue.
func (s *service) consumer(q FleetQueue, c *config.Consumer, metrics *processor.Metrics) (*processor.Processor, error) {
	handler := s.o.Handlers[q.String()]
	if handler == nil {
		var err error
		if handler, err = forwarder(c.Handler); err != nil {
			return nil, err
		}
		if h, ok := handler.(*forward.HTTPHandler); ok {
			s.closers = append(s.closers, h.Close)
		}
	}
	cfg := processorConfig(c)
	if o := q.Config.Objective; o != nil {
		cfg.Objective = o.TimeInQueue
	}
	if err := recordKeeping(&cfg, q, c, s.log); err != nil {
		return nil, err
	}
	cfg.Ready, cfg.Logger, cfg.Metrics = s.ready, s.log, metrics
	cfg.Beat = s.loop("processor "+q.String(), processorBound)
	if s.follow != nil {
		cfg.Tracer = s.follow
	}
	return processor.New(q.Queue, handler, cfg)
}

// forwarder makes the handler that the file describes.
func forwarder(h config.Handler) (processor.Handler, error) {
	if h.HTTP != nil {
		return forward.HTTP(forward.HTTPConfig{
			URL: h.HTTP.URL, Timeout: h.HTTP.Timeout, CloudEvents: forward.CloudEvents(h.HTTP.CloudEvents),
		})
	}
	if h.Exec != nil {
		return forward.Exec(forward.ExecConfig{Command: h.Exec.Command, Dir: h.Exec.Dir, Timeout: h.Exec.Timeout})
	}
	return nil, errors.New("the consumer has no handler")
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
		Breaker:            processor.BreakerConfig{Off: !c.Breaker},
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
	s.reload = metric.NewReload(s.registry)
	s.reload.Succeeded(time.Now())
	credentials := metric.NewCredentials(s.registry)
	for _, a := range s.fleet.accounts {
		credentials.Watch(a.Name(), a.CredentialExpiry)
	}
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
		Consumer:   s.steering(),
		Tokens:     s.tokens,
		Scaler:     s.scalingAPI,
		Health:     s.health,
		Version:    s.o.Version,
		Logger:     s.log.With("component", "web"),
	})
}

func (s *service) statuses() []processor.Status {
	all := make([]processor.Status, 0, len(s.processors))
	for _, p := range s.processors {
		all = append(all, p.Status())
	}
	return all
}

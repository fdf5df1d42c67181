// Package app wires a configuration into a running qwatch: it builds everything, runs it
// until its context ends, and takes it down in reverse order.
//
// It owns the lifecycle and the wiring of `qwatch run` and of the demo, and the looks at
// storage that commands take. What the parts do is theirs: it decides only who gets what,
// what starts before what, and what stops when.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// shutdownGrace is how long the listeners let running requests finish.
const shutdownGrace = 3 * time.Second

// watcherWorkGrace is how long the work of operators may take to end where no consumer is drained.
const watcherWorkGrace = 20 * time.Second

// Options are what Run needs. Config is required; the rest may be left zero.
type Options struct {
	// Config is what to run.
	Config *config.Config
	// Logger gets what happens. Nil discards.
	Logger *slog.Logger
	// Version and Revision are what qwatch was built from.
	Version, Revision string
	// Transport replaces the HTTP client of every account. Nil: each account has its own.
	Transport policy.Transporter
	// Handlers replace the configured handlers of queues, by "account/queue".
	Handlers map[string]processor.Handler
	// Listen opens a listener for the setting of that name, such as server.listen. Its errors tell
	// which setting and what to do. Nil: net.Listen on TCP.
	Listen func(ctx context.Context, setting, address string) (net.Listener, error)
	// Lookup resolves the names of scaling.peers. Nil: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Lease replaces the Lease that a leader is elected on. Nil: Kubernetes'.
	Lease func(identity string) resourcelock.Interface
	// PeerTransport replaces the HTTP client with which replicas ask each other. Nil: one of its own.
	PeerTransport http.RoundTripper
	// Load reads the configuration anew, for a reload. Nil: it cannot be reloaded.
	Load Loader
	// Reload asks, with each value, for a reload, as POST /-/reload does. Nil: nobody asks.
	Reload <-chan os.Signal
	// Started is called once, when everything is built, the listeners are open and
	// consumption begins. It must return soon.
	Started func(Running)

	elsewhere bool // the configuration is for another host: what only that one has is not asked for
}

// Running is what Started is told.
type Running struct {
	Main   net.Addr
	Probes net.Addr // nil: the probes have no listener of their own
	GRPC   net.Addr // nil: there is none
	Fleet  *Fleet   // the accounts and queues at the start; closed when Run returns
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Listen == nil {
		o.Listen = func(ctx context.Context, setting, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			if err == nil {
				return l, nil
			}
			where := o.Config.At(setting)
			if !o.Config.Set(setting) {
				where = fmt.Sprintf("%s in %s (%s is its default)", setting, o.Config.File(), address)
			}
			return nil, fmt.Errorf("%s: %w; free the address, or set another: %s", setting, err, where)
		}
	}
	if o.Started == nil {
		o.Started = func(Running) {}
	}
	return o
}

// Run builds what the configuration describes and runs it until ctx ends; then /readyz
// answers 503 at once, processors drain, and the listeners close last. It returns nil
// after an orderly end. No storage is needed to start: what cannot be reached is tried
// again for as long as it takes. Errors are *ConfigError for faults of the configuration.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	s, err := build(o)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// Check builds what a configuration describes, without opening or asking anything. It
// returns what works, though hardly as meant. Errors are *ConfigError.
func Check(cfg *config.Config) (warnings []string, err error) {
	s, err := build(Options{Config: cfg, elsewhere: true}.withDefaults())
	if err != nil {
		return nil, err
	}
	s.close()
	return append(doubts(cfg), s.collector.Warnings()...), nil
}

// workGrace is how long what operators have storage do may take to end: as long as the consumers have.
func (s *service) workGrace() time.Duration {
	grace, consumed := shutdownGrace, false
	for _, a := range s.state().config.Accounts {
		for _, q := range a.Queues {
			if q.Consumer != nil {
				grace, consumed = max(grace, q.Consumer.DrainTimeout), true
			}
		}
	}
	if !consumed {
		return watcherWorkGrace
	}
	return grace
}

// endWork has what operators have storage do end at its next step, with nothing held, and waits for it.
func (s *service) endWork(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if s.work.End(ctx) != nil {
		s.log.Warn("an operator's command was still at work: what it held is visible again when its lease lapses", "delay", grace)
	}
}

func (s *service) run(ctx context.Context) (err error) {
	down := &cleanup{log: s.log}
	defer func() { err = errors.Join(err, down.run(context.WithoutCancel(ctx))) }()
	down.add("connections", func(context.Context) error { s.close(); return nil })
	down.add("telemetry", s.endTelemetry)

	failed := make(chan error, 3) // a listener that stopped by itself
	running := Running{Fleet: s.state().fleet}
	if running.Main, err = s.serve(ctx, down, failed, "server.listen", s.o.Config.Server.Listen, s.handler()); err != nil {
		return err
	}
	if address := s.o.Config.Server.Probes; address != config.Off {
		if running.Probes, err = s.serve(ctx, down, failed, "server.probes", address, web.Probes(s.health)); err != nil {
			return err
		}
	}

	if s.o.Config.Server.GRPC != config.Off {
		if running.GRPC, err = s.serveGRPC(ctx, down, failed); err != nil {
			return err
		}
	}

	g, gctx := errgroup.WithContext(ctx)
	// The probes tell at once that the end has begun.
	g.Go(func() error {
		<-gctx.Done()
		close(s.ended)
		s.drain()
		s.log.Info("draining")
		s.endWork(context.WithoutCancel(gctx), s.workGrace())
		return nil
	})
	g.Go(func() error {
		select {
		case err := <-failed:
			return err
		case <-gctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		s.createMissing(gctx, s.state().fleet, nil) // before they are looked at, and told to be missing
		return s.collector.Run(gctx)
	})
	g.Go(func() error { return s.story.Run(gctx) })
	g.Go(func() error { return s.runSharing(gctx, running.Main) })
	g.Go(func() error { return s.canary.run(gctx) })
	g.Go(func() error { return s.scaler.Run(gctx, s.localConsumers) })
	for _, c := range s.state().consumers {
		c.start(gctx, g, s)
	}
	g.Go(func() error {
		s.reloads(gctx, g)
		return nil
	})
	g.Go(func() error {
		s.thrift(gctx)
		return nil
	})
	for _, w := range doubts(s.o.Config) {
		s.log.Warn("a setting may not do what is meant", "reason", w)
	}
	close(s.ready)
	s.health.Started()
	s.log.Info("started", "version", s.o.Version)
	s.o.Started(running)
	err = g.Wait()
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// createPatience bounds how long the watching waits for missing queues to be created.
const createPatience = 3 * time.Second

// createMissing creates the consumed queues that are to be created when they are missing, but those that another
// fleet has, which may be nil. What does not work is left to their consumers, who try again and tell.
func (s *service) createMissing(ctx context.Context, fleet, but *Fleet) {
	ctx, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	known := map[*queue.Queue]bool{}
	if but != nil {
		for _, q := range but.Queues {
			known[q.Queue] = true
		}
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, q := range fleet.Queues {
		if q.Config.Consumer == nil || !q.Config.CreateIfMissing || known[q.Queue] {
			continue
		}
		g.Go(func() error {
			if _, err := q.Properties(ctx); errors.Is(err, queue.ErrQueueNotFound) {
				_ = q.Create(ctx)
			}
			return nil
		})
	}
	_ = g.Wait()
}

// serve opens a listener and answers on it until the clean-up.
func (s *service) serve(ctx context.Context, down *cleanup, failed chan<- error, setting, address string, h http.Handler) (net.Addr, error) {
	l, err := s.o.Listen(ctx, setting, address)
	if err != nil {
		return nil, err
	}
	s.log.Info("listening", "component", setting, "addr", l.Addr().String())
	server := web.NewServer(h, s.log.With("component", "web"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := web.Serve(server, l, s.webConfig(setting), s.log.With("component", "web")); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", setting, err)
		}
	}()
	down.add(setting, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // cuts what would not finish
			s.endWork(context.WithoutCancel(ctx), shutdownGrace)
		}
		<-done
		return nil
	})
	return l.Addr(), nil
}

// webConfig is the web configuration of a listener: the probes' is always plain, for the kubelet has
// neither certificate nor password.
func (s *service) webConfig(setting string) string {
	if setting == "server.listen" {
		return s.o.Config.Server.WebConfigFile
	}
	return ""
}

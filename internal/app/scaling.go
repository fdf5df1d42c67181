package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/metric"
	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/processor"
)

// peersEvery is how often peers are asked, when the queues are not polled more often than that.
const peersEvery = 10 * time.Second

// scaling builds what answers KEDA, on the collector and the processors.
func (s *service) scaling() error {
	cfg := s.o.Config
	if t := cfg.Server.GRPCTLS; t != nil && cfg.Server.GRPC != config.Off {
		var err error
		s.grpcTLS, err = scaler.TLSFiles{CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, Logger: s.log}.Config()
		if err != nil {
			return fmt.Errorf("%s: %w", cfg.At("server.grpcTLS"), err)
		}
	}
	var known atomic.Pointer[func(account, queue string) (scaler.Settings, bool)]
	s.applied = append(s.applied, func(st *state) {
		of := knownQueues(st.config)
		known.Store(&of)
	})
	s.scaler = scaler.New(scaler.Config{
		State: func(account, queue string) (collector.QueueState, bool) {
			for _, q := range s.collector.Queue(account, queue) {
				if q.Kind == collector.KindMain {
					return q, true
				}
			}
			return collector.QueueState{}, false
		},
		Known: func(account, queue string) (scaler.Settings, bool) { return (*known.Load())(account, queue) },
		Local: func(account, queue string) (processor.Status, bool) {
			c := s.state().byName[fullName(account, queue)]
			if c == nil {
				return processor.Status{}, false
			}
			return c.Status(), true
		},
		Asked: s.collector.Scaled, Forward: s.forwardScaling,
		Peers:  s.peers(),
		Logger: s.log,
	})
	metric.Scaling(s.registry, s.scaler.Ages)
	return nil
}

// knownQueues says which queues may be asked about: those of the file, and in an account with discovery any.
func knownQueues(cfg *config.Config) func(account, queue string) (scaler.Settings, bool) {
	settings := func(q config.Queue) scaler.Settings {
		handlingTime, concurrency := cfg.ScalingOf(q)
		return scaler.Settings{HandlingTime: handlingTime, Concurrency: concurrency}
	}
	known, discovers := map[string]scaler.Settings{}, map[string]bool{}
	for _, a := range cfg.Accounts {
		discovers[a.Name] = a.Discovery != nil
		for _, q := range a.Queues {
			known[fullName(a.Name, q.Name)] = settings(q)
		}
	}
	return func(account, queue string) (scaler.Settings, bool) {
		if set, ok := known[fullName(account, queue)]; ok {
			return set, true
		}
		if !discovers[account] {
			return scaler.Settings{}, false
		}
		return settings(cfg.QueueFor(account, queue)), true
	}
}

// peers are the consumers in other processes; nil when nobody says where they are.
func (s *service) peers() *scaler.Peers {
	cfg := s.o.Config
	hosts := cfg.Scaling.PeerHosts()
	if len(hosts) == 0 {
		return nil
	}
	return scaler.NewPeers(scaler.PeersConfig{
		Hosts: hosts, Every: min(peersEvery, cfg.Watch.Interval), Lookup: s.o.Lookup, Logger: s.log,
		Self: func(hostport string) bool { return isOwn(hostport, s.o.Config.Server.Listen) },
	})
}

// isOwn says whether an address is where this process itself listens.
func isOwn(hostport, listen string) bool {
	host, port, err := net.SplitHostPort(hostport)
	own, ownPort, errOwn := net.SplitHostPort(listen)
	if err != nil || errOwn != nil || port != ownPort {
		return false
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return false
	}
	if o := net.ParseIP(own); o != nil && !o.IsUnspecified() {
		return o.Equal(ip)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// localConsumers are the consumers here, for the scaler to learn how long they take.
func (s *service) localConsumers() []scaler.Consumer {
	consumers := s.state().consumers
	all := make([]scaler.Consumer, 0, len(consumers))
	for _, c := range consumers {
		all = append(all, scaler.Consumer{
			Account: c.Queue().Account().Name(), Queue: c.Queue().Name(),
			Handled: func() (uint64, time.Duration) {
				st := c.Status()
				return st.Handled, st.HandlerTime
			},
		})
	}
	return all
}

// serveGRPC opens the gRPC listener and answers on it until the clean-up.
func (s *service) serveGRPC(ctx context.Context, down *cleanup, failed chan<- error) (net.Addr, error) {
	const setting = "server.grpc"
	l, err := s.o.Listen(ctx, setting, s.o.Config.Server.GRPC)
	if err != nil {
		return nil, err
	}
	s.log.Info("listening", "component", setting, "addr", l.Addr().String())
	server := scaler.NewServer(s.scaler, s.health, s.grpcTLS, s.log)
	go func() {
		if err := server.Serve(l); err != nil {
			failed <- fmt.Errorf("serve %s: %w", setting, err)
		}
	}()
	down.add(setting, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
		defer cancel()
		server.Shutdown(ctx)
		return nil
	})
	return l.Addr(), nil
}

// scalerFields are what scaling adds to a service.
type scalerFields struct {
	scaler  *scaler.Scaler
	grpcTLS *tls.Config // nil: plain text
}

// elsewhere is what consumers in other processes say of a queue, for the page.
func (s *service) elsewhere(account, queue string) (web.Elsewhere, bool) {
	e, ok := s.scaler.Elsewhere(account, queue)
	return web.Elsewhere(e), ok
}

// scalingAPI answers over HTTP.
func (s *service) scalingAPI(ctx context.Context, account, queue, strategy string) (web.Scaling, *web.ScalingError) {
	st, err := scaler.ParseStrategy(strategy)
	var a scaler.Answer
	if err == nil {
		a, err = s.scaler.Ask(ctx, account, queue, st)
	}
	if err == nil {
		return web.Scaling{
			Value: a.Value, Strategy: a.Strategy.String(), Saturated: a.Saturated, Backlog: a.Backlog,
			AgeSeconds: float64(a.Age.Milliseconds()) / 1000,
		}, nil
	}
	status := http.StatusServiceUnavailable
	if e, ok := errors.AsType[*scaler.Error](err); ok {
		switch e.Kind {
		case scaler.BadRequest:
			status = http.StatusBadRequest
		case scaler.NotConfigured:
			status = http.StatusNotFound
		}
	}
	return web.Scaling{}, &web.ScalingError{Status: status, Text: err.Error()}
}

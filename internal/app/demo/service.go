package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/qwatch/qwatch/internal/web"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// DevelopmentAddress is where storage emulators serve queues, and what
// UseDevelopmentStorage=true means.
const DevelopmentAddress = "127.0.0.1:10001"

// Service is the embedded queue service listening on a socket. It keeps everything in
// memory.
type Service struct {
	*queuetest.Server

	listener net.Listener
	server   *http.Server
}

// NewService returns a service that listens at address already; Serve answers.
func NewService(ctx context.Context, address string, logger *slog.Logger) (*Service, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the queue service: %w", err)
	}
	return newService(l, logger), nil
}

func newService(l net.Listener, logger *slog.Logger) *Service {
	s := queuetest.New(queuetest.Options{})
	return &Service{Server: s, listener: l, server: web.NewServer(s, logger)}
}

// Addr is the address the service listens at.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// URL is the service's endpoint for the well-known development account.
func (s *Service) URL() string {
	return queuetest.EndpointAt("http://"+s.Addr(), queuetest.AccountName)
}

// ConnectionString is that of the well-known development account.
func (s *Service) ConnectionString() string { return s.ConnectionStringAt("http://" + s.Addr()) }

// Serve answers requests until ctx ends, then lets running ones finish for two seconds.
func (s *Service) Serve(ctx context.Context) error { return serve(ctx, s.server, s.listener) }

// serve runs a server until ctx ends.
func serve(ctx context.Context, server *http.Server, l net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // cuts what would not finish; nothing more can be done
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// listenOrAny listens at address, or at any free port of its host when the port is
// taken; moved says so.
func listenOrAny(ctx context.Context, address string) (l net.Listener, moved bool, err error) {
	lc := &net.ListenConfig{}
	l, err = lc.Listen(ctx, "tcp", address)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return l, false, err
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, false, err
	}
	l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	return l, true, err
}

package scaler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/qwatch/qwatch/health"
)

// Bounds of the gRPC server: what KEDA sends is small and seldom.
const (
	maxMessage  = 64 << 10
	maxStreams  = 1000 // of one connection
	clientAlive = 30 * time.Second
	clientPings = 5 * time.Second
)

// Server serves KEDA's external scaler and gRPC health on one listener.
type Server struct {
	grpc   *grpc.Server
	end    func() // ends the streams
	log    *slog.Logger
	served chan struct{}
}

// NewServer returns a server that answers for the scaler and the health. A nil config means plain text. A nil
// logger discards.
func NewServer(s *Scaler, h *health.Health, config *tls.Config, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ending := make(chan struct{})
	v := &Server{end: sync.OnceFunc(func() { close(ending) }), log: logger.With("component", "grpc"), served: make(chan struct{})}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(clientPings),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: clientAlive, Timeout: clientPings}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientPings, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(v.unary), grpc.StreamInterceptor(v.stream),
	}
	if config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	v.grpc = grpc.NewServer(opts...)
	pb.RegisterExternalScalerServer(v.grpc, &external{Scaler: s, ending: ending})
	healthpb.RegisterHealthServer(v.grpc, &healthServer{health: h, ending: ending})
	return v
}

// unary bounds a call, and keeps a mistake here from ending the process.
func (v *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer v.recovered(info.FullMethod, &err)
	answer, err = handle(ctx, req)
	v.tell(info.FullMethod, err)
	return answer, err
}

func (v *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer v.recovered(info.FullMethod, &err)
	err = handle(srv, stream)
	if status.Code(err) != codes.Canceled {
		v.tell(info.FullMethod, err)
	}
	return err
}

func (v *Server) tell(method string, err error) {
	if err != nil {
		v.log.Debug("call refused", "operation", method, "error", err)
	}
}

func (v *Server) recovered(method string, err *error) {
	if r := recover(); r != nil {
		v.log.Error("call panicked", "operation", method, "error", fmt.Sprint(r), "reason", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error")
	}
}

// Serve answers on l until Shutdown, and returns nil then.
func (v *Server) Serve(l net.Listener) error {
	defer close(v.served)
	if err := v.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Shutdown ends the streams, lets calls finish until ctx ends, and then cuts what is left. Serve must have
// been called; it has returned afterwards.
func (v *Server) Shutdown(ctx context.Context) {
	v.end()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		v.grpc.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		v.grpc.Stop()
		<-stopped
	}
	<-v.served
}

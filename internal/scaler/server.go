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
	"sync/atomic"
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
	maxStreams  = 1 << 16 // calls of one connection at once: KEDA has one for all its triggers, and beyond waits without a word
	maxLong     = 20_000  // streams that last, of all connections: two for each external-push trigger
	clientAlive = 30 * time.Second
	clientPings = 5 * time.Second
)

// Server serves KEDA's external scaler and gRPC health on one listener.
type Server struct {
	grpc   *grpc.Server
	end    func() // ends the streams
	log    *slog.Logger
	served chan struct{}
	long   atomic.Int64 // streams that last
	most   int64
}

// NewServer returns a server that answers for the scaler and the health. A nil config means plain text. A nil
// logger discards.
func NewServer(s *Scaler, h *health.Health, config *tls.Config, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	ending := make(chan struct{})
	v := &Server{end: sync.OnceFunc(func() { close(ending) }), log: logger.With("component", "grpc"), served: make(chan struct{}), most: maxLong}
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
	defer v.long.Add(-1)
	if v.long.Add(1) > v.most {
		err := status.Errorf(codes.ResourceExhausted, "there are %d streams already: use external instead of external-push", v.most)
		v.tell(info.FullMethod, err)
		return err
	}
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

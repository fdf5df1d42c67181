package scaler

import (
	"context"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/qwatch/qwatch/health"
)

// healthServer is grpc.health.v1.Health: what /readyz, /livez and /startupz say.
type healthServer struct {
	healthpb.UnimplementedHealthServer
	health *health.Health
	ending <-chan struct{}
}

// services are the names that may be asked about, with their probes.
func services() map[string]health.Probe {
	return map[string]health.Probe{
		"": health.Ready,
		pb.ExternalScaler_ServiceDesc.ServiceName: health.Ready,
		"readiness": health.Ready,
		"liveness":  health.Live,
		"startup":   health.Startup,
	}
}

func (h *healthServer) status(p health.Probe) healthpb.HealthCheckResponse_ServingStatus {
	if h.health.Report(p).Status == health.Failed {
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

// Check implements the service.
func (h *healthServer) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	p, ok := services()[r.GetService()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "there is no service %q; ask about readiness, liveness, startup or none", r.GetService())
	}
	return &healthpb.HealthCheckResponse{Status: h.status(p)}, nil
}

// List implements the service.
func (h *healthServer) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	all := map[string]*healthpb.HealthCheckResponse{}
	for name, p := range services() {
		all[name] = &healthpb.HealthCheckResponse{Status: h.status(p)}
	}
	return &healthpb.HealthListResponse{Statuses: all}, nil
}

// Watch implements the service.
func (h *healthServer) Watch(r *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	p, ok := services()[r.GetService()]
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for last := healthpb.HealthCheckResponse_UNKNOWN; ; {
		now := healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		if ok {
			now = h.status(p)
		}
		if now != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.ending:
			if last != healthpb.HealthCheckResponse_NOT_SERVING {
				_ = stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING})
			}
			return nil
		}
	}
}

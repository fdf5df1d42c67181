package scaler

import (
	"context"
	"errors"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// streamEvery is how often a stream looks whether anything has changed.
const streamEvery = time.Second

// external is KEDA's external scaler.
type external struct {
	pb.UnimplementedExternalScalerServer
	*Scaler
	ending <-chan struct{} // closed: streams end
}

// statusOf is an error as gRPC has it.
func statusOf(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return status.Error(codes.Internal, err.Error())
	}
	switch e.Kind {
	case BadRequest:
		return status.Error(codes.InvalidArgument, e.Text)
	case NotConfigured:
		return status.Error(codes.NotFound, e.Text)
	default:
		return status.Error(codes.Unavailable, e.Text)
	}
}

// trigger reads what is asked, about a queue there is.
func (e *external) trigger(r *pb.ScaledObjectRef) (Trigger, error) {
	t, err := ParseTrigger(r.GetScalerMetadata())
	if err != nil {
		return Trigger{}, statusOf(err)
	}
	if err := e.known(t); err != nil {
		return Trigger{}, err
	}
	return t, nil
}

// known refuses a queue that there is not, or after a reload not any more.
func (e *external) known(t Trigger) error {
	if _, ok := e.cfg.Known(t.Account, t.Queue); !ok {
		return statusOf(failed(NotConfigured,
			"metadata account and queueName: queue %s/%s is not in qwatch's configuration", t.Account, t.Queue))
	}
	return nil
}

// IsActive implements the service.
func (e *external) IsActive(ctx context.Context, r *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	t, err := e.trigger(r)
	if err != nil {
		return nil, err
	}
	a, err := e.Ask(ctx, t.Account, t.Queue, t.Strategy)
	if err != nil {
		return nil, statusOf(err)
	}
	return &pb.IsActiveResponse{Result: a.Active(t.Activation)}, nil
}

// GetMetricSpec implements the service. The configuration alone answers.
func (e *external) GetMetricSpec(_ context.Context, r *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	t, err := e.trigger(r)
	if err != nil {
		return nil, err
	}
	return specOf(t), nil
}

func specOf(t Trigger) *pb.GetMetricSpecResponse {
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{
		MetricName: t.MetricName(), TargetSizeFloat: t.Target, TargetSize: max(1, int64(t.Target)),
	}}}
}

// GetMetrics implements the service.
func (e *external) GetMetrics(ctx context.Context, r *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	t, err := e.trigger(r.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	a, err := e.Ask(ctx, t.Account, t.Queue, t.Strategy)
	if err != nil {
		return nil, statusOf(err)
	}
	name := r.GetMetricName()
	if name == "" {
		name = t.MetricName()
	}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{
		MetricName: name, MetricValue: a.Value, MetricValueFloat: float64(a.Value),
	}}}, nil
}

// StreamIsActive implements the service: it tells at once, and whenever it changes. While it cannot be told,
// nothing is; it ends when the queue is taken out of the configuration.
func (e *external) StreamIsActive(r *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	t, err := e.trigger(r)
	if err != nil {
		return err
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for told, last := false, false; ; {
		if err := e.known(t); err != nil {
			return err
		}
		if a, err := e.Ask(stream.Context(), t.Account, t.Queue, t.Strategy); err == nil {
			if active := a.Active(t.Activation); !told || active != last {
				if err := stream.Send(&pb.IsActiveResponse{Result: active}); err != nil {
					return err
				}
				told, last = true, active
			}
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-e.ending:
			return nil // KEDA comes back soon after a stream that ended well
		}
	}
}

// StreamMetricSpec implements the service: the specification never changes while the trigger does not. It ends when
// the queue is taken out of the configuration.
func (e *external) StreamMetricSpec(r *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.GetMetricSpecResponse]) error {
	t, err := e.trigger(r)
	if err != nil {
		return err
	}
	if err := stream.Send(specOf(t)); err != nil {
		return err
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := e.known(t); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-e.ending:
			return nil
		}
	}
}

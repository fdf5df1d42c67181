package scaler

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
)

// serve answers for the queue acct/orders while known, on one connection.
func serve(t *testing.T, known func() bool) (*Server, pb.ExternalScalerClient) {
	t.Helper()
	s := New(Config{
		State: func(account, queue string) (collector.QueueState, bool) {
			q := collector.QueueState{Account: account, Queue: queue}
			q.Count = collector.Count{Known: true, Messages: 7, At: time.Now()}
			return q, true
		},
		Known: func(account, queue string) (Settings, bool) {
			return Settings{}, account == "acct" && queue == "orders" && known()
		},
	})
	v := NewServer(s, health.New(health.Config{}), nil, nil)
	l := bufconn.Listen(1 << 20)
	go func() {
		if err := v.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		v.Shutdown(ctx)
	})
	return v, pb.NewExternalScalerClient(conn)
}

func always() bool { return true }

func ordersRef() *pb.ScaledObjectRef {
	return &pb.ScaledObjectRef{ScalerMetadata: map[string]string{"account": "acct", "queueName": "orders"}}
}

// KEDA has one connection for all its triggers, and two streams for each of external-push.
func TestManyStreamsOfOneConnectionLeaveRoomForCalls(t *testing.T) {
	t.Parallel()
	_, c := serve(t, always)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := range 1200 {
		stream, err := c.StreamIsActive(ctx, ordersRef())
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		if r, err := stream.Recv(); err != nil || !r.GetResult() {
			t.Fatalf("stream %d: %v, %v", i, r, err)
		}
	}
	r, err := c.IsActive(ctx, ordersRef())
	if err != nil || !r.GetResult() {
		t.Errorf("a call beside 1200 streams: %v, %v", r, err)
	}
}

func TestStreamsBeyondTheBoundAreRefused(t *testing.T) {
	t.Parallel()
	v, c := serve(t, always)
	v.most = 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(ctx context.Context) error {
		stream, err := c.StreamIsActive(ctx, ordersRef())
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for range 3 {
		if err := open(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if _, err := c.IsActive(t.Context(), ordersRef()); err != nil {
		t.Errorf("a call beside them: %v", err)
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); v.long.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if err := open(t.Context()); err != nil {
		t.Errorf("after they ended: %v", err)
	}
}

// A reload takes the queue out of the configuration.
func TestStreamsOfAQueueThatIsTakenOutEnd(t *testing.T) {
	t.Parallel()
	var known atomic.Bool
	known.Store(true)
	_, c := serve(t, known.Load)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	active, err := c.StreamIsActive(ctx, ordersRef())
	if err != nil {
		t.Fatal(err)
	}
	spec, err := c.StreamMetricSpec(ctx, ordersRef())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := active.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Recv(); err != nil {
		t.Fatal(err)
	}
	known.Store(false)
	if _, err := active.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("StreamIsActive: %v", err)
	}
	if _, err := spec.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("StreamMetricSpec: %v", err)
	}
}

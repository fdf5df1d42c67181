package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// dial connects to the gRPC listener.
func (r *rig) dial() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient("passthrough:grpc", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.grpc.dial(ctx) }))
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// ref is a trigger's metadata.
func ref(account, name, strategy string, more ...string) *pb.ScaledObjectRef {
	m := map[string]string{"scalerAddress": "grpc", "account": account, "queueName": name, "strategy": strategy}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return &pb.ScaledObjectRef{Name: "o", Namespace: "n", ScalerMetadata: m}
}

// scalingOf asks over HTTP.
func (r *rig) scalingOf(queue, strategy string) (status int, value float64, text string) {
	r.t.Helper()
	status, text = r.get("http://main/api/v1/scaling/" + queue + "?strategy=" + strategy)
	var answer struct{ Value *float64 }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	if answer.Value == nil {
		return status, -1, text
	}
	return status, *answer.Value, text
}

const scaledQueues = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - {name: orders, objective: {timeInQueue: 1m}, scaling: {handlingTime: 12s}}
  - name: other
    connectionString: ${STORAGE}
    queues: [{name: emails}]
  - name: found
    connectionString: ${STORAGE}
    discovery: {include: ["none-*"]}
watch: {interval: 10s}
`

// sendTo puts messages on a queue.
func sendTo(t *testing.T, s *queuetest.Server, name string, n int) {
	t.Helper()
	q := (&rig{t: t, storage: s}).queue(name)
	for range n {
		if _, err := q.Send(t.Context(), "m", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Storage is frozen: the specification answers from the configuration, values are UNAVAILABLE and 503 once they are
// stale, every call takes less than a second, and another account's queue is as it was.
func TestScalingWhileStorageHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scaledQueues, nil, func(s *queuetest.Server) {
			sendTo(t, s, "orders", 20)
			sendTo(t, s, "emails", 3)
		})
		defer r.end()
		conn := r.dial()
		defer conn.Close()
		c := pb.NewExternalScalerClient(conn)
		time.Sleep(5 * time.Second)
		check := func(queue, strategy string, want float64) {
			t.Helper()
			account, name, _ := strings.Cut(queue, "/")
			begin := time.Now()
			spec, err := c.GetMetricSpec(t.Context(), ref(account, name, strategy))
			if err != nil || len(spec.MetricSpecs) != 1 {
				t.Fatalf("%s %s: specification %v, %v", queue, strategy, spec, err)
			}
			target := 5.0
			if strategy == "drain" {
				target = 1
			}
			if s := spec.MetricSpecs[0]; s.MetricName != "qwatch-"+account+"-"+name+"-"+strategy || s.TargetSizeFloat != target {
				t.Errorf("%s %s: specification %v", queue, strategy, s)
			}
			m, err := c.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: ref(account, name, strategy), MetricName: "x"})
			active, errActive := c.IsActive(t.Context(), ref(account, name, strategy))
			code, value, text := r.scalingOf(queue, strategy)
			if took := time.Since(begin); took > time.Second {
				t.Errorf("%s %s: four calls took %v", queue, strategy, took)
			}
			if want < 0 {
				if status.Code(err) != codes.Unavailable || status.Code(errActive) != codes.Unavailable || code != 503 || value >= 0 {
					t.Errorf("%s %s: %v %v; %v %v; %d %s", queue, strategy, m, err, active, errActive, code, text)
				}
				return
			}
			if err != nil || errActive != nil || code != 200 {
				t.Fatalf("%s %s: %v, %v, %d %s", queue, strategy, err, errActive, code, text)
			}
			if v := m.MetricValues[0]; v.MetricName != "x" || v.MetricValueFloat != want || float64(v.MetricValue) != want || value != want {
				t.Errorf("%s %s: %v and %s, want %v", queue, strategy, v, text, want)
			}
			if active.Result != (want > 0) {
				t.Errorf("%s %s: active %v at %v", queue, strategy, active.Result, want)
			}
		}
		all := map[string]float64{"all": 20, "visible": 20, "inflight": 20, "drain": 4}
		for strategy, want := range all {
			check("acct/orders", strategy, want)
		}
		check("other/emails", "all", 3)

		lift := r.storage.Inject(queuetest.Fault{Queue: "orders", Hang: true})
		time.Sleep(15 * time.Second) // not stale yet
		for strategy, want := range all {
			if strategy != "drain" { // half of the objective is over: it asks for more
				check("acct/orders", strategy, want)
			}
		}
		time.Sleep(30 * time.Second)
		for strategy := range all {
			check("acct/orders", strategy, -1)
			check("other/emails", "visible", 3)
		}
		if age := r.value(`qwatch_scaling_signal_age_seconds{account="acct",queue_name="orders"} `); age < 40 || age > 65 {
			t.Errorf("the signal of a frozen queue is %v s old", age)
		}
		r.want("http://main/metrics", 200, `qwatch_scaling_signal_age_seconds{account="other",queue_name="emails"} `)
		lift()
		time.Sleep(15 * time.Second)
		check("acct/orders", "all", 20)
	})
}

func TestScalingRefusesWhatItCannotMeanAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scaledQueues, nil)
		defer r.end()
		conn := r.dial()
		defer conn.Close()
		c := pb.NewExternalScalerClient(conn)
		for name, tt := range map[string]struct {
			ref  *pb.ScaledObjectRef
			code codes.Code
			says string
		}{
			"nothing":                  {&pb.ScaledObjectRef{}, codes.InvalidArgument, "metadata queueName: is missing"},
			"no such strategy":         {ref("acct", "orders", "most"), codes.InvalidArgument, "metadata strategy: there is no strategy"},
			"a length that is none":    {ref("acct", "orders", "all", "queueLength", "x"), codes.InvalidArgument, `metadata queueLength: "x" is not a number`},
			"drain with a length":      {ref("acct", "orders", "drain", "queueLength", "5"), codes.InvalidArgument, "metadata queueLength"},
			"a negative activation":    {ref("acct", "orders", "all", "activationQueueLength", "-1"), codes.InvalidArgument, "metadata activationQueueLength"},
			"a queue nobody knows":     {ref("acct", "invoices", "all"), codes.NotFound, "queue acct/invoices is not in qwatch's configuration"},
			"an account nobody knows":  {ref("shop", "orders", "all"), codes.NotFound, "queue shop/orders is not in qwatch's configuration"},
			"all of a trigger at once": {ref("", "", "most", "queueLength", "0"), codes.InvalidArgument, "metadata account: is missing"},
		} {
			_, err := c.GetMetricSpec(t.Context(), tt.ref)
			_, err2 := c.IsActive(t.Context(), tt.ref)
			_, err3 := c.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: tt.ref})
			for _, err := range []error{err, err2, err3} {
				if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		// What discovery may find has a specification, and no value yet.
		if _, err := c.GetMetricSpec(t.Context(), ref("found", "none-yet", "all")); err != nil {
			t.Error(err)
		}
		if _, err := c.IsActive(t.Context(), ref("found", "none-yet", "all")); status.Code(err) != codes.Unavailable {
			t.Errorf("%v", err)
		}
		r.want("http://main/api/v1/scaling/acct/orders?strategy=most", 400, "there is no strategy")
		r.want("http://main/api/v1/scaling/acct/orders?stratgey=drain", 400, "there is no query parameter")
		r.want("http://main/api/v1/scaling/acct/invoices", 404, "queue acct/invoices is not configured")
		r.want("http://main/api/v1/scaling/found/none-yet", 503, "discovery has not found it")
		// An objective that is not there is not a value either.
		r.want("http://main/api/v1/scaling/other/emails?strategy=drain", 503, "it has no objective")
	})
}

// B02: handlers at work keep their replicas, though nothing is visible.
func TestScalingCountsRunningHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := start(t, strings.Replace(oneQueue, "- name: orders\n", "- name: orders\n        objective: {timeInQueue: 1m}\n", 1)+"watch: {interval: 2s}\n",
			map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(ctx context.Context, _ *processor.Message) error {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return ctx.Err()
			})}, func(s *queuetest.Server) { sendTo(t, s, "orders", 2) })
		defer r.end()
		time.Sleep(30 * time.Second)
		for strategy, want := range map[string]float64{"all": 2, "visible": 0, "inflight": 2, "drain": 1} {
			if code, value, text := r.scalingOf("acct/orders", strategy); code != 200 || value != want {
				t.Errorf("%s: %d %s, want %v", strategy, code, text, want)
			}
		}
		close(release)
		time.Sleep(10 * time.Second)
		for _, strategy := range []string{"all", "visible", "inflight", "drain"} {
			if code, value, text := r.scalingOf("acct/orders", strategy); code != 200 || value != 0 {
				t.Errorf("%s when all is done: %d %s", strategy, code, text)
			}
		}
		// Thirty seconds a message were measured: 60 of them take one replica with two slots 15 minutes.
		r.storage.Inject(queuetest.Fault{Operation: "receive", Status: 503})
		sendTo(t, r.storage, "orders", 60)
		time.Sleep(4 * time.Second)
		if code, value, text := r.scalingOf("acct/orders", "drain"); code != 200 || value != 15 {
			t.Errorf("drain: %d %s, want 15", code, text)
		}
	})
}

// A message sent with a delay is not visible, and a storm of failing ones is hidden: neither holds replicas.
func TestScalingPassesOverHiddenMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - name: orders
        objective: {timeInQueue: 1m}
        consumer:
          handler: {http: {url: "http://handler.invalid/"}}
          concurrency: 50
          breaker: false
          retry: {initial: 10m, max: 10m}
watch: {interval: 2s}
`, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error { return fmt.Errorf("no") })},
			func(s *queuetest.Server) { sendTo(t, s, "orders", 100) })
		defer r.end()
		q, err := r.running.Fleet.Find("acct/orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Send(t.Context(), "later", queue.SendOptions{Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for strategy, want := range map[string]float64{"all": 101, "visible": 0, "inflight": 0, "drain": 0} {
			if code, value, text := r.scalingOf("acct/orders", strategy); code != 200 || value != want {
				t.Errorf("%s: %d %s, want %v", strategy, code, text, want)
			}
		}
	})
}

// The push scaler hears at once, and of every change; while nothing is known it hears nothing.
func TestScalingStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strings.Replace(scaledQueues, "interval: 10s", "interval: 2s", 1), nil)
		conn := r.dial()
		defer conn.Close()
		c := pb.NewExternalScalerClient(conn)
		specs, err := c.StreamMetricSpec(t.Context(), ref("acct", "orders", "drain"))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := specs.Recv(); err != nil || s.MetricSpecs[0].TargetSizeFloat != 1 {
			t.Errorf("%v, %v", s, err)
		}
		stream, err := c.StreamIsActive(t.Context(), ref("acct", "orders", "visible"))
		if err != nil {
			t.Fatal(err)
		}
		var said []bool
		ended := make(chan error, 1)
		go func() {
			for {
				a, err := stream.Recv()
				if err != nil {
					ended <- err
					return
				}
				said = append(said, a.Result)
			}
		}()
		check := func(want ...bool) {
			t.Helper()
			synctest.Wait()
			if fmt.Sprint(said) != fmt.Sprint(want) {
				t.Errorf("told %v, want %v", said, want)
			}
		}
		time.Sleep(5 * time.Second)
		check(false)
		sendTo(t, r.storage, "orders", 1)
		time.Sleep(4 * time.Second)
		check(false, true)
		lift := r.storage.Inject(queuetest.Fault{Queue: "orders", Hang: true})
		time.Sleep(time.Minute)
		check(false, true)
		lift()
		q, err := r.running.Fleet.Find("acct/orders")
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		check(false, true, false)
		bad, err := c.StreamIsActive(t.Context(), ref("acct", "nope", "visible"))
		if err == nil {
			_, err = bad.Recv()
		}
		if status.Code(err) != codes.NotFound {
			t.Errorf("%v", err)
		}
		// The end is an orderly one: KEDA then comes back soon.
		r.end()
		if err := <-ended; err == nil || err.Error() != "EOF" {
			t.Errorf("the stream ended with %v", err)
		}
		if _, err := specs.Recv(); err == nil || err.Error() != "EOF" {
			t.Errorf("the specification's stream ended with %v", err)
		}
	})
}

func TestGRPCHealthSaysWhatTheProbesSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scaledQueues, nil)
		conn := r.dial()
		defer conn.Close()
		c := healthpb.NewHealthClient(conn)
		time.Sleep(time.Second)
		for _, service := range []string{"", "externalscaler.ExternalScaler", "readiness", "liveness", "startup"} {
			if h, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("%q: %v, %v", service, h, err)
			}
		}
		if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "bogus"}); status.Code(err) != codes.NotFound {
			t.Errorf("%v", err)
		}
		if l, err := c.List(t.Context(), &healthpb.HealthListRequest{}); err != nil || len(l.Statuses) != 5 {
			t.Errorf("%v, %v", l, err)
		}
		watch, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := watch.Recv(); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%v, %v", h, err)
		}
		unknown, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "bogus"})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := unknown.Recv(); err != nil || h.Status != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
			t.Errorf("%v, %v", h, err)
		}
		r.end()
		if h, err := watch.Recv(); err != nil || h.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("at the end: %v, %v", h, err)
		}
	})
}

// Before storage has answered, readiness fails and values are unknown: neither is 0.
func TestScalingBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, scaledQueues, nil, func(s *queuetest.Server) { s.Inject(queuetest.Fault{Hang: true}) })
		defer r.end()
		conn := r.dial()
		defer conn.Close()
		time.Sleep(time.Second)
		if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%v, %v", h, err)
		}
		if h, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "liveness"}); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%v, %v", h, err)
		}
		for _, strategy := range []string{"all", "visible", "inflight", "drain"} {
			if code, _, text := r.scalingOf("acct/orders", strategy); code != 503 || !strings.Contains(text, "not been polled yet") {
				t.Errorf("%s: %d %s", strategy, code, text)
			}
		}
	})
}

// A queue that a scaler asks about is polled at watch.interval, however idle it is.
func TestScaledQueuesKeepTheirInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, strings.Replace(scaledQueues, "{interval: 10s}", "{interval: 10s, idleInterval: 5m}", 1), nil)
		defer r.end()
		for range 60 {
			time.Sleep(time.Minute)
			if code, value, text := r.scalingOf("acct/orders", "all"); code != 200 || value != 0 {
				t.Fatalf("%d %s", code, text)
			}
		}
		r.want("http://main/metrics", 200, `queue_poll_interval_seconds{account="acct",queue_kind="main",queue_name="orders"} 10`)
		r.want("http://main/metrics", 200, `queue_poll_interval_seconds{account="other",queue_kind="main",queue_name="emails"} 300`)
		// Nobody asks any more.
		time.Sleep(20 * time.Minute)
		r.want("http://main/metrics", 200, `queue_poll_interval_seconds{account="acct",queue_kind="main",queue_name="orders"} 300`)
		if _, text := r.get("http://main/metrics"); strings.Contains(text, "qwatch_scaling_signal_age_seconds{") {
			t.Error("the signal still has an age")
		}
	})
}

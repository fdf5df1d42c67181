package processor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

type tracerKey struct{}

// tracer notes what it is told.
type tracer struct {
	mu      sync.Mutex
	started int
	endings []processor.Ending
}

func (tr *tracer) Start(ctx context.Context, messages []*processor.Message) (context.Context, func(processor.Ending)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.started += len(messages)
	return context.WithValue(ctx, tracerKey{}, messages[0].ID), func(e processor.Ending) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.endings = append(tr.endings, e)
	}
}

func TestATracerIsToldHowEachMessageEnded(t *testing.T) {
	stop := func(ctx context.Context, _ *processor.Message) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, tt := range map[string]struct {
		handle func(context.Context, *processor.Message) error
		cfg    processor.Config
		fault  *queuetest.Fault
		want   processor.Ending
	}{
		"it succeeds":            {handle: succeed, want: processor.Ending{Outcome: "completed"}},
		"it is retried":          {handle: fail, want: processor.Ending{Outcome: "abandoned", ErrorType: "handler", Reason: "the widget is broken"}},
		"it fails for good":      {handle: func(context.Context, *processor.Message) error { return processor.Permanent(errBroken) }, want: processor.Ending{Outcome: "dead_lettered", ErrorType: "permanent", Reason: "the widget is broken"}},
		"there is nothing to do": {handle: func(context.Context, *processor.Message) error { return processor.Discard(errBroken) }, want: processor.Ending{Outcome: "completed"}},
		"it cannot be read":      {handle: func(context.Context, *processor.Message) error { return processor.Unreadable(errBroken) }, want: processor.Ending{Outcome: "dead_lettered", ErrorType: "deserialization", Reason: "the widget is broken"}},
		"nothing is routed":      {handle: func(context.Context, *processor.Message) error { return processor.Unroutable(errBroken) }, want: processor.Ending{Outcome: "dead_lettered", ErrorType: "unroutable", Reason: "the widget is broken"}},
		"it panics":              {handle: func(context.Context, *processor.Message) error { panic("oh") }, want: processor.Ending{Outcome: "abandoned", ErrorType: "panic", Reason: "handler panicked: oh"}},
		"it was delivered too often": {
			handle: succeed, cfg: processor.Config{MaxAge: time.Second},
			want: processor.Ending{Outcome: "dead_lettered", ErrorType: "max_age", Reason: "waited 5s, 1s allowed"},
		},
		"its lease is lost": {
			handle: succeed, fault: &queuetest.Fault{Operation: "delete", Status: 404, Code: "MessageNotFound"},
			want: processor.Ending{Outcome: "lease_lost", ErrorType: "lease_lost", Reason: "another receiver may have the message"},
		},
		"shutdown cuts it off": {handle: stop, cfg: processor.Config{DrainTimeout: time.Second}, want: processor.Ending{Outcome: "interrupted", ErrorType: "interrupted", Reason: "the processor is shutting down"}},
		"it outlives shutdown": {
			handle: func(context.Context, *processor.Message) error { time.Sleep(time.Hour); return nil }, cfg: processor.Config{DrainTimeout: time.Second},
			want: processor.Ending{Outcome: "interrupted", ErrorType: "interrupted", Reason: "the handler outlived shutdown"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				tr := &tracer{}
				tt.cfg.Tracer = tr
				r.send("x")
				time.Sleep(5 * time.Second)
				if tt.fault != nil {
					r.inject(*tt.fault)
				}
				run := r.start(tt.cfg, r.handle(func(ctx context.Context, m *processor.Message) error {
					if ctx.Value(tracerKey{}) != m.ID {
						t.Error("the handler's context is not made from the tracer's")
					}
					return tt.handle(ctx, m)
				}))
				time.Sleep(time.Second)
				run.stop()
				<-run.done
				if diff := cmp.Diff([]processor.Ending{tt.want}, tr.endings); diff != "" {
					t.Error(diff)
				}
				time.Sleep(2 * time.Hour)
				if tr.started != 1 || len(tr.endings) != 1 {
					t.Errorf("%d started, %d ended", tr.started, len(tr.endings))
				}
			})
		})
	}
}

func TestWhatIsWatchedOfAMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("slow", "by hand")
		var mu sync.Mutex
		var got []string
		r.runFor(10*time.Second, processor.Config{Concurrency: 2, VisibilityTimeout: 4 * time.Second}, processor.HandlerFunc(func(ctx context.Context, m *processor.Message) error {
			m.Watch(func(s queue.Settlement) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%s %s", m.Body, s))
			})
			if string(m.Body) == "slow" {
				time.Sleep(5 * time.Second)
				return nil
			}
			return errors.Join(m.DeadLetter(ctx, "no"))
		}))
		want := []string{"by hand dead_lettered", "slow unsettled", "slow unsettled", "slow completed"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// tracerFunc is a Tracer of one function.
type tracerFunc func(context.Context) (context.Context, func(processor.Ending))

func (f tracerFunc) Start(ctx context.Context, _ []*processor.Message) (context.Context, func(processor.Ending)) {
	return f(ctx)
}

func TestATracerInTroubleHarmsNoMessage(t *testing.T) {
	panics := func(processor.Ending) { panic("oh") }
	for name, tt := range map[string]struct {
		tracer tracerFunc
		logged int
	}{
		"Start panics":     {func(context.Context) (context.Context, func(processor.Ending)) { panic("oh") }, 1},
		"the end panics":   {func(ctx context.Context) (context.Context, func(processor.Ending)) { return ctx, panics }, 1},
		"no context":       {func(context.Context) (context.Context, func(processor.Ending)) { return nil, func(processor.Ending) {} }, 0},
		"nothing to end":   {func(ctx context.Context) (context.Context, func(processor.Ending)) { return ctx, nil }, 0},
		"nothing whatever": {func(context.Context) (context.Context, func(processor.Ending)) { return nil, nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.runFor(time.Second, processor.Config{Tracer: tt.tracer}, r.handle(succeed))
				r.left(0, 0)
				r.logged("tracer panicked", tt.logged)
			})
		})
		t.Run(name+", of a batch", func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.send("m")
				r.batchFor(time.Second, processor.BatchConfig{Config: processor.Config{Tracer: tt.tracer}},
					func(context.Context, []*processor.Message) error { return nil })
				r.left(0, 0)
				r.logged("tracer panicked", tt.logged)
			})
		})
	}
}

func TestATracerThatEndsTheGoroutineHarmsNoMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.send("m")
		tr := tracerFunc(func(context.Context) (context.Context, func(processor.Ending)) { runtime.Goexit(); panic(0) })
		r.runFor(time.Second, processor.Config{Tracer: tr}, r.handle(succeed))
		r.left(0, 0)
	})
}

package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/internal/config"
	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/processor"
)

// farewell is how long the counters of a consumer or an account that is gone are still exported, so that a scrape
// sees the last that they counted.
const farewell = 5 * time.Minute

// consumer is one queue's consumer under one set of settings, from its making to the end of its drain. One
// whose settings changed is drained, and the one that takes its place receives nothing before that is over: no
// more handlers run than the file allows.
type consumer struct {
	*processor.Processor

	name  string // account/queue
	close func() // releases the handler
	loop  *health.Loop
	stop  context.CancelFunc // begins the drain; nil before start

	before atomic.Pointer[consumer] // the one whose place it takes, as long as that counts; nil: none
	may    chan struct{}            // closed when it may receive
	ended  chan struct{}            // closed when it and all before it have ended
	gone   chan struct{}            // closed when it no longer counts
}

// consumer returns the consumer of a queue: that of the state before if it stays, else a new one, at rest.
func (s *service) consumer(q FleetQueue, before *state) (*consumer, error) {
	var old *consumer
	if before != nil {
		old = before.byName[q.String()]
	}
	if old != nil && old.Queue() == q.Queue {
		return old, nil
	}
	if old == nil { // or one that is still on its way out
		old = s.leaving[q.String()]
	}
	c := &consumer{name: q.String(), close: func() {}, may: s.ready, ended: make(chan struct{}), gone: make(chan struct{})}
	if old != nil {
		c.before.Store(old)
		c.may = make(chan struct{})
	}
	handler := s.o.Handlers[c.name]
	if handler == nil {
		var err error
		if handler, err = forwarder(q.Config.Consumer.Handler); err != nil {
			return nil, err
		}
		if h, ok := handler.(*forward.HTTPHandler); ok {
			c.close = h.Close
		}
	}
	cfg := processorConfig(q.Config.Consumer)
	if o := q.Config.Objective; o != nil {
		cfg.Objective = o.TimeInQueue
	}
	if err := recordKeeping(&cfg, q, q.Config.Consumer, s.log); err != nil {
		c.close()
		return nil, err
	}
	s.measure(&cfg, q)
	cfg.Ready, cfg.Logger, cfg.Metrics = c.may, s.log, s.consumers
	cfg.Beat = func() { c.loop.Beat() }
	if s.follow != nil {
		cfg.Tracer = s.follow
	}
	var err error
	if c.Processor, err = processor.New(q.Queue, handler, cfg); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// forget releases a consumer that was never started.
func (c *consumer) forget() {
	c.close()
	c.Close()
}

// start runs the consumer in g until ctx ends, or until stop.
func (c *consumer) start(ctx context.Context, g *errgroup.Group, s *service) {
	running, stop := context.WithCancel(ctx)
	c.stop = func() {
		c.loop.Stop() // it ends as it should
		stop()
	}
	if old := c.before.Load(); old != nil {
		g.Go(func() error {
			<-old.ended
			c.Inherit(old.Processor)
			close(c.may)
			<-old.gone
			c.before.Store(nil)
			return nil
		})
	}
	g.Go(func() error {
		defer close(c.gone)
		defer stop()
		err := c.Run(running)
		if old := c.before.Load(); old != nil {
			<-old.ended
		}
		c.close()
		close(c.ended)
		if ctx.Err() != nil {
			return err // the process ends, and its last exposition has everything
		}
		if err != nil {
			s.log.Error("a consumer that was stopped has not ended well", "error", err)
		}
		if !until(ctx, farewell) {
			return nil
		}
		c.Close()
		return nil
	})
}

// until waits; it is false when ctx ends before.
func until(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tell lets the watching know what the queue's consumer in this process does. What those before it still
// hold, retry delays too, counts as well.
func (c *consumer) tell(t *collector.Target) {
	sum := func(of func(processor.Status) int) func() int {
		return func() (n int) {
			for at := c; at != nil; at = at.before.Load() {
				n += of(at.Status())
			}
			return n
		}
	}
	t.Held = sum(func(p processor.Status) int { return p.Held })
	t.Busy = sum(func(p processor.Status) int { return p.Handlers })
	t.Paused = func() bool { return c.Status().State == processor.StatePaused }
}

// forwarder makes the handler that the file describes.
func forwarder(h config.Handler) (processor.Handler, error) {
	if h.HTTP != nil {
		return forward.HTTP(forward.HTTPConfig{
			URL: h.HTTP.URL, Timeout: h.HTTP.Timeout, CloudEvents: forward.CloudEvents(h.HTTP.CloudEvents),
		})
	}
	if h.Exec != nil {
		return forward.Exec(forward.ExecConfig{Command: h.Exec.Command, Dir: h.Exec.Dir, Timeout: h.Exec.Timeout})
	}
	return nil, errors.New("the consumer has no handler")
}

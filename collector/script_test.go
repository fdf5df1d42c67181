package collector_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// world is a queue that somebody sends to and consumes from, in fake time, while a collector watches.
type world struct {
	*storage
	t      *testing.T
	start  time.Time
	q      *queue.Queue // watched
	target collector.Target
	cfg    collector.Config
	c      atomic.Pointer[collector.Collector]
	count  atomic.Int64 // what the service says in place of the true count; -1: the truth
	ctx    context.Context
	wg     sync.WaitGroup
	stop   context.CancelFunc // the present collector
	done   chan error

	phases []phase // of the main queue, or the poison queue's
	kind   collector.Kind
}

// seed decides when queues are polled. Any is good; one makes a failure come again.
var seed = flag.Uint64("seed", 1, "decides when queues are polled")

// phase is a time in which the status was one.
type phase struct {
	status string
	rule   collector.Rule // at its end
	from   time.Duration  // since the start
}

func (p phase) String() string { return fmt.Sprintf("%s (%s) from %v", p.status, p.rule, p.from) }

// Do makes the exchange and, when the script says so, has the count lag.
func (w *world) Do(r *http.Request) (*http.Response, error) {
	resp, err := w.Server.Do(r)
	if n := w.count.Load(); err == nil && n >= 0 && resp.Header.Get("x-ms-approximate-messages-count") != "" && r.URL.Path == "/"+queuetest.AccountName+"/orders" {
		resp.Header.Set("x-ms-approximate-messages-count", strconv.FormatInt(n, 10))
	}
	return resp, err
}

// play runs a script and returns the phases. It looks every five seconds.
func play(t *testing.T, kind collector.Kind, length time.Duration, before, script func(*world)) (phases []phase) {
	t.Helper()
	playTo(t, kind, length, before, script, func(w *world) { phases = w.phases })
	return phases
}

// playTo runs a script to its end. before, if any, happens before the watch begins, and end at the end of it.
func playTo(t *testing.T, kind collector.Kind, length time.Duration, before, script, end func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{storage: newStorage(t, queuetest.Options{}), t: t, start: time.Now(), ctx: ctx, kind: kind}
		w.count.Store(-1)
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", Endpoint: w.Endpoint(queuetest.AccountName), AccountKey: queuetest.AccountKey, Transport: w,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.q = create(t, acct, "orders")
		w.target.Queue = w.q
		if before != nil {
			before(w)
			w.start = time.Now()
		}
		w.wg.Go(func() { script(w) })
		synctest.Wait() // what there is before the first poll
		w.watch()
		synctest.Wait()
		for time.Since(w.start) < length {
			w.look()
			time.Sleep(5 * time.Second)
		}
		end(w)
		cancel()
		w.wg.Wait()
		w.unwatch()
	})
}

// watch starts a collector, which knows nothing.
func (w *world) watch() {
	w.cfg.Targets = []collector.Target{w.target}
	c, err := collector.NewSeeded(w.cfg, *seed)
	if err != nil {
		w.t.Error(err)
		return
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.c.Store(c)
	w.done = make(chan error)
	go func() { w.done <- c.Run(ctx) }()
}

func (w *world) unwatch() {
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Error(err)
	}
}

func (w *world) look() {
	for _, s := range w.c.Load().Queue("acct", "orders") {
		if s.Kind != w.kind {
			continue
		}
		name := s.Status.String()
		if w.kind == collector.KindPoison {
			name = s.Poison.String()
		}
		e := s.Evidence()
		if n := len(w.phases); n > 0 && w.phases[n-1].status == name {
			w.phases[n-1].rule = e.Rule
		} else {
			w.phases = append(w.phases, phase{name, e.Rule, time.Since(w.start)})
		}
	}
}

// until waits for a time of the script; it is false when the script has ended before.
func (w *world) until(at time.Duration) bool {
	select {
	case <-time.After(time.Until(w.start.Add(at))):
		return true
	case <-w.ctx.Done():
		return false
	}
}

// pause waits for a while.
func (w *world) pause(d time.Duration) bool { return w.until(time.Since(w.start) + d) }

// go1 runs a part of the script beside the rest.
func (w *world) beside(f func()) { w.wg.Go(f) }

// put sends n messages at once.
func (w *world) put(n int, o queue.SendOptions) {
	for range n {
		if _, err := w.q.SendText(context.Background(), "x", o); err != nil {
			w.t.Error(err)
		}
	}
}

// produce sends n messages every so often, until the given time.
func (w *world) produce(n int, every, until time.Duration) {
	w.beside(func() {
		for time.Since(w.start) < until {
			w.put(n, queue.SendOptions{})
			if !w.pause(every) {
				return
			}
		}
	})
}

// take receives up to n messages.
func (w *world) take(n int, lease time.Duration) []*queue.Message {
	var all []*queue.Message
	for n > 0 {
		ms, err := w.q.Receive(context.Background(), min(n, 32), lease)
		if err != nil {
			w.t.Error(err)
			return all
		}
		if len(ms) == 0 {
			return all
		}
		all = append(all, ms...)
		n -= len(ms)
	}
	return all
}

func (w *world) complete(ms []*queue.Message) {
	for _, m := range ms {
		if err := m.Complete(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

// consume takes and completes n messages every so often, from one time to another. Handling takes as long as work.
func (w *world) consume(n int, every, work, from, until time.Duration) {
	w.beside(func() {
		if !w.until(from) {
			return
		}
		for time.Since(w.start) < until {
			ms := w.take(n, work+time.Minute)
			if work > 0 && len(ms) > 0 && !w.pause(work) {
				return
			}
			w.complete(ms)
			if !w.pause(every) {
				return
			}
		}
	})
}

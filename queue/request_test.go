package queue_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// observed is a fixture whose requests are collected.
type observed struct {
	*fixture
	mu  sync.Mutex
	got []queue.Request
}

func (o *observed) take() []queue.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

func observing(t *testing.T, run func(o *observed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		o := &observed{fixture: &fixture{T: t, srv: srv, ctx: t.Context()}}
		a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv, Observe: func(r queue.Request) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.got = append(o.got, r)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if o.q, err = a.Queue("orders", queue.Config{}); err != nil {
			t.Fatal(err)
		}
		o.acct = a
		if err := o.q.Create(o.ctx); err != nil {
			t.Fatal(err)
		}
		run(o)
	})
}

func TestEveryOperationIsObservedByItsName(t *testing.T) {
	observing(t, func(o *observed) {
		o.send("x", queue.SendOptions{})
		if _, err := o.q.Peek(o.ctx, 1); err != nil {
			o.Fatal(err)
		}
		m := o.one(time.Minute)
		if err := errors.Join(m.Renew(o.ctx, time.Minute), m.Complete(o.ctx), o.q.Clear(o.ctx)); err != nil {
			o.Fatal(err)
		}
		o.count()
		if err := o.q.SetMetadata(o.ctx, map[string]string{"team": "mail"}); err != nil {
			o.Fatal(err)
		}
		for _, err := range o.acct.Queues(o.ctx, queue.ListOptions{}) {
			if err != nil {
				o.Fatal(err)
			}
		}
		if err := o.q.Delete(o.ctx); err != nil {
			o.Fatal(err)
		}
		want := []queue.Request{}
		for _, op := range []queue.Operation{queue.OpCreate, queue.OpSend, queue.OpPeek, queue.OpReceive, queue.OpUpdate, queue.OpDelete, queue.OpClear, queue.OpProperties, queue.OpSetMetadata, queue.OpList, queue.OpDeleteQueue} {
			r := queue.Request{Account: "acct", Queue: "orders", Operation: op, Result: queue.ResultOK}
			if op == queue.OpList {
				r.Queue = ""
			}
			want = append(want, r)
		}
		got := o.take()
		if diff := gocmp.Diff(want, got); diff != "" {
			o.Errorf("-want +got:\n%s", diff)
		}
		var ops []queue.Operation
		for _, r := range want {
			ops = append(ops, r.Operation)
		}
		all := slices.DeleteFunc(queue.Operations(), func(op queue.Operation) bool { return op == queue.OpOther })
		slices.Sort(ops)
		slices.Sort(all)
		if !slices.Equal(ops, all) {
			o.Errorf("operations never seen: have %v, want %v", ops, all)
		}
	})
}

func TestEveryTryIsObservedWithItsResultAndDuration(t *testing.T) {
	for name, c := range map[string]struct {
		faults []queuetest.Fault
		want   []queue.Result
		took   []time.Duration
	}{
		"at once":            {nil, []queue.Result{queue.ResultOK}, []time.Duration{0}},
		"slowly":             {[]queuetest.Fault{{Delay: 3 * time.Second}}, []queue.Result{queue.ResultOK}, []time.Duration{3 * time.Second}},
		"throttled twice":    {[]queuetest.Fault{{Status: 503, Times: 2}}, []queue.Result{queue.ResultThrottled, queue.ResultThrottled, queue.ResultOK}, []time.Duration{0, 0, 0}},
		"a server error":     {[]queuetest.Fault{{Status: 500, Times: 1}}, []queue.Result{queue.ResultServer, queue.ResultOK}, []time.Duration{0, 0}},
		"one that hangs":     {[]queuetest.Fault{{Hang: true, Times: 1}}, []queue.Result{queue.ResultTimeout, queue.ResultOK}, []time.Duration{10 * time.Second, 0}},
		"refused":            {[]queuetest.Fault{{Refuse: true, Times: 1}}, []queue.Result{queue.ResultNetwork, queue.ResultOK}, []time.Duration{0, 0}},
		"the answer is lost": {[]queuetest.Fault{{DropResponse: true, Times: 1, Delay: time.Second}}, []queue.Result{queue.ResultNetwork, queue.ResultOK}, []time.Duration{time.Second, 0}},
		"it is cut":          {[]queuetest.Fault{{Truncate: true, Times: 1}}, []queue.Result{queue.ResultNetwork, queue.ResultOK}, []time.Duration{0, 0}},
		"to the end":         {[]queuetest.Fault{{Status: 500}}, []queue.Result{queue.ResultServer, queue.ResultServer, queue.ResultServer, queue.ResultServer}, []time.Duration{0, 0, 0, 0}},
		"missing":            {[]queuetest.Fault{{Status: 404, Code: "QueueNotFound"}}, []queue.Result{queue.ResultNotFound}, []time.Duration{0}},
		"forbidden":          {[]queuetest.Fault{{Status: 403, Code: "X"}}, []queue.Result{queue.ResultAuth}, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			observing(t, func(o *observed) {
				o.send("x", queue.SendOptions{})
				o.take()
				for _, f := range c.faults {
					o.inject(queue.OpPeek, f)
				}
				_, _ = o.q.Peek(o.ctx, 1)
				var results []queue.Result
				var took []time.Duration
				for _, r := range o.take() {
					results, took = append(results, r.Result), append(took, r.Duration)
				}
				if !slices.Equal(results, c.want) || !slices.Equal(took, c.took) {
					t.Errorf("got %v %v, want %v %v", results, took, c.want, c.took)
				}
			})
		})
	}
}

// The pauses between tries grow from 0.2 s and follow Retry-After up to 5 s; a longer one ends the call.
func TestPausesBetweenTries(t *testing.T) {
	for name, c := range map[string]struct {
		fault queuetest.Fault
		least time.Duration
		most  time.Duration
		tries int
	}{
		"growing":             {queuetest.Fault{Status: 500}, 2080 * time.Millisecond, 3120 * time.Millisecond, 4},
		"as the service says": {queuetest.Busy(2 * time.Second), 6 * time.Second, 6 * time.Second, 4},
		"longer than we wait": {queuetest.Busy(6 * time.Second), 0, 0, 1},
		"within the deadline": {queuetest.Fault{Hang: true}, 30 * time.Second, 30 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			observing(t, func(o *observed) {
				o.take()
				o.inject(queue.OpPeek, c.fault)
				begin := time.Now()
				_, err := o.q.Peek(o.ctx, 1)
				if took := time.Since(begin); err == nil || took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v; %v", took, c.least, c.most, err)
				}
				if got := len(o.take()); got != c.tries {
					t.Errorf("%d tries, want %d", got, c.tries)
				}
			})
		})
	}
}

func TestCallersDeadlineAndCancellationEndACall(t *testing.T) {
	observing(t, func(o *observed) {
		o.inject(queue.OpPeek, queuetest.Fault{Hang: true, Times: 1})
		ctx, cancel := context.WithTimeout(o.ctx, 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := o.q.Peek(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 150*time.Millisecond {
			o.Errorf("deadline: %v after %v", err, time.Since(begin))
		}
		o.inject(queue.OpPeek, queuetest.Fault{Status: 500})
		ctx, cancel = context.WithCancel(o.ctx)
		time.AfterFunc(50*time.Millisecond, cancel)
		begin = time.Now()
		if _, err := o.q.Peek(ctx, 1); !errors.Is(err, context.Canceled) || time.Since(begin) > 60*time.Millisecond {
			o.Errorf("cancellation: %v after %v", err, time.Since(begin))
		}
	})
}

// What the service said tells more than that there was no time left to ask again.
func TestACallOutOfTimeEndsWithTheLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		fault    queuetest.Fault
		deadline time.Duration
		gate     time.Duration // before the second try
		took     time.Duration
		tries    int
		want     queue.Result
	}{
		"between tries":          {queuetest.Busy(4 * time.Second), 10 * time.Second, 0, 8 * time.Second, 3, queue.ResultThrottled},
		"before the second":      {queuetest.Busy(4 * time.Second), 4 * time.Second, 0, 0, 1, queue.ResultThrottled},
		"a failing server":       {queuetest.Fault{Status: 500}, 100 * time.Millisecond, 0, 0, 1, queue.ResultServer},
		"a refused connection":   {queuetest.Fault{Refuse: true}, 100 * time.Millisecond, 0, 0, 1, queue.ResultNetwork},
		"while it waits to pass": {queuetest.Busy(4 * time.Second), 10 * time.Second, time.Minute, 10 * time.Second, 1, queue.ResultThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			observing(t, func(o *observed) {
				o.take()
				o.inject(queue.OpPeek, c.fault)
				passes := 0
				gated := queue.WithGate(o.ctx, func(ctx context.Context) error {
					if passes++; passes == 1 {
						return nil
					}
					select {
					case <-time.After(c.gate):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				ctx, cancel := context.WithTimeout(gated, c.deadline)
				defer cancel()
				begin := time.Now()
				_, err := o.q.Peek(ctx, 1)
				if got := queue.Classify(err); got != c.want {
					t.Errorf("classified %s, want %s: %v", got, c.want, err)
				}
				if took, tries := time.Since(begin), len(o.take()); took != c.took || tries != c.tries {
					t.Errorf("%d tries in %v, want %d in %v", tries, took, c.tries, c.took)
				}
			})
		})
	}
}

func TestOddRequestsAreObservedAsOther(t *testing.T) {
	if got := queue.Operations(); len(got) != 12 || got[11] != queue.OpOther {
		t.Errorf("operations %v", got)
	}
	if got := queue.Results(); len(got) != 9 || slices.Index(got, queue.ResultOther) < 0 {
		t.Errorf("results %v", got)
	}
	seen := slices.Compact(slices.SortedFunc(slices.Values(queue.Results()), func(a, b queue.Result) int { return cmp.Compare(a, b) }))
	if len(seen) != 9 {
		t.Errorf("results repeat: %v", seen)
	}
}

// A request says who sent it and nothing of the secrets.
func TestRequestsIdentifyThemselves(t *testing.T) {
	var agent string
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", AccountKey: key, Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		agent = r.Header.Get("User-Agent")
		return nil, errors.New("enough")
	})})
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = q.Receive(t.Context(), 1, 0)
	if !strings.HasPrefix(agent, "qwatch ") {
		t.Errorf("user agent %q", agent)
	}
}

// A batch that has arrived is not thrown away because the caller's time was up in that instant:
// its messages are hidden and their delivery is counted.
func TestAnswerThatArrivesWithTheDeadlineCounts(t *testing.T) {
	observing(t, func(o *observed) {
		o.send("x", queue.SendOptions{})
		ctx, cancel := context.WithCancel(o.ctx)
		a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(o.srv.ConnectionString()), Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			defer cancel()
			return o.srv.Do(r)
		})})
		if err != nil {
			o.Fatal(err)
		}
		q, err := a.Queue("orders", queue.Config{})
		if err != nil {
			o.Fatal(err)
		}
		if got, err := q.Receive(ctx, 1, 0); err != nil || len(got) != 1 {
			o.Errorf("got %d messages, %v", len(got), err)
		}
	})
}

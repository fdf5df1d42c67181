package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// receives makes notes of when the queue is asked, in seconds since the start.
func receives(t *testing.T, cfg queue.Config, run func(f *fixture)) []float64 {
	t.Helper()
	var at []float64
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv,
			Observe: func(r queue.Request) {
				if r.Operation == queue.OpReceive {
					at = append(at, time.Since(start).Seconds())
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		q := created(t, acct, cfg)
		run(&fixture{T: t, srv: srv, acct: acct, q: q, ctx: t.Context()})
	})
	return at
}

// Q12: an empty queue is asked after 1 s, doubling to 30 s, and at once again after a message.
func TestAllBacksOffOnAnEmptyQueue(t *testing.T) {
	at := receives(t, queue.Config{}, func(f *fixture) {
		ctx, cancel := context.WithTimeout(f.ctx, 130*time.Second)
		defer cancel()
		go func() {
			time.Sleep(100 * time.Second)
			f.send("x", queue.SendOptions{})
		}()
		for m := range f.q.All(ctx, queue.AllOptions{}) {
			if err := m.Complete(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if d := cmp.Diff([]float64{0, 1, 3, 7, 15, 31, 61, 91, 121, 121, 122, 124, 128}, at); d != "" {
		t.Error(d)
	}
}

// Q12: a failed receive is told, and backed off the same way; a success resets the wait.
func TestAllBacksOffOnFailure(t *testing.T) {
	var told []string
	at := receives(t, queue.Config{}, func(f *fixture) {
		f.send("x", queue.SendOptions{})
		remove := f.srv.Inject(queuetest.Fault{Operation: queuetest.OpReceive, Status: 500})
		time.AfterFunc(70*time.Second, remove)
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		o := queue.AllOptions{OnReceiveError: func(err error) { told = append(told, err.Error()) }}
		for range f.q.All(ctx, o) {
			cancel()
		}
	})
	if d := cmp.Diff([]float64{0, 1, 3, 7, 15, 31, 61, 91}, at); d != "" {
		t.Error(d)
	}
	if len(told) != 7 || !strings.HasPrefix(told[0], "receive from acct/orders: 500") {
		t.Errorf("told %q", told)
	}
}

func TestAllLogsAnOutageOnceWhenNobodyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv,
			Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		q := created(t, acct, queue.Config{})
		time.AfterFunc(time.Minute, srv.Inject(queuetest.Fault{Operation: queuetest.OpReceive, Status: 500}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for range q.All(ctx, queue.AllOptions{}) {
			t.Error("a message on an empty queue")
		}
		for line, want := range map[string]int{"receive failed": 1, "receiving again": 1} {
			if n := strings.Count(logged.String(), line); n != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", line, n, want, logged.String())
			}
		}
	})
}

// B80: by default nothing waits; with a batch, what was not handed out goes back at once, however the loop ends.
func TestAllReleasesWhatItDidNotHandOut(t *testing.T) {
	ends := map[string]func(ctx context.Context, q *queue.Queue, o queue.AllOptions){
		"break": func(ctx context.Context, q *queue.Queue, o queue.AllOptions) {
			for range q.All(ctx, o) {
				break
			}
		},
		"the context": func(ctx context.Context, q *queue.Queue, o queue.AllOptions) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			for range q.All(ctx, o) {
				cancel()
			}
		},
		"a panic": func(ctx context.Context, q *queue.Queue, o queue.AllOptions) {
			defer func() { _ = recover() }()
			for range q.All(ctx, o) {
				panic("loop")
			}
		},
	}
	for name, end := range ends {
		for batch, hidden := range map[int]int{0: 1, 4: 1} {
			t.Run(name, func(t *testing.T) {
				each(t, queue.Config{}, func(f *fixture) {
					for range 6 {
						f.send("x", queue.SendOptions{})
					}
					end(f.ctx, f.q, queue.AllOptions{Batch: batch})
					var counts []int
					visible := 0
					for _, m := range f.srv.Messages(queuetest.AccountName, "orders") {
						counts = append(counts, m.DequeueCount)
						if m.Visible {
							visible++
						}
					}
					slices.Sort(counts)
					want := []int{0, 0, 0, 0, 0, 1}
					if batch == 4 {
						want = []int{0, 0, 1, 1, 1, 1}
					}
					if d := cmp.Diff(want, counts); d != "" || visible != 6-hidden {
						t.Errorf("%d visible, deliveries %v", visible, counts)
					}
				})
			})
		}
	}
}

// B80: a message that waited in a batch is handed out with half a lease, or not at all.
func TestAllNeverHandsOutALapsedMessage(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for range 3 {
			f.send("x", queue.SendOptions{})
		}
		var mine []string
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		for m := range f.q.All(ctx, queue.AllOptions{Batch: 3, VisibilityTimeout: 30 * time.Second}) {
			mine = append(mine, m.ID)
			if left := time.Until(m.LeaseExpires()); left < 15*time.Second {
				t.Errorf("handed out with %v of its lease left", left)
			}
			switch len(mine) {
			case 1: // the second one's lease is low by then
				time.Sleep(20 * time.Second)
			case 2: // the third one's has lapsed, and somebody takes it
				time.Sleep(20 * time.Second)
				theirs, err := f.q.Receive(f.ctx, 32, time.Hour)
				if err != nil || len(theirs) != 1 {
					t.Fatalf("others received %d messages, error %v", len(theirs), err)
				}
				time.AfterFunc(time.Minute, cancel)
			default:
				t.Error("a message that belongs to another was handed out")
			}
			if err := m.Complete(ctx); err != nil {
				t.Error(err)
			}
		}
		if len(mine) != 2 {
			t.Errorf("handed out %d messages, want 2", len(mine))
		}
	})
}

// A receive that is cut off hides what it was about to bring.
func TestAllLetsAReceiveUnderWayFinish(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.send("x", queue.SendOptions{})
		f.inject(queue.OpReceive, queuetest.Fault{Delay: time.Second})
		ctx, cancel := context.WithTimeout(f.ctx, 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		for range f.q.All(ctx, queue.AllOptions{}) {
			t.Error("handed out after the context ended")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("ended after %v, want 1s", took)
		}
		if m := f.srv.Messages(queuetest.AccountName, "orders"); len(m) != 1 || !m[0].Visible {
			t.Errorf("left behind: %+v", m)
		}
	})
	each(t, queue.Config{}, func(f *fixture) {
		f.inject(queue.OpReceive, queuetest.Fault{Hang: true})
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		start := time.Now()
		for range f.q.All(ctx, queue.AllOptions{}) {
			t.Error("a message came")
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("a hanging receive held the loop for %v, want 3s", took)
		}
	})
}

func TestAllRefusesWhatTheServiceWould(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for name, o := range map[string]queue.AllOptions{
			"33 messages asked for at once": {Batch: 33},
			"visibility timeout 1.5s":       {VisibilityTimeout: 1500 * time.Millisecond},
			"is negative":                   {BackoffMin: -time.Second},
		} {
			var told []error
			o.OnReceiveError = func(err error) { told = append(told, err) }
			for range f.q.All(f.ctx, o) {
				t.Error("a message came")
			}
			if len(told) != 1 || !strings.Contains(told[0].Error(), name) {
				t.Errorf("told %v, want %q", told, name)
			}
			o.OnReceiveError = nil
			func() {
				defer func() {
					if text := fmt.Sprint(recover()); !strings.Contains(text, name) {
						t.Errorf("panic %s, want %q", text, name)
					}
				}()
				for range f.q.All(f.ctx, o) {
					t.Error("a message came")
				}
			}()
		}
		if n := f.requests(queue.OpReceive); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A missing queue is a failure like others: the loop goes on when it is there.
func TestAllWaitsForAMissingQueue(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		missing, err := f.acct.Queue("missing", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		failures := 0
		o := queue.AllOptions{OnReceiveError: func(err error) {
			if !errors.Is(err, queue.ErrQueueNotFound) {
				t.Error(err)
			}
			if failures++; failures == 3 {
				if err := missing.Create(f.ctx); err != nil {
					t.Error(err)
				}
				if _, err := missing.Send(f.ctx, "x", queue.SendOptions{}); err != nil {
					t.Error(err)
				}
			}
		}}
		for range missing.All(ctx, o) {
			cancel()
		}
		if failures != 3 {
			t.Errorf("%d failures, want 3", failures)
		}
	})
}

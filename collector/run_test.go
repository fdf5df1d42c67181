package collector_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestContacted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault *queuetest.Fault
		empty bool
		want  time.Duration // from the start of Run
		exact bool
	}{
		"every account answers":             {want: 0},
		"without targets there is no wait":  {empty: true, want: 0},
		"an account that refuses answers":   {fault: &queuetest.Fault{Account: "other", Status: 403}, want: 0},
		"an account that is slow":           {fault: &queuetest.Fault{Account: "other", Delay: 3 * time.Second}, want: 6 * time.Second},
		"an account that never answers":     {fault: &queuetest.Fault{Account: "other", Hang: true}, want: 10 * time.Second},
		"an account that cannot be reached": {fault: &queuetest.Fault{Account: "other", Refuse: true}, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := queuetest.New(queuetest.Options{Accounts: map[string]string{"other": queuetest.AccountKey}})
				ts := targets(
					create(t, account(t, s, "acct", queuetest.AccountName), "orders"),
					create(t, account(t, s, "other", "other"), "orders"),
				)
				if tt.fault != nil {
					// Fresh accounts, which have not been answered before.
					ts = targets(open(t, account(t, s, "acct", queuetest.AccountName), "orders", queue.Config{}),
						open(t, account(t, s, "other", "other"), "orders", queue.Config{}))
					s.Inject(*tt.fault)
				}
				if tt.empty {
					ts = nil
				}
				start := time.Now()
				c := run(t, collector.Config{Targets: ts})
				<-c.Contacted()
				if got := time.Since(start); got != tt.want {
					t.Errorf("contacted after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// The heartbeat tells of wedged loops, not of storage.
func TestBeat(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]queuetest.Fault{
		"a healthy service":   {Skip: 1 << 30},
		"a hanging service":   {Hang: true},
		"a throttled service": queuetest.Busy(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				q := create(t, s.acct, "orders")
				s.Inject(fault)
				var beats atomic.Int64
				c := run(t, collector.Config{Targets: targets(q), Interval: time.Hour, Beat: func() { beats.Add(1) }})
				for range 60 {
					had := beats.Load()
					time.Sleep(6 * time.Second)
					account, at := c.LastTurn()
					if account != "acct" || time.Since(at) > 6*time.Second {
						t.Fatalf("the last turn of %q is %v ago", account, time.Since(at))
					}
					if beats.Load() == had {
						t.Fatal("no beat in 6 s")
					}
				}
			})
		})
	}
}

func TestNoTurnBeforeRun(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	c, err := collector.New(collector.Config{Targets: targets(create(t, s.acct, "orders"))})
	if err != nil {
		t.Fatal(err)
	}
	if account, at := c.LastTurn(); account != "" || !at.IsZero() {
		t.Errorf("the last turn is %q's at %v", account, at)
	}
	select {
	case <-c.Contacted():
		t.Error("contacted before Run")
	default:
	}
}

// Run ends at once, in the middle of polls that hang, and counts none of them as failed.
func TestRunEndsAmidPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		q := create(t, s.acct, "orders")
		c, err := collector.New(collector.Config{Targets: targets(q)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		s.Inject(queuetest.Fault{Hang: true})
		time.Sleep(time.Second)
		cancelled := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(cancelled) != 0 {
			t.Errorf("Run returned %v after %v", err, time.Since(cancelled))
		}
		expect(t, "after Run", about(t, c, "orders", "main"), map[string]float64{up: absent, polls: 0})
		if got := failures(t, c, "orders", "main"); len(got) != 0 {
			t.Errorf("failed polls %v", got)
		}
		if account, at := c.LastTurn(); !at.IsZero() {
			t.Errorf("after Run the last turn is %q's at %v", account, at)
		}
		if err := c.Run(t.Context()); err == nil {
			t.Error("Run ran twice")
		}
	})
}

func TestConfigurationFaults(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	orders := create(t, s.acct, "orders")
	twin := account(t, s.Server, "acct", queuetest.AccountName)
	one := open(t, s.acct, "one", queue.Config{PoisonQueue: "shared"})
	two := open(t, s.acct, "two", queue.Config{PoisonQueue: "shared"})
	for name, tt := range map[string]struct {
		cfg  collector.Config
		want []string
	}{
		"numbers": {
			collector.Config{Interval: time.Millisecond, RequestsPerSecond: -2},
			[]string{"collector: interval 1ms is shorter than 100ms", "-2 requests per second is neither positive nor -1 for no limit"},
		},
		"a target": {
			collector.Config{Targets: []collector.Target{
				{}, {Queue: orders, Mode: 7, Interval: time.Microsecond, Tier: -1, Objective: -1, ObjectiveRatio: 99, HandlerTimeLimit: -1},
			}},
			[]string{
				"collector: target 0 has no queue",
				"target acct/orders: mode 7 is neither consume nor watch",
				"interval 1µs is shorter than 100ms",
				"tier -1 is negative",
				"objective -1ns is negative",
				"objective ratio 99 is not between 0 and 1",
				"handler time limit -1ns is negative",
			},
		},
		"the same queue twice": {
			collector.Config{Targets: targets(orders, orders)},
			[]string{"collector: target acct/orders is given twice"},
		},
		"two accounts of one name": {
			collector.Config{Targets: targets(orders, open(t, twin, "one", queue.Config{}))},
			[]string{`collector: target acct/one: two accounts are called "acct"`},
		},
		"a shared poison queue": {
			collector.Config{Targets: targets(two, one)},
			[]string{`collector: poison queue acct/shared is shared by ["one" "two"]: make it a target of its own, or sums would count it 2 times`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := collector.New(tt.cfg)
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("faults at run time change nothing", func(t *testing.T) {
		t.Parallel()
		c, err := collector.New(collector.Config{Targets: targets(orders)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetTargets(targets(orders, orders)); err == nil {
			t.Error("the same queue was taken twice")
		}
		if n := len(c.Snapshot().Queues); n != 2 {
			t.Errorf("%d queues are watched", n)
		}
	})
}

// One line an incident: an account out of reach is one, a missing queue is one.
func TestLog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault queuetest.Fault
		want  []string
	}{
		"an account that fails": {
			queuetest.Fault{Status: 403, Code: "AuthenticationFailed"},
			[]string{
				`level=WARN msg="polls fail" component=collector account=acct reason=auth error=E`,
				`level=INFO msg="polls no longer fail for this reason" component=collector account=acct reason=auth failures=N`,
			},
		},
		"two queues that are missing": {
			queuetest.Fault{
				Match:  func(op queuetest.Op) bool { return op.Queue == "q-1" || op.Queue == "q-2" },
				Status: 404, Code: "QueueNotFound",
			},
			[]string{
				`level=WARN msg="queue is missing" component=collector account=acct queue=Q reason=not_found error=E`,
				`level=WARN msg="queue is missing" component=collector account=acct queue=Q reason=not_found error=E`,
				`level=INFO msg="queue is no longer missing" component=collector account=acct queue=Q reason=not_found`,
				`level=INFO msg="queue is no longer missing" component=collector account=acct queue=Q reason=not_found`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				var qs []*queue.Queue
				for i := range 20 {
					qs = append(qs, create(t, s.acct, fmt.Sprintf("q-%d", i)))
				}
				var b bytes.Buffer
				plain := func(_ []string, a slog.Attr) slog.Attr {
					switch a.Key {
					case slog.TimeKey:
						return slog.Attr{}
					case "queue":
						return slog.String("queue", "Q")
					case "error":
						return slog.String("error", "E")
					case "failures":
						if a.Value.Int64() < 20 { // each queue's polls fail at least once
							return a
						}
						return slog.String("failures", "N")
					}
					return a
				}
				ctx, cancel := context.WithCancel(t.Context())
				c, err := collector.New(collector.Config{
					Targets: targets(qs...), Logger: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: plain})),
				})
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() { done <- c.Run(ctx) }()
				time.Sleep(5 * time.Minute)
				remove := s.Inject(tt.fault)
				time.Sleep(10 * time.Minute)
				remove()
				time.Sleep(5 * time.Minute)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(strings.Join(tt.want, "\n")+"\n", b.String()); diff != "" {
					t.Errorf("log (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPollsThatDoNotFitAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		var b bytes.Buffer
		c, err := collector.New(collector.Config{
			Targets:  targets(create(t, s.acct, "orders")),
			Interval: time.Second, RequestsPerSecond: 1, Logger: slog.New(slog.NewTextHandler(&b, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "polls do not fit the request limit"); n != 1 {
			t.Errorf("%d lines in\n%s", n, b.String())
		}
	})
}

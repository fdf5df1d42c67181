package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestARunConsumesWatchesAndDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int32
		entered, release := make(chan struct{}), make(chan struct{})
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(_ context.Context, m *processor.Message) error {
			handled.Add(1)
			switch string(m.Body) {
			case "refused":
				return processor.Permanent(errors.New("no"))
			case "slow":
				close(entered)
				<-release
			}
			return nil
		})})
		for _, body := range []string{"good", "good", "refused"} {
			r.send("orders", body)
			r.send("watched", body)
		}
		settle(2 * time.Minute)

		if n := handled.Load(); n != 3 {
			t.Errorf("the handler was called %d times, want 3", n)
		}
		r.want("http://probes/livez", 200, "ok")
		r.want("http://probes/startupz", 200, "ok")
		r.want("http://main/readyz?verbose", 200, "[!]poison degraded: poison: acct/orders: 1")
		r.want("http://main/metrics", 200, `queue_messages_processed_total{account="acct",queue_name="orders"} 2`)
		r.want("http://main/metrics", 200, `queue_messages_dead_lettered_total{account="acct",queue_dead_letter_reason="handler",queue_name="orders"} 1`)
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="main",queue_name="watched"} 3`)
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="poison",queue_name="orders"} 1`)
		if n := r.storage.Requests(queuetest.Op{Queue: "watched", Operation: "receive"}); n != 0 {
			t.Errorf("the watched queue was received from %d times", n)
		}

		// The end: a handler still runs, so the probes have time to tell.
		r.send("orders", "slow")
		<-entered
		r.stop()
		settle(time.Second)
		r.want("http://probes/readyz", 503, "draining")
		r.want("http://main/readyz", 503, "draining")
		r.want("http://probes/livez", 200, "ok")
		r.want("http://main/metrics", 200, `queue_processor_active_handlers{account="acct",queue_name="orders"} 1`)
		close(release)
		r.end()
		if n := r.storage.Len(queuetest.AccountName, "orders"); n != 0 {
			t.Errorf("%d messages were left on the queue: the last delete was owed", n)
		}
		for _, msg := range []string{`"msg":"started"`, `"msg":"draining"`, `"msg":"stopped"`} {
			if strings.Count(r.logs.String(), msg) != 1 {
				t.Errorf("the log does not have %s once:\n%s", msg, r.logs)
			}
		}
	})
}

func TestAHandlerThatDoesNotReturnCannotHoldTheEndForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error {
			close(entered)
			<-release
			return nil
		})})
		r.send("orders", "stuck")
		<-entered
		begin := time.Now()
		r.stop()
		<-r.ended
		// Twice the drain timeout of 30 s, what processors may take for storage, and the listeners.
		if took := time.Since(begin); took < time.Minute || took > 100*time.Second {
			t.Errorf("the end took %v, want a little over a minute", took)
		}
		if r.err == nil {
			t.Error("a handler that runs on was not reported")
		}
		if n := r.storage.Len(queuetest.AccountName, "orders"); n != 1 {
			t.Errorf("the queue holds %d messages, want the one whose handler still runs", n)
		}
		close(release)
	})
}

func TestStorageThatHangsDelaysNothingButReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var remove func()
		r := start(t, oneQueue, idle(), func(s *queuetest.Server) { remove = s.Inject(queuetest.Fault{Hang: true}) })
		settle(time.Second)
		before := r.storage.Requests(queuetest.Op{})
		begin := time.Now()
		r.want("http://probes/livez", 200, "ok")
		r.want("http://probes/startupz", 200, "ok")
		r.want("http://probes/readyz", 503, "first_contact failed: starting")
		r.want("http://main/metrics", 200, `queue_polls_total{account="acct",queue_kind="main",queue_name="orders"} 0`)
		r.want("http://main/api/v1/queues", 200, `"queue":"orders"`)
		r.want("http://main/", 200, `c-read dim">never</td>`)
		if took := time.Since(begin); took != 0 {
			t.Errorf("answers waited %v for storage", took)
		}
		if after := r.storage.Requests(queuetest.Op{}); after != before {
			t.Errorf("answers made %d storage requests", after-before)
		}

		// The deadline of the first contact passes: ready, and degraded.
		settle(30 * time.Second)
		r.want("http://probes/readyz", 200, "storage degraded: storage: acct: every poll fails")
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"} 0`)
		if _, body := r.get("http://main/metrics"); strings.Contains(body, "queue_approximate_messages{") {
			t.Error("a depth was made up")
		}

		// Storage comes back: everything recovers alone.
		remove()
		settle(3 * time.Minute)
		r.want("http://probes/readyz", 200, "ok")
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"} 1`)
		r.want("http://main/metrics", 200, `queue_approximate_messages{account="acct",queue_kind="main",queue_name="orders"} 0`)
		r.end()
	})
}

func TestAnOutageNeverRestartsAndNeverUnreadies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, idle())
		settle(time.Minute)
		r.want("http://probes/readyz", 200, "ok")
		remove := r.storage.Inject(queuetest.Fault{Status: 403, Code: "AuthenticationFailed"})
		for range 30 {
			settle(time.Minute)
			r.want("http://probes/livez", 200, "ok")
			if status, _ := r.get("http://probes/readyz"); status != 200 {
				t.Fatalf("readyz answers %d in an outage", status)
			}
		}
		r.want("http://probes/readyz", 200, "receiving degraded: receive_failing: acct/orders:")
		r.want("http://probes/readyz?strict", 503, "receive_failing")
		remove()
		settle(2 * time.Minute)
		r.want("http://probes/readyz", 200, "ok")
		r.end()
	})
}

func TestADayOfNothingIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue, idle())
		settle(24 * time.Hour)
		r.want("http://probes/livez", 200, "ok")
		r.want("http://probes/readyz", 200, "ok\n")
		r.end()
	})
}

func TestATenHourHandlerIsAliveAndToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := start(t, oneQueue, map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error {
			<-release
			return nil
		})})
		r.send("orders", "long")
		settle(10*time.Hour + time.Second)
		r.want("http://probes/livez", 200, "ok")
		r.want("http://probes/readyz", 200, "handlers degraded: old_handler: acct/orders: a handler has been running for 10h0m")
		close(release)
		settle(time.Minute)
		r.want("http://probes/readyz", 200, "ok\n")
		r.end()
	})
}

func TestStrictReadinessFailsWhereItWouldDegrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, oneQueue+"server: {strictReadiness: true}\n", idle())
		settle(time.Minute)
		r.want("http://probes/readyz", 200, "ok")
		r.storage.Inject(queuetest.Fault{Refuse: true})
		settle(5 * time.Minute)
		r.want("http://probes/readyz", 503, "every poll fails")
		r.want("http://probes/livez", 200, "ok")
		r.end()
	})
}

func TestAListenerThatBreaksEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := queuetest.New(queuetest.Options{})
		main, probes := newPipeListener("main"), newPipeListener("probes")
		err := app.Run(t.Context(), app.Options{
			Config: parse(t, storage, oneQueue), Transport: storage, Handlers: idle(),
			Listen: func(_ context.Context, setting, _ string) (net.Listener, error) {
				if setting == "server.listen" {
					return main, nil
				}
				return probes, nil
			},
			Started: func(app.Running) {
				if err := main.Close(); err != nil {
					t.Error(err)
				}
			},
		})
		if want := "serve server.listen: use of closed network connection"; err == nil || err.Error() != want {
			t.Errorf("run: %v, want %s", err, want)
		}
	})
}

func TestAStopBeforeTheStartIsClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := queuetest.New(queuetest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := app.Run(ctx, app.Options{
			Config: parse(t, storage, oneQueue), Transport: storage, Handlers: idle(),
			Listen: func(context.Context, string, string) (net.Listener, error) { return newPipeListener("x"), nil },
		})
		if err != nil {
			t.Errorf("run: %v", err)
		}
		if n := storage.Requests(queuetest.Op{Operation: "receive"}); n != 0 {
			t.Errorf("%d receives were made", n)
		}
	})
}

func TestATakenPortIsToldWithTheSettingAndTheCure(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for setting, server := range map[string]string{
		"server.listen": `{listen: "` + l.Addr().String() + `", probes: off, grpc: off}`,
		"server.probes": `{listen: "127.0.0.1:0", probes: "` + l.Addr().String() + `", grpc: off}`,
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			storage := queuetest.New(queuetest.Options{})
			err := app.Run(t.Context(), app.Options{
				Config: parse(t, storage, oneQueue+"server: "+server+"\n"), Transport: storage, Handlers: idle(),
				Logger: slog.New(slog.DiscardHandler),
			})
			want := setting + ": listen tcp " + l.Addr().String() + ": bind: address already in use; free the address, or set another: qwatch.yaml:9: " + setting
			if err == nil || err.Error() != want {
				t.Errorf("run: %v\nwant %s", err, want)
			}
			if n := storage.Requests(queuetest.Op{}); n != 0 {
				t.Errorf("%d storage requests were made before the listeners were open", n)
			}
		})
	}
}

// TestQueuesThatAreMissingAtTheStart: one that is created is no news, one that stays missing is told once
// with what to do, and storage that hangs holds up neither.
func TestQueuesThatAreMissingAtTheStart(t *testing.T) {
	t.Parallel()
	const text = `
accounts:
  - name: acct
    connectionString: ${STORAGE}
    queues:
      - name: orders
        createIfMissing: true
        consumer: {handler: {http: {url: "http://handler.invalid/"}}}
      - name: bills
        consumer: {handler: {http: {url: "http://handler.invalid/"}}}
      - name: watched
`
	synctest.Test(t, func(t *testing.T) {
		r := start(t, text, idle(), func(s *queuetest.Server) {
			s.Reset()
			s.Inject(queuetest.Fault{Operation: "receive", Delay: time.Second}) // the watcher is first
		})
		settle(10 * time.Minute)
		r.want("http://main/metrics", 200, `queue_up{account="acct",queue_kind="main",queue_name="orders"} 1`)
		for line, want := range map[string]int{
			`"msg":"queue is missing"`:                                                           2,
			`404 QueueNotFound: create it, or set createIfMissing"`:                              1,
			`404 QueueNotFound: create it, or do not watch it"`:                                  1,
			`"msg":"queue is missing","component":"collector","account":"acct","queue":"orders"`: 0,
		} {
			if n := strings.Count(r.logs.String(), line); n != want {
				t.Errorf("the log has %s %d times, want %d:\n%s", line, n, want, r.logs)
			}
		}
		r.end()
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, text, idle(), func(s *queuetest.Server) { s.Inject(queuetest.Fault{Hang: true}) })
		settle(time.Minute)
		r.want("http://probes/readyz", 200, "storage degraded: storage: acct: every poll fails")
		r.end()
	})
}

// TestADefaultPortThatIsTakenIsNotSoughtInTheFile: the file does not have the key.
func TestADefaultPortThatIsTakenIsNotSoughtInTheFile(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ":9780")
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	} // else somebody else has it, which serves as well
	storage := queuetest.New(queuetest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // if it should start after all
	defer cancel()
	err = app.Run(ctx, app.Options{Config: parse(t, storage, oneQueue), Transport: storage, Handlers: idle()})
	const want = "server.listen: listen tcp :9780: bind: address already in use; free the address, or set another: server.listen in qwatch.yaml (:9780 is its default)"
	if err == nil || err.Error() != want {
		t.Errorf("run: %v\nwant %s", err, want)
	}
}

// idle handles acct/orders and never says no.
func idle() map[string]processor.Handler {
	return map[string]processor.Handler{"acct/orders": processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil })}
}

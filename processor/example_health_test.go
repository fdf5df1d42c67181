package processor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/qwatch/qwatch/health"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A processor in a server of one's own: its loop in /livez, its state in /readyz, and a switch to pause it.
func Example_probesAndPause() {
	srv := queuetest.New(queuetest.Options{})
	account, err := queue.NewAccount(queue.AccountConfig{Name: "shop", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := account.Queue("orders", queue.Config{CreateIfMissing: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := health.New(health.Config{})
	loop := h.Loop("orders", 2*time.Minute)
	p, err := processor.New(orders, processor.HandlerFunc(func(context.Context, *processor.Message) error { return nil }),
		processor.Config{Beat: loop.Beat})
	if err != nil {
		fmt.Println(err)
		return
	}
	h.Add(health.Check{Name: "orders", Probe: health.Ready, Run: func() health.Result {
		switch s := p.Status(); {
		case s.State == processor.StatePaused:
			return health.Result{Status: health.Degraded, Reason: health.ReasonPaused}
		case s.BreakerOpen:
			return health.Result{Status: health.Degraded, Reason: health.ReasonHandlersFail}
		case s.ReceiveFailures > 1:
			return health.Result{Status: health.Degraded, Reason: health.ReasonReceiveFailing, Detail: s.LastError}
		default:
			return health.Result{}
		}
	}})

	mux := http.NewServeMux()
	h.Mount(mux, "")
	mux.HandleFunc("POST /pause", func(http.ResponseWriter, *http.Request) { p.Pause() }) // behind your own sign-in

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	for p.Status().State != processor.StateRunning {
		time.Sleep(time.Millisecond)
	}
	h.Started()

	ask := func(method, path string) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Body.String()
	}
	fmt.Print(ask(http.MethodGet, "/livez?verbose"))
	ask(http.MethodPost, "/pause")
	fmt.Print(ask(http.MethodGet, "/readyz"))

	h.Draining()
	loop.Stop()
	stop()
	fmt.Println(<-done)
	// Output:
	// [+]orders ok
	// livez check passed
	// [!]orders degraded: paused
	// readyz check passed, degraded
	// <nil>
}

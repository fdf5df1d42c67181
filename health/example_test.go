package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/qwatch/qwatch/health"
)

// A service of one's own answers its probes beside its other pages.
func Example() {
	h := health.New(health.Config{})

	// One's own check: it reads what is known and asks nobody.
	cacheFilled := false
	h.Add(health.Check{Name: "cache", Probe: health.Ready, Run: func() health.Result {
		if !cacheFilled {
			return health.Result{Status: health.Degraded, Reason: "cold", Detail: "answers are slow"}
		}
		return health.Result{Status: health.OK}
	}})

	// A loop that must go on turning: /livez fails when it is silent for a minute.
	loop := h.Loop("refresh", time.Minute)
	defer loop.Stop()
	loop.Beat() // once a turn

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) { /* one's own pages */ })
	h.Mount(mux, "")

	probe := func(path string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Printf("GET %s: %d\n%s", path, w.Code, w.Body)
	}
	probe("/readyz")
	h.Started()
	probe("/readyz")
	cacheFilled = true
	probe("/readyz?verbose")
	probe("/livez?verbose")
	h.Draining()
	probe("/readyz")

	// Output:
	// GET /readyz: 503
	// [-]lifecycle failed: starting: not started yet
	// [!]cache degraded: cold: answers are slow
	// readyz check failed
	// GET /readyz: 200
	// [!]cache degraded: cold: answers are slow
	// readyz check passed, degraded
	// GET /readyz?verbose: 200
	// [+]lifecycle ok
	// [+]cache ok
	// readyz check passed
	// GET /livez?verbose: 200
	// [+]refresh ok
	// livez check passed
	// GET /readyz: 503
	// [-]lifecycle failed: draining: shutting down
	// readyz check failed
}

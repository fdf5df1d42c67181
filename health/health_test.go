package health_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/health"
)

// always is a check that finds r whenever it is asked.
func always(r health.Result) func() health.Result { return func() health.Result { return r } }

func degraded(reason health.Reason, detail string) func() health.Result {
	return always(health.Result{Status: health.Degraded, Reason: reason, Detail: detail})
}

func failed(reason health.Reason, detail string) func() health.Result {
	return always(health.Result{Status: health.Failed, Reason: reason, Detail: detail})
}

// outcomes returns what a report says, one line for each check.
func outcomes(r health.Report) []string {
	out := []string{"= " + r.Status.String()}
	for _, c := range r.Checks {
		line := fmt.Sprintf("%s %s %s %s", c.Name, c.Status, c.Reason, c.Detail)
		if c.Excluded {
			line = c.Name + " excluded"
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func TestProcessStates(t *testing.T) {
	t.Parallel()
	type probes struct{ Live, Ready, Startup string }
	for name, tt := range map[string]struct {
		do   func(*health.Health)
		want probes
	}{
		"starting":                         {do: func(*health.Health) {}, want: probes{"ok", "failed [starting]", "failed [starting]"}},
		"started":                          {do: (*health.Health).Started, want: probes{"ok", "ok", "ok"}},
		"draining":                         {do: func(h *health.Health) { h.Started(); h.Draining() }, want: probes{"ok", "failed [draining]", "ok"}},
		"draining before it had started":   {do: (*health.Health).Draining, want: probes{"ok", "failed [draining]", "ok"}},
		"started after draining had begun": {do: func(h *health.Health) { h.Draining(); h.Started() }, want: probes{"ok", "failed [draining]", "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := health.New(health.Config{})
			tt.do(h)
			say := func(p health.Probe) string {
				r := h.Report(p)
				if reasons := r.Reasons(); len(reasons) > 0 {
					return fmt.Sprintf("%v %v", r.Status, reasons)
				}
				return r.Status.String()
			}
			got := probes{say(health.Live), say(health.Ready), say(health.Startup)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("probes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	type check struct {
		name  string
		probe health.Probe
		run   func() health.Result
	}
	for name, tt := range map[string]struct {
		strict  bool
		checks  []check
		probe   health.Probe
		exclude []string
		want    []string
		reasons []health.Reason
		unknown []string
	}{
		"a check that says nothing is ok": {
			probe:  health.Ready,
			checks: []check{{name: "mine", run: always(health.Result{})}},
			want:   []string{"= ok", "lifecycle ok", "mine ok"},
		},
		"the worst counts, and failures are told first": {
			probe: health.Ready,
			checks: []check{
				{name: "a", run: degraded(health.ReasonPaused, "")},
				{name: "b", run: failed(health.ReasonConfig, "line 3")},
				{name: "c", run: degraded(health.ReasonPaused, "since noon")},
				{name: "d", run: degraded("", "")},
			},
			want: []string{
				"= failed", "lifecycle ok", "a degraded paused", "b failed config line 3",
				"c degraded paused since noon", "d degraded",
			},
			reasons: []health.Reason{health.ReasonConfig, health.ReasonPaused},
		},
		"degraded passes": {
			probe:   health.Ready,
			checks:  []check{{name: "a", run: degraded(health.ReasonPoison, "7 messages")}},
			want:    []string{"= degraded", "lifecycle ok", "a degraded poison 7 messages"},
			reasons: []health.Reason{health.ReasonPoison},
		},
		"strict makes degraded readiness fail": {
			strict: true, probe: health.Ready,
			checks:  []check{{name: "a", run: degraded(health.ReasonPoison, "7 messages")}},
			want:    []string{"= failed", "lifecycle ok", "a degraded poison 7 messages"},
			reasons: []health.Reason{health.ReasonPoison},
		},
		"strict leaves liveness alone": {
			strict: true, probe: health.Live,
			checks:  []check{{name: "a", probe: health.Live, run: degraded(health.ReasonOldHandler, "")}},
			want:    []string{"= degraded", "a degraded old_handler"},
			reasons: []health.Reason{health.ReasonOldHandler},
		},
		"a check belongs to its probes alone": {
			probe: health.Live,
			checks: []check{
				{name: "ready", run: failed(health.ReasonStorage, "")},
				{name: "both", probe: health.Live | health.Ready, run: always(health.Result{Status: health.OK})},
			},
			want: []string{"= ok", "both ok"},
		},
		"an excluded check is not counted": {
			probe: health.Ready, exclude: []string{"a"},
			checks: []check{{name: "a", run: failed(health.ReasonStorage, "")}},
			want:   []string{"= ok", "lifecycle ok", "a excluded"},
		},
		"an exclusion nobody knows is told once": {
			probe: health.Ready, exclude: []string{"b", "a", "b"},
			checks:  []check{{name: "a", run: failed(health.ReasonStorage, "")}, {name: "b", probe: health.Live, run: always(health.Result{})}},
			want:    []string{"= ok", "lifecycle ok", "a excluded"},
			unknown: []string{"b"},
		},
		"a status that does not exist is a failure": {
			probe:  health.Ready,
			checks: []check{{name: "a", run: always(health.Result{Status: 42})}, {name: "b", run: always(health.Result{Status: -1})}},
			want:   []string{"= failed", "lifecycle ok", "a failed", "b failed"},
		},
		"a panic is that check's failure": {
			probe:   health.Ready,
			checks:  []check{{name: "a", run: func() health.Result { panic("key=secret") }}, {name: "b", run: always(health.Result{})}},
			want:    []string{"= failed", "lifecycle ok", "a failed panic the check panicked", "b ok"},
			reasons: []health.Reason{health.ReasonPanic},
		},
		"so is a check that ends its goroutine": {
			probe:   health.Ready,
			checks:  []check{{name: "a", run: func() health.Result { runtime.Goexit(); return health.Result{} }}},
			want:    []string{"= failed", "lifecycle ok", "a failed panic the check panicked"},
			reasons: []health.Reason{health.ReasonPanic},
		},
		"a name used again replaces the check": {
			probe: health.Ready,
			checks: []check{
				{name: "a", run: failed(health.ReasonStorage, "")},
				{name: "b", run: always(health.Result{})},
				{name: "a", run: always(health.Result{})},
			},
			want: []string{"= ok", "lifecycle ok", "b ok", "a ok"},
		},
		"a name used again on another probe does not": {
			probe: health.Ready,
			checks: []check{
				{name: "a", probe: health.Live | health.Ready, run: degraded(health.ReasonPaused, "")},
				{name: "a", probe: health.Live, run: always(health.Result{})},
			},
			want:    []string{"= degraded", "lifecycle ok", "a degraded paused"},
			reasons: []health.Reason{health.ReasonPaused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := health.New(health.Config{Strict: tt.strict})
			h.Started()
			for _, c := range tt.checks {
				h.Add(health.Check{Name: c.name, Probe: c.probe, Run: c.run})
			}
			for range 2 { // what a report does must not show in the next
				r := h.Report(tt.probe, tt.exclude...)
				if diff := cmp.Diff(tt.want, outcomes(r)); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.reasons, r.Reasons()); diff != "" {
					t.Errorf("reasons (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.unknown, r.Unknown); diff != "" {
					t.Errorf("unknown exclusions (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestRemovedCheckIsGone(t *testing.T) {
	t.Parallel()
	h := health.New(health.Config{})
	h.Started()
	removeOld := h.Add(health.Check{Name: "a", Run: failed(health.ReasonConfig, "")})
	removeNew := h.Add(health.Check{Name: "a", Run: degraded(health.ReasonPaused, "")})
	removeOld() // it was replaced: not ours any more
	if diff := cmp.Diff([]string{"= degraded", "lifecycle ok", "a degraded paused"}, outcomes(h.Report(health.Ready))); diff != "" {
		t.Errorf("after the replaced check was removed (-want +got):\n%s", diff)
	}
	removeNew()
	removeNew()
	if diff := cmp.Diff([]string{"= ok", "lifecycle ok"}, outcomes(h.Report(health.Ready))); diff != "" {
		t.Errorf("after both were removed (-want +got):\n%s", diff)
	}
}

func TestIncompleteChecksAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]health.Check{
		"no name":        {Run: always(health.Result{})},
		"nothing to run": {Name: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was added")
				}
			}()
			health.New(health.Config{}).Add(c)
		})
	}
}

// A check that hangs costs its own answer, the timeout, and one goroutine.
func TestBlockedCheckFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(health.Config{})
		h.Started()
		var calls atomic.Int32
		release := make(chan struct{})
		h.Add(health.Check{Name: "blocks", Run: func() health.Result {
			calls.Add(1)
			<-release
			return health.Result{Status: health.OK}
		}})
		h.Add(health.Check{Name: "well", Run: always(health.Result{})})
		h.Add(health.Check{Name: "slow", Run: func() health.Result { time.Sleep(900 * time.Millisecond); return health.Result{} }})

		ask := func(after string) {
			t.Helper()
			start := time.Now()
			got := outcomes(h.Report(health.Ready))
			want := []string{
				"= failed", "lifecycle ok", "blocks failed timeout the check has been running for " + after, "well ok", "slow ok",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if took := time.Since(start); took != time.Second {
				t.Errorf("the report took %v, want 1s", took)
			}
		}
		ask("1s")
		ask("2s")
		h.Each(func(string, string, health.Result) {})
		if n := calls.Load(); n != 1 {
			t.Errorf("the blocked check was started %d times", n)
		}
		if r := h.Report(health.Ready, "blocks"); r.Status != health.OK {
			t.Errorf("without the blocked check: %v", r.Status)
		}
		close(release)
		synctest.Wait()
		if r := h.Report(health.Ready); r.Status != health.OK {
			t.Errorf("after the check came back: %v", outcomes(r))
		}
	})
}

func TestTimeoutCanBeChosen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(health.Config{Timeout: 50 * time.Millisecond})
		h.Add(health.Check{Name: "slow", Probe: health.Live, Run: func() health.Result { time.Sleep(time.Minute); return health.Result{} }})
		start := time.Now()
		if r := h.Report(health.Live); r.Status != health.Failed || time.Since(start) != 50*time.Millisecond {
			t.Errorf("%v after %v", r.Status, time.Since(start))
		}
		time.Sleep(time.Minute) // the check ends
	})
}

func TestEachTellsEveryCheckOfEveryProbe(t *testing.T) {
	t.Parallel()
	h := health.New(health.Config{Strict: true})
	h.Started()
	h.Draining()
	defer h.Loop("orders/orders", time.Minute).Stop()
	var calls atomic.Int32
	h.Add(health.Check{Name: "both", Probe: health.Live | health.Ready, Run: func() health.Result {
		calls.Add(1)
		return health.Result{Status: health.Degraded, Reason: health.ReasonPaused}
	}})
	var got []string
	h.Each(func(probe, check string, r health.Result) {
		got = append(got, fmt.Sprintf("%s %s %v %s", probe, check, r.Status, r.Reason))
	})
	want := []string{
		"live orders/orders ok ",
		"live both degraded paused",
		"ready lifecycle failed draining",
		"ready both degraded paused",
		"startup lifecycle ok ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the check of two probes ran %d times", n)
	}
}

func TestHealthIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	h := health.New(health.Config{})
	mux := http.NewServeMux()
	h.Mount(mux, "")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("check-%d", i%2)
			for range 100 {
				remove := h.Add(health.Check{Name: name, Probe: health.Live | health.Ready, Run: always(health.Result{})})
				l := h.Loop(name, time.Hour)
				l.Beat()
				h.Started()
				get(t, mux, "/readyz?verbose&exclude="+name)
				get(t, mux, "/livez")
				h.Each(func(string, string, health.Result) {})
				l.Stop()
				remove()
			}
		})
	}
	wg.Wait()
	var left []string
	for _, p := range []health.Probe{health.Live, health.Ready, health.Startup} {
		left = append(left, outcomes(h.Report(p))[1:]...)
	}
	if want := []string{"lifecycle ok", "lifecycle ok"}; !slices.Equal(left, want) {
		t.Errorf("checks left behind: %v", left)
	}
}

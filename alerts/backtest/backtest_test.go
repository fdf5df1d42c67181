package backtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/alerts/backtest"
)

var until = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// prometheus answers range queries: value says in which minutes of the range an expression has a series.
func prometheus(t *testing.T, value func(query string, minute int) bool) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/base/api/v1/query_range" {
			http.NotFound(w, r)
			return
		}
		start, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		values := [][2]any{}
		for at := start; at <= end; at += step {
			if r.FormValue("query") == "group(qwatch_build_info)" && at >= float64(until.Add(-time.Hour).Unix()) || value(r.FormValue("query"), int(at-float64(until.Add(-time.Hour).Unix()))/60) {
				values = append(values, [2]any{at, "1"})
			}
		}
		result := []any{}
		if len(values) > 0 {
			result = append(result, map[string]any{"metric": map[string]string{"account": "a", "queue_name": "orders", "tier": "1"}, "values": values})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
	}))
	t.Cleanup(s.Close)
	return s
}

func rule(r alerts.Rule) alerts.Rules {
	r.Alert, r.Expr, r.Class, r.Scope = "Odd", "odd", alerts.Page, alerts.Queue
	return alerts.Rules{Groups: []alerts.Group{{Name: "g", Interval: time.Minute, Rules: []alerts.Rule{r}}}}
}

func TestRun(t *testing.T) {
	t.Parallel()
	between := func(from, to int) func(int) bool { return func(m int) bool { return m >= from && m < to } }
	for name, tt := range map[string]struct {
		rule       alerts.Rule
		seen, held func(int) bool
		want       []string // minutes from and to
	}{
		"nothing":                          {seen: between(0, 0)},
		"at once":                          {seen: between(10, 20), want: []string{"10 20"}},
		"after a while":                    {rule: alerts.Rule{For: 5 * time.Minute}, seen: between(10, 20), want: []string{"15 20"}},
		"not for long enough":              {rule: alerts.Rule{For: 5 * time.Minute}, seen: between(10, 15)},
		"kept firing":                      {rule: alerts.Rule{KeepFiringFor: 5 * time.Minute}, seen: between(10, 20), want: []string{"10 24"}},
		"kept over a gap":                  {rule: alerts.Rule{KeepFiringFor: 5 * time.Minute}, seen: func(m int) bool { return m == 10 || m == 14 }, want: []string{"10 19"}},
		"twice":                            {seen: func(m int) bool { return m == 10 || m == 14 }, want: []string{"10 11", "14 15"}},
		"pending begins anew after a gap":  {rule: alerts.Rule{For: 3 * time.Minute}, seen: func(m int) bool { return m >= 10 && m < 20 && m != 12 }, want: []string{"16 20"}},
		"still firing at the end":          {seen: between(50, 99), want: []string{"50 -"}},
		"held while out of sight":          {rule: alerts.Rule{Hold: true}, seen: between(10, 20), held: between(20, 40), want: []string{"10 40"}},
		"what does not fire does not hold": {rule: alerts.Rule{Hold: true}, seen: between(0, 0), held: between(20, 40)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.rule.Held = "held"
			s := prometheus(t, func(query string, m int) bool {
				if query == "held" {
					return tt.held != nil && tt.held(m)
				}
				return tt.seen(m)
			})
			found, err := backtest.Run(t.Context(), rule(tt.rule), backtest.Options{URL: s.URL + "/base", Since: time.Hour, Until: until})
			if err != nil {
				t.Fatal(err)
			}
			if !found.Begin.Equal(until.Add(-time.Hour)) || !found.End.Equal(until) {
				t.Errorf("evaluated from %v to %v", found.Begin, found.End)
			}
			var got []string
			for _, f := range found.Firings {
				minute := func(at time.Time) string {
					if at.IsZero() {
						return "-"
					}
					return fmt.Sprint(at.Sub(until.Add(-time.Hour)).Minutes())
				}
				got = append(got, minute(f.Start)+" "+minute(f.End))
				if f.Severity != alerts.Critical || f.About() != "a/orders" || f.Seconds <= 0 {
					t.Errorf("firing %+v about %s", f, f.About())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("firings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongPastsAreAskedInPieces(t *testing.T) {
	t.Parallel()
	var queries atomic.Int64
	s := prometheus(t, func(string, int) bool { return false })
	count := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(count.Close)
	found, err := backtest.Run(t.Context(), rule(alerts.Rule{}), backtest.Options{URL: count.URL + "/base", Since: 30 * 24 * time.Hour, Until: until})
	// 8,641 steps of five minutes, 360 at a time, until there are metrics; their hour is evaluated.
	if n := queries.Load(); err != nil || n != 25 || !found.Begin.Equal(until.Add(-time.Hour)) {
		t.Errorf("%d queries, evaluated from %v, %v", n, found.Begin, err)
	}
}

func TestAPrometheusThatNeverSawQwatch(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
	}))
	t.Cleanup(s.Close)
	_, err := backtest.Run(t.Context(), rule(alerts.Rule{}), backtest.Options{URL: s.URL, Since: time.Hour})
	if !errors.Is(err, backtest.ErrNoMetrics) {
		t.Errorf("error %v", err)
	}
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	secret := "5ecret"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/html"):
			_, _ = w.Write([]byte("<html>"))
		case strings.HasPrefix(r.URL.Path, "/vector"):
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
		default:
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
		}
	}))
	t.Cleanup(s.Close)
	for name, tt := range map[string]struct {
		o     backtest.Options
		want  string
		usage bool
	}{
		"no URL":              {o: backtest.Options{Since: time.Hour}, want: "not one of http or https", usage: true},
		"a file":              {o: backtest.Options{URL: "file:///etc", Since: time.Hour}, want: "not one of http or https", usage: true},
		"no past":             {o: backtest.Options{URL: s.URL}, want: "the past must begin before now", usage: true},
		"far too fine":        {o: backtest.Options{URL: s.URL, Since: 365 * 24 * time.Hour, Step: time.Minute}, want: "take a longer step", usage: true},
		"a redirect":          {o: backtest.Options{URL: s.URL + "/redirect", Since: time.Hour}, want: "307 Temporary Redirect"},
		"not an API":          {o: backtest.Options{URL: s.URL + "/html", Since: time.Hour}, want: "not what its API answers"},
		"not a matrix":        {o: backtest.Options{URL: s.URL + "/vector", Since: time.Hour}, want: `a "vector", not a matrix`},
		"a refusal":           {o: backtest.Options{URL: s.URL, Since: time.Hour}, want: "ask Prometheus: 422 Unprocessable Entity: too many samples"},
		"nobody there":        {o: backtest.Options{URL: "http://user:" + secret + "@127.0.0.1:1", Since: time.Hour}, want: "connection refused"},
		"a token that is not": {o: backtest.Options{URL: s.URL, Since: time.Hour, Token: func() (string, error) { return "", errors.New("no token") }}, want: "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.o.Token == nil {
				tt.o.Token = func() (string, error) { return secret, nil }
			}
			_, err := backtest.Run(t.Context(), rule(alerts.Rule{}), tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("it tells the secret: %v", err)
			}
			var usage *backtest.OptionsError
			if errors.As(err, &usage) != tt.usage {
				t.Errorf("%v: a fault of the options: %t", err, !tt.usage)
			}
		})
	}
}

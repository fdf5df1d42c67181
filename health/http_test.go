package health_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/health"
)

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	return w
}

// scene is a process in which something is wrong.
func scene(cfg health.Config) *http.ServeMux {
	h := health.New(cfg)
	h.Started()
	h.Add(health.Check{Name: "orders/orders", Run: degraded(health.ReasonReceiveFailing, "4 receives in a row failed\n[+]forged ok")})
	h.Add(health.Check{Name: "config", Run: always(health.Result{})})
	h.Add(health.Check{Name: "broken", Probe: health.Startup, Run: failed("licence", "expired")})
	mux := http.NewServeMux()
	h.Mount(mux, "")
	return mux
}

func TestProbesOverHTTP(t *testing.T) {
	t.Parallel()
	const text, asJSON = "text/plain; charset=utf-8", "application/json"
	const degradedLine = "[!]orders/orders degraded: receive_failing: 4 receives in a row failed [+]forged ok\n"
	const degradedJSON = `{"probe":"ready","status":"degraded","reasons":["receive_failing"],"checks":[` +
		`{"name":"lifecycle","status":"ok"},` +
		`{"name":"orders/orders","status":"degraded","reason":"receive_failing","detail":"4 receives in a row failed\n[+]forged ok"},` +
		`{"name":"config","status":"ok"}]}` + "\n"
	for name, tt := range map[string]struct {
		target string
		accept string
		cfg    health.Config
		code   int
		kind   string
		body   string
	}{
		"nothing wrong": {target: "/livez", code: 200, kind: text, body: "ok\n"},
		"nothing wrong, verbose": {
			target: "/livez?verbose", code: 200, kind: text, body: "livez check passed\n",
		},
		"degraded passes and tells why": {
			target: "/readyz", code: 200, kind: text, body: degradedLine + "readyz check passed, degraded\n",
		},
		"degraded, verbose": {
			target: "/readyz?verbose", code: 200, kind: text,
			body: "[+]lifecycle ok\n" + degradedLine + "[+]config ok\nreadyz check passed, degraded\n",
		},
		"verbose said to be false": {
			target: "/readyz?verbose=false", code: 200, kind: text, body: degradedLine + "readyz check passed, degraded\n",
		},
		"degraded, strict by configuration": {
			target: "/readyz", cfg: health.Config{Strict: true}, code: 503, kind: text,
			body: degradedLine + "readyz check failed\n",
		},
		"degraded, strict on request": {
			target: "/readyz?strict", code: 503, kind: text, body: degradedLine + "readyz check failed\n",
		},
		"a failure tells why without being asked": {
			target: "/startupz", code: 503, kind: text, body: "[-]broken failed: licence: expired\nstartupz check failed\n",
		},
		"excluded": {
			target: "/readyz?exclude=orders/orders", code: 200, kind: text, body: "ok\n",
		},
		"excluded, verbose": {
			target: "/readyz?verbose&exclude=orders%2Forders&exclude=lifecycle", code: 200, kind: text,
			body: "[+]lifecycle excluded\n[+]orders/orders excluded\n[+]config ok\nreadyz check passed\n",
		},
		"an unknown exclusion is reported": {
			target: "/livez?exclude=or%0Aders&exclude=", code: 200, kind: text,
			body: "warning: no check to exclude is called \"or\\nders\", \"\"\nlivez check passed\n",
		},
		"JSON by header":          {target: "/readyz", accept: "application/json", code: 200, kind: asJSON, body: degradedJSON},
		"JSON among others":       {target: "/readyz", accept: "text/html, application/json;q=0.5", code: 200, kind: asJSON, body: degradedJSON},
		"JSON by parameter":       {target: "/readyz?format=json", accept: "text/plain", code: 200, kind: asJSON, body: degradedJSON},
		"text by parameter":       {target: "/livez?format=text", accept: "application/json", code: 200, kind: text, body: "ok\n"},
		"JSON refused":            {target: "/livez", accept: "application/json;q=0, */*", code: 200, kind: text, body: "ok\n"},
		"anything":                {target: "/livez", accept: "*/*", code: 200, kind: text, body: "ok\n"},
		"a header that is broken": {target: "/livez", accept: ";;;,", code: 200, kind: text, body: "ok\n"},
		"JSON of nothing wrong": {
			target: "/livez?format=json", code: 200, kind: asJSON,
			body: `{"probe":"live","status":"ok","reasons":[],"checks":[]}` + "\n",
		},
		"JSON of a failure": {
			target: "/startupz?format=json&exclude=lifecycle&exclude=nobody", code: 503, kind: asJSON,
			body: `{"probe":"startup","status":"failed","reasons":["licence"],"checks":[` +
				`{"name":"lifecycle","status":"ok","excluded":true},` +
				`{"name":"broken","status":"failed","reason":"licence","detail":"expired"}],` +
				`"unknownExcludes":["nobody"]}` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := scene(tt.cfg)
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				r := httptest.NewRequestWithContext(t.Context(), method, tt.target, nil)
				if tt.accept != "" {
					r.Header.Set("Accept", tt.accept)
				}
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, r)
				want, body := tt.body, w.Body.String()
				if method == http.MethodHead {
					want = ""
				}
				if w.Code != tt.code || body != want {
					t.Errorf("%s: %d %q, want %d %q", method, w.Code, body, tt.code, want)
				}
				for header, want := range map[string]string{
					"Content-Type": tt.kind, "Cache-Control": "no-store", "Content-Length": strconv.Itoa(len(tt.body)),
				} {
					if got := w.Header().Get(header); got != want {
						t.Errorf("%s: %s is %q, want %q", method, header, got, want)
					}
				}
				if tt.kind == asJSON && method == http.MethodGet && !json.Valid(w.Body.Bytes()) {
					t.Errorf("not JSON: %s", body)
				}
			}
		})
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	h := health.New(health.Config{})
	mux := http.NewServeMux()
	h.Mount(mux, "")
	for name, handler := range map[string]http.Handler{"mounted": mux, "on its own": h.Handler(health.Live)} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/livez", nil))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s, %s: %d, Allow %q", name, method, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

func TestMountKeepsOutOfTheWay(t *testing.T) {
	t.Parallel()
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "mine") })
	for name, tt := range map[string]struct{ pattern, prefix, livez string }{
		"a catch-all":           {"/", "", "/livez"},
		"a catch-all for GET":   {"GET /", "", "/livez"},
		"below a prefix":        {"/", "/internal", "/internal/livez"},
		"below a prefix, bare":  {"/", "internal", "/internal/livez"},
		"below a prefix with /": {"/livez", "/internal/", "/internal/livez"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.Handle(tt.pattern, own)
			health.New(health.Config{}).Mount(mux, tt.prefix)
			got := []string{get(t, mux, tt.livez).Body.String(), get(t, mux, "/livez/").Body.String()}
			want := []string{"ok\n", "mine"}
			if tt.pattern == "/livez" {
				want[1] = "404 page not found\n"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

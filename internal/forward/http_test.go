package forward_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/forward"
	"github.com/qwatch/qwatch/queue"
)

func TestTheAnswerDecides(t *testing.T) {
	const usual = 100 * time.Second // the processor's own delay
	type headers map[string]string
	tests := map[string]struct {
		status  int
		headers headers
		want    delivery
	}{
		"200 completes":                     {200, nil, delivery{Outcome: completed}},
		"201 completes":                     {201, nil, delivery{Outcome: completed}},
		"204 completes":                     {204, nil, delivery{Outcome: completed}},
		"299 completes":                     {299, nil, delivery{Outcome: completed}},
		"400 dead-letters":                  {400, nil, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 400 Bad Request"}},
		"413 dead-letters":                  {413, nil, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 413 Request Entity Too Large"}},
		"415 dead-letters":                  {415, nil, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 415 Unsupported Media Type"}},
		"431 dead-letters":                  {431, nil, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 431 Request Header Fields Too Large"}},
		"422 dead-letters":                  {422, nil, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 422 Unprocessable Entity"}},
		"422 gives its reason":              {422, headers{"Qwatch-Reason": "no such customer"}, delivery{Outcome: deadLettered, Category: "handler", Reason: "no such customer"}},
		"429 waits as long as it says":      {429, headers{"Retry-After": "300"}, delivery{Outcome: retried, Category: "throttled", Delay: 300 * time.Second}},
		"503 waits as long as it says":      {503, headers{"Retry-After": "300"}, delivery{Outcome: retried, Category: "throttled", Delay: 300 * time.Second}},
		"503 waits until a date":            {503, headers{"Retry-After": "Mon, 02 Jan 2006 15:14:05 GMT", "Date": "Mon, 02 Jan 2006 15:04:05 GMT"}, delivery{Outcome: retried, Category: "throttled", Delay: 600 * time.Second}},
		"502 is an outage behind a gateway": {502, nil, delivery{Outcome: retried, Category: "transient", Delay: usual}},
		"504 is a timeout behind a gateway": {504, nil, delivery{Outcome: retried, Category: "timeout", Delay: usual}},
		"503 alone waits as configured":     {503, nil, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		"a date in the past is not kept":    {503, headers{"Retry-After": "Mon, 02 Jan 2006 15:04:05 GMT"}, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		"a wait of zero is not kept":        {503, headers{"Retry-After": "0"}, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		"a negative wait is not kept":       {503, headers{"Retry-After": "-5"}, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		"nonsense is not kept":              {429, headers{"Retry-After": "soon"}, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		// The message lives for seven days; a delay that outlives it would lose it, so it is halved.
		"a wait of years is cut to what the message lives": {503, headers{"Retry-After": "99999999999999999999999"}, delivery{Outcome: retried, Category: "throttled", Delay: 84 * time.Hour}},
		"429 without a wait takes the usual one":           {429, nil, delivery{Outcome: retried, Category: "throttled", Delay: usual}},
		"301 is not followed":                              {301, headers{"Location": "/elsewhere"}, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"307 is not followed":                              {307, headers{"Location": "http://\x7f:bad"}, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"304 retries":                                      {304, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"401 retries":                                      {401, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"404 retries":                                      {404, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"409 retries":                                      {409, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"500 retries":                                      {500, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"502 does not know Retry-After":                    {502, headers{"Retry-After": "300"}, delivery{Outcome: retried, Category: "transient", Delay: usual}},
		"599 retries":                                      {599, nil, delivery{Outcome: retried, Category: "handler", Delay: usual}},

		"complete, whatever the status":        {500, headers{"Qwatch-Outcome": "complete"}, delivery{Outcome: completed}},
		"retry, whatever the status":           {200, headers{"Qwatch-Outcome": "retry"}, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"retry instead of dead-letter":         {422, headers{"Qwatch-Outcome": "retry", "Retry-After": "300"}, delivery{Outcome: retried, Category: "handler", Delay: 300 * time.Second}},
		"dead-letter, whatever the status":     {200, headers{"Qwatch-Outcome": "dead-letter", "Qwatch-Reason": "stale"}, delivery{Outcome: deadLettered, Category: "handler", Reason: "stale"}},
		"dead-letter without a reason":         {503, headers{"Qwatch-Outcome": " Dead-Letter "}, delivery{Outcome: deadLettered, Category: "handler", Reason: "handler answered 503 Service Unavailable"}},
		"an unknown outcome retries":           {200, headers{"Qwatch-Outcome": "deadletter"}, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"an empty outcome retries":             {200, headers{"Qwatch-Outcome": ""}, delivery{Outcome: retried, Category: "handler", Delay: usual}},
		"a reason of several lines is one":     {422, headers{"Qwatch-Reason": "a\tb \xff c\u00a0\u202ed"}, delivery{Outcome: deadLettered, Category: "handler", Reason: "a b \uFFFD c d"}},
		"a reason that is too long is cut off": {422, headers{"Qwatch-Reason": strings.Repeat("é", 4000)}, delivery{Outcome: deadLettered, Category: "handler", Reason: strings.Repeat("é", 510) + "…"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				for k, v := range tt.headers {
					w.Header()[k] = []string{v}
				}
				w.WriteHeader(tt.status)
				if tt.status != 204 && tt.status != 304 {
					_, _ = io.WriteString(w, answerSecret)
				}
			})
			got := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr + "/orders?code=" + urlSecret)}), options{body: bodySecret})
			hidden(t, got.Err)
			want := tt.want
			got.Err, got.Took = nil, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the handler was called %d times, want once", n)
			}
		})
	}
}

func hidden(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{bodySecret, answerSecret, urlSecret} {
		if err != nil && strings.Contains(err.Error(), s) {
			t.Errorf("the error shows %q: %v", s, err)
		}
	}
	if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestOutcomesThatContradictEachOtherRetry(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Qwatch-Outcome"] = []string{"complete", "dead-letter"}
	})
	if got := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr)}), options{body: "x"}); got.Outcome != retried {
		t.Errorf("outcome %q, want %q", got.Outcome, retried)
	}
}

func TestTheRequestTellsAboutTheMessage(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tests := map[string]struct {
		options
		want map[string]string // "" is absent
	}{
		"what every message has": {options{body: `{"n":1}`}, map[string]string{
			"Qwatch-Account": "shop", "Qwatch-Queue": "orders", "Qwatch-Dequeue-Count": "1", "Qwatch-Last-Attempt": "false",
			"Content-Type": "application/json", "Traceparent": "", "Tracestate": "", "User-Agent": "qwatch", "Authorization": "",
		}},
		"the last attempt":                    {options{body: "x", deliver: 1}, map[string]string{"Qwatch-Last-Attempt": "true"}},
		"text":                                {options{body: "hello\n"}, map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		"bytes":                               {options{body: "\xff\x00"}, map[string]string{"Content-Type": "application/octet-stream"}},
		"its own content type":                {options{body: "<a/>", headers: map[string]string{"content-type": "application/xml; charset=utf-8"}}, map[string]string{"Content-Type": "application/xml; charset=utf-8", "Qwatch-Header-Content-Type": "application/xml; charset=utf-8"}},
		"a content type that is none":         {options{body: "{}", headers: map[string]string{"Content-Type": "a/b\r\nX-Evil: 1"}}, map[string]string{"Content-Type": "application/json", "X-Evil": ""}},
		"headers":                             {options{body: "{}", headers: map[string]string{"tenant": "contoso", "host": "evil", "content-length": "0"}}, map[string]string{"Qwatch-Header-Tenant": "contoso", "Qwatch-Header-Host": "evil", "Qwatch-Header-Content-Length": "0"}},
		"the trace":                           {options{body: "{}", trace: queue.TraceContext{Parent: parent, State: "a=1,b=2"}}, map[string]string{"Traceparent": parent, "Tracestate": "a=1,b=2"}},
		"a trace that is none":                {options{text: `{"$azqs-envelope":1,"traceparent":"evil\r\nX-Evil: 1","tracestate":"a=1","body":1}`}, map[string]string{"Traceparent": "", "Tracestate": "", "X-Evil": ""}},
		"a trace state that splits":           {options{text: `{"$azqs-envelope":1,"traceparent":"` + parent + `","tracestate":"a=1\r\nX-Evil: 1","body":1}`}, map[string]string{"Traceparent": parent, "Tracestate": "", "X-Evil": ""}},
		"a value that splits":                 {options{body: "{}", headers: map[string]string{"a": "v\r\nX-Evil: 1"}}, map[string]string{"Qwatch-Header-A": "v%0D%0AX-Evil: 1", "X-Evil": ""}},
		"a name that splits":                  {options{body: "{}", headers: map[string]string{"a: b\r\nX-Evil": "1"}}, map[string]string{"Qwatch-Header-A%3a%20b%0d%0ax-Evil": "1", "X-Evil": ""}},
		"values that HTTP changes":            {options{body: "{}", headers: map[string]string{"a": " x ", "b": "é", "c": "100%", "d": "\x00\t\x7f", "e": ""}}, map[string]string{"Qwatch-Header-A": "%20x%20", "Qwatch-Header-B": "%C3%A9", "Qwatch-Header-C": "100%25", "Qwatch-Header-D": "%00%09%7F"}},
		"names that are not tokens":           {options{body: "{}", headers: map[string]string{"sp ace": "1", "é": "2", "per%cent": "3", "": "4"}}, map[string]string{"Qwatch-Header-Sp%20ace": "1", "Qwatch-Header-%c3%a9": "2", "Qwatch-Header-Per%25cent": "3", "Qwatch-Header-": ""}},
		"a header that plays one of qwatch's": {options{body: "{}", headers: map[string]string{"../Qwatch-Queue": "evil", "Qwatch-Queue": "evil"}}, map[string]string{"Qwatch-Queue": "orders", "Qwatch-Header-Qwatch-Queue": "evil"}},
		"a long header":                       {options{body: "{}", headers: map[string]string{"long": strings.Repeat("é", 10000)}}, map[string]string{"Qwatch-Header-Long": strings.Repeat("%C3%A9", 10000)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *http.Request
			var body []byte
			addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
			})
			d := deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr + "/orders?a=b#fragment")}), tt.options)
			if d.Outcome != completed {
				t.Fatalf("outcome %q: %v", d.Outcome, d.Err)
			}
			if got.Method != http.MethodPost || got.RequestURI != "/orders?a=b" || got.Host != strings.TrimPrefix(addr, "http://") {
				t.Errorf("request %s %s to %s", got.Method, got.RequestURI, got.Host)
			}
			if tt.text == "" && string(body) != tt.body {
				t.Errorf("body %q, want %q", body, tt.body)
			}
			for k, v := range tt.want {
				if values := got.Header.Values(k); len(values) > 1 || got.Header.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, values, v)
				}
			}
			if id := got.Header.Get("Qwatch-Message-Id"); len(id) != 36 {
				t.Errorf("message id %q", id)
			}
			if at, err := time.Parse(time.RFC3339, got.Header.Get("Qwatch-Inserted-At")); err != nil || time.Since(at) > time.Minute || at.Location() != time.UTC {
				t.Errorf("inserted at %q", got.Header.Get("Qwatch-Inserted-At"))
			}
		})
	}
}

func TestHeadersAreDecodableAsThePercentEncodingSays(t *testing.T) {
	var got http.Header
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	var all []byte
	for i := range 128 {
		all = append(all, byte(i))
	}
	value := string(all) + "é€😀"
	deliver(t, post(t, forward.HTTPConfig{URL: queue.Secret(addr)}), options{body: "{}", headers: map[string]string{"all": value}})
	decoded, err := url.PathUnescape(got.Get("Qwatch-Header-All"))
	if err != nil || decoded != value {
		t.Errorf("decoded to %q, error %v", decoded, err)
	}
}

func TestTheUrlsUserSignsIn(t *testing.T) {
	var user, password string
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { user, password, _ = r.BasicAuth() })
	h := post(t, forward.HTTPConfig{URL: queue.Secret(strings.Replace(addr, "http://", "http://me:"+urlSecret+"@", 1))})
	if d := deliver(t, h, options{body: "x"}); d.Outcome != completed || user != "me" || password != urlSecret {
		t.Errorf("outcome %q as %q", d.Outcome, user)
	}
}

func TestConnectionsAreKeptForEveryCallAtOnce(t *testing.T) {
	const at = 32
	var connections atomic.Int32
	gate := make(chan struct{}, at)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		gate <- struct{}{}
		for len(gate) < at { // all calls are in flight together
			time.Sleep(time.Millisecond)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	h := post(t, forward.HTTPConfig{URL: queue.Secret(srv.URL), Concurrency: at})
	m := received(t)
	for range 5 {
		var wg sync.WaitGroup
		for range at {
			wg.Go(func() {
				if err := h.Handle(t.Context(), m); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for len(gate) > 0 {
			<-gate
		}
	}
	if n := connections.Load(); n > at {
		t.Errorf("%d connections were opened for %d calls at a time", n, at)
	}
}

func TestBadHTTPConfigurations(t *testing.T) {
	tests := map[string]struct {
		cfg  forward.HTTPConfig
		want string
	}{
		"no URL":                    {forward.HTTPConfig{}, "the handler's URL is not an absolute http or https URL"},
		"a URL that is none":        {forward.HTTPConfig{URL: "http://" + urlSecret + " /"}, "the handler's URL cannot be parsed"},
		"another scheme":            {forward.HTTPConfig{URL: "ftp://" + urlSecret}, "the handler's URL is not an absolute http or https URL"},
		"a negative timeout":        {forward.HTTPConfig{URL: "http://localhost", Timeout: -1}, "the handler's timeout -1ns is negative"},
		"a negative concurrency":    {forward.HTTPConfig{URL: "http://localhost", Concurrency: -1}, "the handler's concurrency -1 is negative"},
		"an unknown form of events": {forward.HTTPConfig{URL: "http://localhost", CloudEvents: "batch"}, "the handler's form of CloudEvents is neither binary nor structured"},
		"several faults":            {forward.HTTPConfig{Timeout: -1}, "the handler's URL is not an absolute http or https URL\nthe handler's timeout -1ns is negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := forward.HTTP(tt.cfg)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

package queue

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/qwatch/qwatch/queue/queuetest"
)

func inProcess(t *testing.T, next policy.Transporter, srv *queuetest.Server) *Queue {
	t.Helper()
	a, err := NewAccount(AccountConfig{Name: "acct", ConnectionString: Secret(srv.ConnectionString()), Transport: next})
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Queue("orders", Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return q
}

// What a failed try leaves open decides about retrying sends and about how a delete ended.
func TestTraceKnowsWhatAFailureLeavesOpen(t *testing.T) {
	for name, c := range map[string]struct {
		fault     queuetest.Fault
		ambiguous bool
		again     bool // by a call that must not act twice
	}{
		"success":                  {queuetest.Fault{}, false, false},
		"refused connection":       {queuetest.Fault{Refuse: true}, false, true},
		"busy":                     {queuetest.Fault{Status: 503}, false, true},
		"too many requests":        {queuetest.Fault{Status: 429}, false, true},
		"not found":                {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, false, false},
		"forbidden":                {queuetest.Fault{Status: 403, Code: "X"}, false, false},
		"bad request":              {queuetest.Fault{Status: 400, Code: "X"}, false, false},
		"internal error":           {queuetest.Fault{Status: 500}, true, false},
		"done, then an error":      {queuetest.Fault{Status: 500, CommitThenFail: true}, true, false},
		"timed out at the service": {queuetest.Fault{Status: 500, Code: "OperationTimedOut"}, true, false},
		"request timeout":          {queuetest.Fault{Status: 408}, true, false},
		"a proxy's 502":            {queuetest.Fault{Status: 502, Code: "X"}, true, false},
		"a proxy's 503":            {queuetest.Fault{Status: 503, Code: "X"}, true, false},
		"lost answer":              {queuetest.Fault{DropResponse: true}, true, false},
		"answer broken off":        {queuetest.Fault{Truncate: true}, true, false},
		"no answer":                {queuetest.Fault{Hang: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := queuetest.New(queuetest.Options{})
				q := inProcess(t, srv, srv)
				c.fault.Times, c.fault.Operation = 1, queuetest.Operation(OpSend)
				srv.Inject(c.fault)
				ctx, trace, cancel := q.acct.unambiguous(t.Context())
				defer cancel()
				_, _ = q.client.EnqueueMessage(ctx, "x", nil)
				if trace.ambiguous != c.ambiguous || trace.tries == 2 != c.again {
					t.Errorf("ambiguous %v, %d tries", trace.ambiguous, trace.tries)
				}
				if trace.ambiguous && srv.Len(queuetest.AccountName, "orders") > 1 {
					t.Error("sent twice")
				}
			})
		})
	}
}

func TestCallsByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		q := inProcess(t, srv, srv)
		srv.SetClockOffset(time.Hour)
		for name, c := range map[string]struct {
			start func() (*callTrace, error)
			tries int
		}{
			"once": {func() (*callTrace, error) {
				ctx, trace, cancel := q.acct.once(t.Context())
				defer cancel()
				_, err := q.client.PeekMessages(ctx, nil)
				return trace, err
			}, 1},
			"idempotent": {func() (*callTrace, error) {
				ctx, trace, cancel := q.acct.idempotent(t.Context())
				defer cancel()
				_, err := q.client.PeekMessages(ctx, nil)
				return trace, err
			}, 4},
		} {
			remove := srv.Inject(queuetest.Fault{Status: 500})
			trace, err := c.start()
			if err == nil || trace.tries != c.tries {
				t.Errorf("%s: %d tries, want %d; %v", name, trace.tries, c.tries, err)
			}
			if d := trace.date.Sub(time.Now().Add(time.Hour)); d > 0 || d <= -time.Second {
				t.Errorf("%s: the service's date is %v off", name, d)
			}
			remove()
		}
	})
}

// A proxy's clock is not the service's.
func TestClockIgnoresAnswersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		proxied := false
		q := inProcess(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := srv.Do(r)
			if proxied {
				resp.Header = http.Header{"Date": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}
			}
			return resp, err
		}), srv)
		proxied = true
		for range 3 {
			_, _ = q.Properties(t.Context())
		}
		if skew, ok := q.acct.Skew(); skew != 0 || !ok {
			t.Errorf("skew %v, %v", skew, ok)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestSkewComesFromAnyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		srv.SetClockOffset(-17 * time.Minute)
		a, err := NewAccount(AccountConfig{Name: "acct", ConnectionString: Secret(srv.ConnectionString()), Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		if skew, ok := a.Skew(); ok {
			t.Errorf("before the first answer it is %v", skew)
		}
		q, err := a.Queue("orders", Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Peek(t.Context(), 1); Classify(err) != ResultAuth {
			t.Fatalf("a clock this far off must be refused: %v", err)
		}
		if skew, ok := a.Skew(); !ok || abs(skew+17*time.Minute) > time.Second {
			t.Errorf("got %v, %v", skew, ok)
		}
		if d := a.Now().Sub(srv.Now()); abs(d) > time.Second {
			t.Errorf("Now is %v off", d)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	const date = "Mon, 02 Jan 2006 15:04:05 GMT"
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":        {http.Header{}, 0},
		"seconds":        {http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"milliseconds":   {http.Header{"X-Ms-Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		"both":           {http.Header{"Retry-After": {"7"}, "X-Ms-Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		"a time":         {http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:04:35 GMT"}, "Date": {date}}, 30 * time.Second},
		"a time passed":  {http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:00:00 GMT"}, "Date": {date}}, 0},
		"negative":       {http.Header{"Retry-After": {"-7"}}, 0},
		"nonsense":       {http.Header{"Retry-After": {"soon"}, "Date": {date}}, 0},
		"beyond belief":  {http.Header{"Retry-After": {"9223372036854775807"}}, 24 * time.Hour},
		"more than that": {http.Header{"Retry-After": {"99999999999999999999"}}, 0},
	} {
		if got := retryAfter(c.header); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestOperationOf(t *testing.T) {
	for request, want := range map[string]struct {
		op    Operation
		queue string
	}{
		"GET /?comp=list&prefix=a":                   {OpList, ""},
		"GET ?comp=list":                             {OpList, ""},
		"GET /?comp=properties&restype=service":      {OpOther, ""},
		"PUT /?comp=list":                            {OpOther, ""},
		"PUT /orders":                                {OpCreate, "orders"},
		"PUT /orders?timeout=3":                      {OpCreate, "orders"},
		"PUT /orders?comp=metadata":                  {OpSetMetadata, "orders"},
		"PUT /orders?comp=acl":                       {OpOther, "orders"},
		"DELETE /orders":                             {OpDeleteQueue, "orders"},
		"GET /orders?comp=metadata":                  {OpProperties, "orders"},
		"HEAD /orders?comp=metadata":                 {OpProperties, "orders"},
		"GET /orders?comp=acl":                       {OpOther, "orders"},
		"GET /orders":                                {OpOther, "orders"},
		"GET /orders/messages":                       {OpReceive, "orders"},
		"GET /orders/messages?numofmessages=3":       {OpReceive, "orders"},
		"GET /orders/messages?x=1&peekonly=true":     {OpPeek, "orders"},
		"GET /orders/messages?peekonly=false":        {OpReceive, "orders"},
		"POST /orders/messages":                      {OpSend, "orders"},
		"DELETE /orders/messages":                    {OpClear, "orders"},
		"PUT /orders/messages":                       {OpOther, "orders"},
		"PUT /orders/messages/id?popreceipt=x":       {OpUpdate, "orders"},
		"DELETE /orders/messages/id?popreceipt=x":    {OpDelete, "orders"},
		"GET /orders/messages/id":                    {OpOther, "orders"},
		"GET /orders/other":                          {OpOther, "orders"},
		"DELETE /orders/messages/id/more?comp=list":  {OpDelete, "orders"},
		"GET /orders/messages?sig=a&xpeekonly=truex": {OpReceive, "orders"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), request[:len(request)-len(after(request))-1], "https://a.example"+after(request), nil)
		if err != nil {
			t.Fatal(err)
		}
		if op, queue := operationOf(r.Method, r.URL.Path, r.URL.RawQuery); op != want.op || queue != want.queue {
			t.Errorf("%s: got %s %q, want %s %q", request, op, queue, want.op, want.queue)
		}
	}
}

func after(request string) string {
	for i, c := range request {
		if c == ' ' {
			return request[i+1:]
		}
	}
	return ""
}

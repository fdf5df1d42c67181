package queue

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Operation is what a storage request does. It is a metric label: the set is closed.
type Operation string

// The operations of the queue service. OpProperties reads a queue's count and metadata; OpOther is
// anything qwatch does not do itself.
const (
	OpReceive     Operation = "receive"
	OpPeek        Operation = "peek"
	OpSend        Operation = "send"
	OpUpdate      Operation = "update"
	OpDelete      Operation = "delete"
	OpClear       Operation = "clear"
	OpProperties  Operation = "properties"
	OpCreate      Operation = "create"
	OpDeleteQueue Operation = "delete_queue"
	OpList        Operation = "list"
	OpSetMetadata Operation = "set_metadata"
	OpOther       Operation = "other"
)

// Operations returns every Operation.
func Operations() []Operation {
	return []Operation{OpReceive, OpPeek, OpSend, OpUpdate, OpDelete, OpClear, OpProperties, OpCreate, OpDeleteQueue, OpList, OpSetMetadata, OpOther}
}

// Result is how a storage request ended. It is a metric label: the set is closed.
type Result string

// The results. ResultAuth covers sign-in, missing permissions and network rules (401, 403);
// ResultThrottled 429 and "503 ServerBusy"; ResultServer the other 5xx; ResultNetwork requests
// without an answer; ResultTimeout those whose time was up; ResultOther the rest, cancellation included.
const (
	ResultOK        Result = "ok"
	ResultNotFound  Result = "not_found"
	ResultConflict  Result = "conflict"
	ResultAuth      Result = "auth"
	ResultThrottled Result = "throttled"
	ResultTimeout   Result = "timeout"
	ResultNetwork   Result = "network"
	ResultServer    Result = "server"
	ResultOther     Result = "other"
)

// Results returns every Result.
func Results() []Result {
	return []Result{ResultOK, ResultNotFound, ResultConflict, ResultAuth, ResultThrottled, ResultTimeout, ResultNetwork, ResultServer, ResultOther}
}

// Request tells of one HTTP exchange with storage: every try is one.
type Request struct {
	Account   string // AccountConfig.Name
	Queue     string // "" for requests about the account
	Operation Operation
	Result    Result
	Duration  time.Duration // from sending to the last byte of the answer
}

// callTrace is what one call (all its tries) learned. It is the call's context as well, which
// saves an allocation on the hot path. The tries of a call run one after another: no locking.
type callTrace struct {
	context.Context
	again     again // nil: never
	tries     int
	ambiguous bool           // a try failed in a way that leaves open whether the service did it
	date      time.Time      // the service's Date of the last answer
	done      *http.Response // the answer, once the service did what it was asked
	listing   string         // the answer to a receive or peek; see listingPolicy
	hint      string         // what would help against the last refusal
}

type callTraceKey struct{}

// Value implements context.Context.
func (t *callTrace) Value(key any) any {
	if key == (callTraceKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// withTrace returns a context whose requests report to the trace.
func withTrace(ctx context.Context) (context.Context, *callTrace) {
	t := &callTrace{Context: ctx}
	return t, t
}

// traceFrom returns the trace of a call, or nil.
func traceFrom(ctx context.Context) *callTrace {
	t, _ := ctx.Value(callTraceKey{}).(*callTrace)
	return t
}

// observer is the policy that counts and times every try, reads the service's clock, and keeps the call's trace.
type observer struct{ a *Account }

// Do implements policy.Policy.
func (o observer) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	begin := time.Now()
	resp, err := req.Next()
	end := time.Now()

	result := resultOf(resp, err)
	date := dateOf(resp)
	if !date.IsZero() && fromService(resp) {
		o.a.clock.observe(date, begin, end)
	}
	op, queue := operationOf(raw.Method, strings.TrimPrefix(raw.URL.Path, o.a.endpoint.base), raw.URL.RawQuery)
	if o.a.cfg.Observe != nil {
		o.a.cfg.Observe(Request{Account: o.a.cfg.Name, Queue: queue, Operation: op, Result: result, Duration: end.Sub(begin)})
	}
	if t := traceFrom(raw.Context()); t != nil {
		t.tries++
		if err == nil && resp.StatusCode < http.StatusBadRequest {
			t.done = resp
		}
		t.hint = ""
		if result == ResultAuth && resp != nil {
			t.hint = o.a.hint(op, resp.Header.Get(headerCode))
		}
		if !date.IsZero() {
			t.date = date
		}
		t.ambiguous = t.ambiguous || uncertain(resp, err)
	}
	return resp, err
}

const (
	headerCode    = "x-ms-error-code"
	headerVersion = "x-ms-version"
	headerRequest = "x-ms-request-id"
)

func dateOf(resp *http.Response) time.Time {
	if resp == nil {
		return time.Time{}
	}
	d, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return d
}

// fromService tells the service's own answers from those of a proxy on the way, whose clock is another.
func fromService(resp *http.Response) bool {
	return resp.Header.Get(headerRequest) != "" || resp.Header.Get(headerVersion) != ""
}

// operationOf reads the operation and the queue off a request. The path is the one below the account.
func operationOf(method, path, query string) (Operation, string) {
	path = strings.Trim(path, "/")
	name, rest, _ := strings.Cut(path, "/")
	switch {
	case name == "":
		if method == http.MethodGet && hasParam(query, "comp=list") {
			return OpList, ""
		}
		return OpOther, ""
	case rest == "":
		return queueOperation(method, query), name
	case rest == "messages":
		switch method {
		case http.MethodGet:
			if hasParam(query, "peekonly=true") {
				return OpPeek, name
			}
			return OpReceive, name
		case http.MethodPost:
			return OpSend, name
		case http.MethodDelete:
			return OpClear, name
		}
	case strings.HasPrefix(rest, "messages/"):
		switch method {
		case http.MethodPut:
			return OpUpdate, name
		case http.MethodDelete:
			return OpDelete, name
		}
	}
	return OpOther, name
}

func queueOperation(method, query string) Operation {
	plain := !hasParam(query, "comp=metadata") && !hasParam(query, "comp=acl")
	switch {
	case method == http.MethodPut && plain:
		return OpCreate
	case method == http.MethodDelete && plain:
		return OpDeleteQueue
	case (method == http.MethodGet || method == http.MethodHead) && hasParam(query, "comp=metadata"):
		return OpProperties
	case method == http.MethodPut && hasParam(query, "comp=metadata"):
		return OpSetMetadata
	default:
		return OpOther
	}
}

func hasParam(query, param string) bool {
	for query != "" {
		var p string
		p, query, _ = strings.Cut(query, "&")
		if p == param {
			return true
		}
	}
	return false
}

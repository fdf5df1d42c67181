package queue_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func TestClassify(t *testing.T) {
	answer := func(status int, code string) error { return &azcore.ResponseError{StatusCode: status, ErrorCode: code} }
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		err  error
		want queue.Result
	}{
		"no error":                   {nil, queue.ResultOK},
		"no such queue":              {answer(404, "QueueNotFound"), queue.ResultNotFound},
		"no such message":            {answer(404, "MessageNotFound"), queue.ResultNotFound},
		"another's receipt":          {answer(400, "PopReceiptMismatch"), queue.ResultConflict},
		"being deleted":              {answer(409, "QueueBeingDeleted"), queue.ResultConflict},
		"wrong key":                  {answer(403, "AuthenticationFailed"), queue.ResultAuth},
		"no token":                   {answer(401, "NoAuthenticationInformation"), queue.ResultAuth},
		"busy":                       {answer(503, "ServerBusy"), queue.ResultThrottled},
		"too many requests":          {answer(429, ""), queue.ResultThrottled},
		"timed out at the service":   {answer(500, "OperationTimedOut"), queue.ResultTimeout},
		"request timeout":            {answer(408, ""), queue.ResultTimeout},
		"internal error":             {answer(500, "InternalError"), queue.ResultServer},
		"a proxy's 502":              {answer(502, ""), queue.ResultServer},
		"503 of a proxy":             {answer(503, ""), queue.ResultServer},
		"bad request":                {answer(400, "InvalidHeaderValue"), queue.ResultOther},
		"a redirect":                 {answer(302, ""), queue.ResultOther},
		"wrapped":                    {fmt.Errorf("x: %w", answer(404, "QueueNotFound")), queue.ResultNotFound},
		"typed":                      {&queue.StorageError{Result: queue.ResultThrottled}, queue.ResultThrottled},
		"deadline":                   {context.DeadlineExceeded, queue.ResultTimeout},
		"canceled":                   {fmt.Errorf("x: %w", context.Canceled), queue.ResultOther},
		"i/o timeout":                {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, queue.ResultTimeout},
		"connection refused":         {dial, queue.ResultNetwork},
		"refused, as a client says":  {&url.Error{Op: "Get", URL: "http://x", Err: dial}, queue.ResultNetwork},
		"dial timeout":               {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, queue.ResultNetwork},
		"name not found":             {&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, queue.ResultNetwork},
		"reset":                      {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, queue.ResultNetwork},
		"broken off":                 {io.ErrUnexpectedEOF, queue.ResultNetwork},
		"closed":                     {fmt.Errorf("x: %w", io.EOF), queue.ResultNetwork},
		"an unknown authority":       {&tls.CertificateVerificationError{Err: errors.New("x509")}, queue.ResultNetwork},
		"no TLS at the other end":    {tls.RecordHeaderError{Msg: "x"}, queue.ResultNetwork},
		"anything else":              {errors.New("x"), queue.ResultOther},
		"a lost lease, without call": {queue.ErrSettled, queue.ResultOther},
	} {
		if got := queue.Classify(c.err); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// refuse lets one operation of a queue fail, and returns the error.
func refuse(t *testing.T, f queuetest.Fault, do func(context.Context, *queue.Queue) error) (err error) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		a, aerr := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		if aerr != nil {
			t.Fatal(aerr)
		}
		q, aerr := a.Queue("orders", queue.Config{})
		if aerr != nil {
			t.Fatal(aerr)
		}
		srv.Inject(f)
		err = do(t.Context(), q)
	})
	return err
}

func TestErrorsTellOperationObjectAndCause(t *testing.T) {
	peek := func(ctx context.Context, q *queue.Queue) error { _, err := q.Peek(ctx, 1); return err }
	for name, c := range map[string]struct {
		fault queuetest.Fault
		do    func(context.Context, *queue.Queue) error
		want  string
	}{
		"receive": {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, func(ctx context.Context, q *queue.Queue) error { _, err := q.Receive(ctx, 1, 0); return err }, "receive from acct/orders: 404 QueueNotFound"},
		"peek":    {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, peek, "peek at acct/orders: 404 QueueNotFound"},
		"send": {queuetest.Fault{Status: 500}, func(ctx context.Context, q *queue.Queue) error {
			_, err := q.Send(ctx, "x", queue.SendOptions{})
			return err
		}, "send to acct/orders: 500 InternalError"},
		"properties":   {queuetest.Fault{Status: 403, Code: "X"}, func(ctx context.Context, q *queue.Queue) error { _, err := q.Properties(ctx); return err }, "read properties of acct/orders: 403 X"},
		"clear":        {queuetest.Fault{Status: 409, Code: "QueueBeingDeleted"}, func(ctx context.Context, q *queue.Queue) error { return q.Clear(ctx) }, "clear acct/orders: 409 QueueBeingDeleted"},
		"create":       {queuetest.Fault{Status: 409, Code: "QueueBeingDeleted"}, func(ctx context.Context, q *queue.Queue) error { return q.Create(ctx) }, "create queue acct/orders: 409 QueueBeingDeleted"},
		"delete queue": {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, func(ctx context.Context, q *queue.Queue) error { return q.Delete(ctx) }, "delete queue acct/orders: 404 QueueNotFound"},
		"list": {queuetest.Fault{Status: 403, Code: "X"}, func(ctx context.Context, q *queue.Queue) error {
			for _, err := range q.Account().Queues(ctx, queue.ListOptions{}) {
				return err
			}
			return nil
		}, "list queues of acct: 403 X"},
		"no answer":   {queuetest.Fault{Hang: true}, peek, "peek at acct/orders: no answer in time"},
		"refused":     {queuetest.Fault{Refuse: true}, peek, "peek at acct/orders: dial tcp: connect: connection refused"},
		"broken off":  {queuetest.Fault{DropResponse: true}, peek, "peek at acct/orders: EOF"},
		"no such dot": {queuetest.Fault{Status: 502, Code: "BadGateway"}, peek, "peek at acct/orders: 502 BadGateway"},
	} {
		t.Run(name, func(t *testing.T) {
			err := refuse(t, c.fault, c.do)
			if message(err) != c.want {
				t.Errorf("\n got %v\nwant %s", err, c.want)
			}
			if joined := fmt.Errorf("run: %w", err); fmt.Sprintf("%+v", joined) != "run: "+c.want {
				t.Errorf("wrapped and printed with %%+v: %+v", joined)
			}
		})
	}
}

func TestErrorsMatchWhatACallerNeeds(t *testing.T) {
	peek := func(ctx context.Context, q *queue.Queue) error { _, err := q.Peek(ctx, 1); return err }
	send := func(ctx context.Context, q *queue.Queue) error {
		_, err := q.Send(ctx, "x", queue.SendOptions{})
		return err
	}
	create := func(ctx context.Context, q *queue.Queue) error { return q.Create(ctx) }
	canceled := func(ctx context.Context, q *queue.Queue) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return peek(ctx, q)
	}
	all := map[string]error{
		"ErrQueueNotFound": queue.ErrQueueNotFound, "ErrLeaseLost": queue.ErrLeaseLost, "ErrTooLarge": queue.ErrTooLarge,
		"DeadlineExceeded": context.DeadlineExceeded, "Canceled": context.Canceled, "ECONNREFUSED": syscall.ECONNREFUSED,
	}
	for name, c := range map[string]struct {
		fault  queuetest.Fault
		do     func(context.Context, *queue.Queue) error
		is     string
		result queue.Result
	}{
		"missing queue":               {queuetest.Fault{Status: 404, Code: "QueueNotFound"}, peek, "ErrQueueNotFound", queue.ResultNotFound},
		"queue being deleted":         {queuetest.Fault{Status: 409, Code: "QueueBeingDeleted"}, send, "ErrQueueNotFound", queue.ResultConflict},
		"being deleted when created":  {queuetest.Fault{Status: 409, Code: "QueueBeingDeleted"}, create, "", queue.ResultConflict},
		"too large":                   {queuetest.Fault{Status: 413, Code: "RequestBodyTooLarge"}, send, "ErrTooLarge", queue.ResultOther},
		"message not found on a peek": {queuetest.Fault{Status: 404, Code: "MessageNotFound"}, peek, "", queue.ResultNotFound},
		"no answer":                   {queuetest.Fault{Hang: true}, peek, "DeadlineExceeded", queue.ResultTimeout},
		"canceled":                    {queuetest.Fault{}, canceled, "Canceled", queue.ResultOther},
		"refused":                     {queuetest.Fault{Refuse: true}, peek, "ECONNREFUSED", queue.ResultNetwork},
		"throttled":                   {queuetest.Busy(time.Minute), peek, "", queue.ResultThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			err := refuse(t, c.fault, c.do)
			for target, is := range all {
				if errors.Is(err, is) != (target == c.is) {
					t.Errorf("errors.Is(%v, %s) is %v", err, target, errors.Is(err, is))
				}
			}
			if got := queue.Classify(err); got != c.result {
				t.Errorf("classified %s, want %s", got, c.result)
			}
			var e *queue.StorageError
			if !errors.As(err, &e) || e.Account != "acct" || e.Queue != "orders" || e.Status != c.fault.Status && c.fault.RetryAfter == 0 {
				t.Errorf("details: %+v", e)
			}
			var sdk *azcore.ResponseError
			if errors.As(err, &sdk) {
				t.Error("the SDK's error, which prints the whole answer, can be reached")
			}
			if name == "throttled" && e.RetryAfter != time.Minute {
				t.Errorf("Retry-After %v", e.RetryAfter)
			}
		})
	}
}

// A SAS is in every URL that goes out, and transports put URLs into their errors.
func TestNoSecretInErrorsAndLogs(t *testing.T) {
	const secret = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"
	fail := func(err error) transportFunc {
		return func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.String(), secret) {
				return nil, fmt.Errorf("%w: the SAS is missing", err)
			}
			return nil, err
		}
	}
	echo := func(status int) transportFunc {
		return func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Header: http.Header{"Content-Type": {"application/xml"}}, Request: r,
				Body: io.NopCloser(strings.NewReader("<Error><Code>Teapot</Code><Message>" + r.URL.String() + "</Message></Error>")),
			}, nil
		}
	}
	for name, transport := range map[string]transportFunc{
		"a client's error": func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("boom")}
		},
		"an error around it": func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("proxy: %w", &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("boom")})
		},
		"a text": func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("cannot reach " + r.URL.String() + " today")
		},
		"a parameter": func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("bad SIG=" + r.URL.Query().Get("sig") + ", sorry")
		},
		"lines":             fail(errors.New("one\ntwo\r\nthree")),
		"an answer":         echo(418),
		"a forbidden":       echo(403),
		"an unknown answer": echo(200),
	} {
		t.Run(name, func(t *testing.T) {
			var l logs
			a := account(t, queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: accountSAS, Transport: transport, Logger: l.logger()})
			q, err := a.Queue("orders", queue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = q.Receive(t.Context(), 1, 0)
			if err == nil {
				t.Fatal("no error")
			}
			slog.New(slog.NewJSONHandler(&l, nil)).Info("m", "error", err)
			shown := fmt.Sprintf("%v %+v %#v %q %s %s", err, err, err, err, errors.Unwrap(err), l.String())
			if strings.Contains(shown, secret) || strings.Contains(shown, "MDEyMz") {
				t.Errorf("the SAS is shown: %s", shown)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "missing") {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestLongCausesAreCut(t *testing.T) {
	a, err := queue.NewAccount(queue.AccountConfig{Name: "acct", Endpoint: "https://acct.queue.core.windows.net", SAS: accountSAS, Transport: transportFunc(func(*http.Request) (*http.Response, error) {
		return nil, errors.New(strings.Repeat("é", 1<<20))
	})})
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.Queue("orders", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Receive(t.Context(), 1, 0); len(err.Error()) > 600 {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

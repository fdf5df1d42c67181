package queuetest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"go.uber.org/goleak"

	"github.com/qwatch/qwatch/queue/queuetest"
)

// faultCases say what a send meets, and how many messages there are after it.
var faultCases = map[string]struct {
	fault  queuetest.Fault
	want   string // outcome; "" is a broken connection
	stored int
}{
	"a fault without effect":      {queuetest.Fault{}, "ok", 1},
	"a status":                    {queuetest.Fault{Status: 500}, "500 InternalError", 0},
	"a status and a code":         {queuetest.Fault{Status: 403, Code: "AccountIsDisabled"}, "403 AccountIsDisabled", 0},
	"a code":                      {queuetest.Fault{Code: "OperationTimedOut"}, "500 OperationTimedOut", 0},
	"a timeout":                   {queuetest.Fault{Status: 408}, "408 OperationTimedOut", 0},
	"throttling":                  {queuetest.Busy(0), "503 ServerBusy", 0},
	"throttling by 429":           {queuetest.Fault{Status: 429}, "429 ServerBusy", 0},
	"a commit that fails":         {queuetest.Fault{CommitThenFail: true}, "500 InternalError", 1},
	"a commit that fails as busy": {queuetest.Fault{CommitThenFail: true, RetryAfter: second}, "503 ServerBusy", 1},
	"a dropped answer":            {queuetest.Fault{DropResponse: true}, "", 1},
	"a refused connection":        {queuetest.Fault{Refuse: true}, "", 0},
	"a truncated answer":          {queuetest.Fault{Truncate: true}, "", 1},
}

func TestFaultsInProcess(t *testing.T) {
	for name, c := range faultCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := queuetest.New(queuetest.Options{})
				q := open(t, s)
				remove := s.Inject(c.fault)
				_, err := q.EnqueueMessage(t.Context(), "a", nil)
				checkFault(t, err, c.want)
				check(t, "messages stored", s.Len(queuetest.AccountName, "orders"), c.stored)
				remove()
				remove()
				_, err = q.EnqueueMessage(t.Context(), "b", nil)
				check(t, "after the fault", outcome(err), "ok")
			})
		})
	}
}

func TestFaultsOverASocket(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, c := range faultCases {
		t.Run(name, func(t *testing.T) {
			s := queuetest.New(queuetest.Options{})
			srv := httptest.NewServer(s)
			defer srv.Close()
			q := openAt(t, s.ConnectionStringAt(srv.URL), srv.Client())
			remove := s.Inject(c.fault)
			_, err := q.EnqueueMessage(t.Context(), "a", nil)
			checkFault(t, err, c.want)
			check(t, "messages stored", s.Len(queuetest.AccountName, "orders"), c.stored)
			remove()
			_, err = q.EnqueueMessage(t.Context(), "b", nil)
			check(t, "after the fault", outcome(err), "ok")
		})
	}
}

func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	if want != "" {
		check(t, "outcome", outcome(err), want)
		return
	}
	var re *azcore.ResponseError
	if err == nil || errors.As(err, &re) {
		t.Errorf("got %v, want a broken connection", err)
	}
}

func TestFaultErrorsAreAnHTTPClients(t *testing.T) {
	s := queuetest.New(queuetest.Options{})
	q := open(t, s)
	s.Inject(queuetest.Fault{Refuse: true, Times: 1})
	_, err := q.EnqueueMessage(t.Context(), "a", nil)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	s.Inject(queuetest.Fault{DropResponse: true, Times: 1})
	_, err = q.EnqueueMessage(t.Context(), "a", nil)
	if !errors.Is(err, io.EOF) {
		t.Errorf("dropped: %v", err)
	}
	s.Inject(queuetest.Fault{Truncate: true, Times: 1})
	_, err = q.EnqueueMessage(t.Context(), "a", nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncated: %v", err)
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	s := queuetest.New(queuetest.Options{NoAuth: true})
	s.Inject(queuetest.Busy(1500 * time.Millisecond))
	resp, _ := plain(t, s, http.MethodGet, s.Endpoint(queuetest.AccountName)+"/orders/messages", "")
	check(t, "status", resp.StatusCode, 503)
	check(t, "Retry-After", resp.Header.Get("Retry-After"), "2")
}

func TestFaultsChooseRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{Accounts: map[string]string{"second": queuetest.AccountKey}, NoAuth: true})
		try := func(account, queue string) int {
			resp, _ := plain(t, s, http.MethodGet, s.Endpoint(account)+"/"+queue+"/messages", "")
			return resp.StatusCode
		}
		remove := s.Inject(queuetest.Fault{Account: "second", Queue: "orders", Operation: queuetest.OpReceive, Status: 418})
		check(t, "another account", try(queuetest.AccountName, "orders"), 404)
		check(t, "another queue", try("second", "invoices"), 404)
		check(t, "the request", try("second", "orders"), 418)
		resp, _ := plain(t, s, http.MethodGet, s.Endpoint("second")+"/orders/messages?peekonly=true", "")
		check(t, "another operation", resp.StatusCode, 404)
		remove()

		s.Inject(queuetest.Fault{Match: func(o queuetest.Op) bool { return o.Queue == "orders" }, Skip: 1, Times: 2, Status: 418})
		for i, want := range []int{404, 418, 418, 404} {
			check(t, "the request number "+string(rune('1'+i)), try("second", "orders"), want)
		}
		s.Inject(queuetest.Fault{Status: 500, Times: 1})
		s.Inject(queuetest.Fault{Status: 501})
		check(t, "the first of two faults", try("second", "other"), 500)
		check(t, "the second of two faults", try("second", "other"), 501)
		s.RemoveFaults()
		s.RemoveFaults()
		check(t, "no fault", try("second", "other"), 404)
	})
}

func TestDelayPassesBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		q := open(t, s)
		s.Inject(queuetest.Fault{Delay: 5 * second, Operation: queuetest.OpSend})
		start := time.Now()
		r, err := q.EnqueueMessage(t.Context(), "a", nil)
		must(t, err)
		check(t, "time taken", time.Since(start), 5*second)
		check(t, "inserted after", r.Messages[0].InsertionTime.Sub(start), 5*second)

		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		_, err = q.EnqueueMessage(ctx, "b", nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("impatient send: %v", err)
		}
		check(t, "messages", s.Texts(queuetest.AccountName, "orders"), "[a]")
	})
}

func TestHangEndsWithTheContextOrTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		q := open(t, s)
		remove := s.Inject(queuetest.Fault{Hang: true, Operation: queuetest.OpSend})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err := q.EnqueueMessage(ctx, "a", nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hanging send: %v", err)
		}
		check(t, "time taken", time.Since(start), time.Hour)
		check(t, "messages", s.Len(queuetest.AccountName, "orders"), 0)

		done := make(chan error)
		go func() {
			_, err := q.EnqueueMessage(t.Context(), "b", nil)
			done <- err
		}()
		synctest.Wait()
		send := s.Requests(queuetest.Op{Operation: queuetest.OpSend})
		check(t, "sends counted while hanging", send, 2)
		p, err := q.PeekMessage(t.Context(), nil) // others go on
		must(t, err)
		check(t, "messages peeked", len(p.Messages), 0)
		remove()
		must(t, <-done)
		check(t, "messages", s.Texts(queuetest.AccountName, "orders"), "[b]")
	})
}

func TestCommittedReceiveThatIsLostHidesTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		q := open(t, s)
		send(t, q, "a")
		s.Inject(queuetest.Fault{DropResponse: true, Operation: queuetest.OpReceive, Times: 1})
		if _, err := q.DequeueMessage(t.Context(), nil); err == nil {
			t.Fatal("the answer was not lost")
		}
		check(t, "visible", s.Messages(queuetest.AccountName, "orders")[0].Visible, false)
		time.Sleep(30 * second)
		check(t, "dequeue count", *receive(t, q).DequeueCount, 2)
	})
}

func TestSDKRetriesThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := queuetest.New(queuetest.Options{})
		open(t, s)
		q, err := azqueue.NewQueueClientFromConnectionString(s.ConnectionString(), "orders", &azqueue.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: s},
		})
		must(t, err)
		s.Inject(queuetest.Fault{Operation: queuetest.OpSend, CommitThenFail: true, Times: 1})
		s.Inject(queuetest.Busy(7 * second))
		time.AfterFunc(10*second, s.RemoveFaults)
		_, err = q.EnqueueMessage(t.Context(), "a", nil)
		must(t, err)
		check(t, "messages stored by one send with a lost answer", s.Texts(queuetest.AccountName, "orders"), "[a a]")
	})
}

func TestHangOverASocketEndsWhenTheClientLeaves(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := queuetest.New(queuetest.Options{})
	srv := httptest.NewServer(s)
	q := openAt(t, s.ConnectionStringAt(srv.URL), srv.Client())
	s.Inject(queuetest.Fault{Hang: true, Operation: queuetest.OpSend})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for s.Requests(queuetest.Op{Operation: queuetest.OpSend}) == 0 {
			runtime.Gosched()
		}
		cancel()
	}()
	_, err := q.EnqueueMessage(ctx, "a", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("hanging send: %v", err)
	}
	srv.Close() // waits for the request to end
	check(t, "messages", s.Len(queuetest.AccountName, "orders"), 0)
}

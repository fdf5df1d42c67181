package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

type fixture struct {
	*testing.T
	srv  *queuetest.Server
	acct *queue.Account
	q    *queue.Queue
	ctx  context.Context
}

// each runs a test in fake time against the in-process service, on a queue named orders.
func each(t *testing.T, cfg queue.Config, run func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		acct := account(t, queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		defer acct.Close()
		q, err := acct.Queue("orders", cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !cfg.CreateIfMissing {
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		run(&fixture{T: t, srv: srv, acct: acct, q: q, ctx: t.Context()})
	})
}

func (f *fixture) send(body any, o queue.SendOptions) queue.SendResult {
	f.Helper()
	r, err := f.q.Send(f.ctx, body, o)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// one receives exactly one message.
func (f *fixture) one(lease time.Duration) *queue.Message {
	f.Helper()
	ms, err := f.q.Receive(f.ctx, 32, lease)
	if err != nil || len(ms) != 1 {
		f.Fatalf("received %d messages, error %v", len(ms), err)
	}
	return ms[0]
}

func (f *fixture) count() int64 {
	f.Helper()
	p, err := f.q.Properties(f.ctx)
	if err != nil {
		f.Fatal(err)
	}
	return p.ApproximateMessages
}

// requests counts those made about the queue.
func (f *fixture) requests(op queue.Operation) int {
	return f.srv.Requests(queuetest.Op{Account: queuetest.AccountName, Queue: "orders", Operation: queuetest.Operation(op)})
}

func (f *fixture) inject(op queue.Operation, fault queuetest.Fault) {
	fault.Operation = queuetest.Operation(op)
	f.Cleanup(f.srv.Inject(fault))
}

func TestSendGoesOutAsTheSerializerWroteIt(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for body, want := range map[any]string{
			struct {
				OrderID int `json:"orderId"`
			}{42}: `{"orderId":42}`,
			"plain text, <b> & \"quotes\"": "plain text, <b> & \"quotes\"",
		} {
			r := f.send(body, queue.SendOptions{})
			m := f.one(time.Minute)
			if m.Text != want || string(m.Body) != want || m.ID != r.ID || m.DequeueCount != 1 {
				t.Errorf("received %q as message %s, want %q as %s", m.Text, m.ID, want, r.ID)
			}
			if got := r.ExpiresAt.Sub(r.InsertedAt); got != queue.DefaultTTL {
				t.Errorf("lives %v, want %v", got, queue.DefaultTTL)
			}
			if err := m.Complete(f.ctx); err != nil || m.Settlement() != queue.Completed {
				t.Errorf("complete: %v, %v", err, m.Settlement())
			}
		}
	})
}

func TestSendChecksBeforeAnyRequest(t *testing.T) {
	big := strings.Repeat("x", queue.MaxTextBytes)
	tests := map[string]struct {
		body any
		cfg  queue.Config
		opts queue.SendOptions
		want string
	}{
		"a body one byte too large":               {body: big + "x", want: "65537 bytes on the wire"},
		"Base64 counts":                           {body: big[:50000], cfg: queue.Config{Encoding: queue.EncodingBase64}, want: "66668 bytes on the wire"},
		"the envelope counts":                     {body: big, opts: queue.SendOptions{Headers: map[string]string{"a": "b"}}, want: "bytes on the wire"},
		"a character XML forbids":                 {body: "a\x00", want: "character U+0000 at byte 1"},
		"bytes that are not UTF-8":                {body: []byte{0xff}, want: "byte 0 of the text is not UTF-8"},
		"a negative delay":                        {body: "x", opts: queue.SendOptions{Delay: -time.Second}, want: "delay -1s is outside"},
		"a delay over 7 days":                     {body: "x", opts: queue.SendOptions{Delay: 8 * 24 * time.Hour}, want: "delay 192h0m0s is outside 0s to 7 days"},
		"a delay in fractions of a second":        {body: "x", opts: queue.SendOptions{Delay: 1500 * time.Millisecond}, want: "not in whole seconds"},
		"a delay that outlives the message":       {body: "x", opts: queue.SendOptions{Delay: time.Minute, TimeToLive: time.Minute}, want: "not shorter than the message lives, 1m0s"},
		"a delay that outlives the default of 7d": {body: "x", opts: queue.SendOptions{Delay: 7 * 24 * time.Hour}, want: "not shorter than the message lives"},
		"a time to live below a second":           {body: "x", opts: queue.SendOptions{TimeToLive: time.Millisecond}, want: "time to live 1ms"},
		"a time to live of -2":                    {body: "x", opts: queue.SendOptions{TimeToLive: -2}, want: "time to live -2ns"},
		"a value that is not JSON":                {body: func() {}, want: "write the body as text"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, tc.cfg, func(f *fixture) {
				before := f.requests(queue.OpSend)
				_, err := f.q.Send(f.ctx, tc.body, tc.opts)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "send to acct/orders: ") {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if errors.Is(err, queue.ErrTooLarge) != strings.Contains(tc.want, "on the wire") {
					t.Errorf("%v: wrong kind", err)
				}
				if n := f.requests(queue.OpSend); n != before {
					t.Errorf("%d requests were made", n-before)
				}
			})
		})
	}
}

func TestSendOptionsReachTheService(t *testing.T) {
	each(t, queue.Config{Encoding: queue.EncodingBase64, PropagateTraceContext: true, TypeHeader: "kind"}, func(f *fixture) {
		ctx := queue.ContextWithTrace(f.ctx, queue.TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b"})
		headers := map[string]string{"tenant": "contoso"}
		r, err := f.q.Send(ctx, []byte{0, 1, 2}, queue.SendOptions{Delay: 7 * 24 * time.Hour, TimeToLive: queue.Never, Headers: headers, MessageType: "OrderCreated"})
		if err != nil {
			t.Fatal(err)
		}
		if r.ExpiresAt.Year() != 9999 || r.NextVisibleAt.Sub(r.InsertedAt) != 7*24*time.Hour {
			t.Errorf("expires %v, visible %v after insertion", r.ExpiresAt, r.NextVisibleAt.Sub(r.InsertedAt))
		}
		time.Sleep(7*24*time.Hour + time.Second)
		m := f.one(time.Minute)
		if m.Err != nil || string(m.Body) != "\x00\x01\x02" || m.TraceParent[:5] != "00-0a" || m.TraceState != "a=b" || m.Type() != "OrderCreated" {
			t.Errorf("received %+v", m)
		}
		if d := cmp.Diff(map[string]string{"tenant": "contoso", "kind": "OrderCreated"}, m.Headers); d != "" {
			t.Error(d)
		}
		if len(headers) != 1 {
			t.Error("the caller's headers were changed")
		}
		if m.Age() != 7*24*time.Hour+time.Second {
			t.Errorf("age %v", m.Age())
		}
	})
}

func TestUnreadableMessageComesBesideHealthyOnes(t *testing.T) {
	each(t, queue.Config{Encoding: queue.EncodingBase64}, func(f *fixture) {
		f.send("one", queue.SendOptions{})
		if _, err := f.q.SendText(f.ctx, "not base64!", queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		f.send("two", queue.SendOptions{})
		ms, err := f.q.Receive(f.ctx, 32, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range ms {
			if m.Err != nil {
				got = append(got, "unreadable "+m.Text)
				continue
			}
			got = append(got, string(m.Body))
		}
		if d := cmp.Diff([]string{"one", "unreadable not base64!", "two"}, got); d != "" {
			t.Error(d)
		}
		if lease := time.Until(ms[0].LeaseExpires()); lease != 30*time.Second {
			t.Errorf("hidden for %v, want 30s unless told", lease)
		}
	})
}

func TestNewestReceiptIsAlwaysUsed(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		const body = "  a\r\nb \u00e9 <&> "
		f.send(body, queue.SendOptions{})
		m := f.one(10 * time.Second)
		for range 5 {
			time.Sleep(8 * time.Second)
			if err := m.Renew(f.ctx, 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Abandon(f.ctx, 0); err != nil || m.Settlement() != queue.Abandoned {
			t.Fatalf("abandon: %v", err)
		}
		if err := m.Complete(f.ctx); !errors.Is(err, queue.ErrSettled) {
			t.Errorf("complete after abandon: %v", err)
		}
		m = f.one(10 * time.Second)
		if m.Text != body || m.DequeueCount != 2 {
			t.Errorf("renewing made %q of %q, delivery %d", m.Text, body, m.DequeueCount)
		}
	})
}

func TestLostLease(t *testing.T) {
	for _, notFound := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := queuetest.New(queuetest.Options{LostLeaseNotFound: notFound})
			acct := account(t, queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
			q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true})
			if err != nil {
				t.Fatal(err)
			}
			f := &fixture{T: t, srv: srv, acct: acct, q: q, ctx: t.Context()}
			f.send("x", queue.SendOptions{})
			mine := f.one(time.Second)
			time.Sleep(2 * time.Second)
			theirs := f.one(time.Minute)
			for name, err := range map[string]error{"renew": mine.Renew(f.ctx, time.Minute), "complete": mine.Complete(f.ctx), "abandon": mine.Abandon(f.ctx, 0)} {
				if !errors.Is(err, queue.ErrLeaseLost) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if n := f.requests(queue.OpDelete); n != 0 {
				t.Errorf("%d deletes with a dead receipt", n)
			}
			if err := theirs.Complete(f.ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExpiredLeaseStillDeletesWhenNobodyTookTheMessage(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.send("x", queue.SendOptions{})
		m := f.one(time.Second)
		time.Sleep(time.Minute)
		if err := m.Complete(f.ctx); err != nil {
			t.Error(err)
		}
	})
}

// B48: the delete was done, its response lost, and the retry finds nothing.
func TestDeleteWhoseResponseWasLostIsDone(t *testing.T) {
	for name, fault := range map[string]queuetest.Fault{"dropped": {DropResponse: true, Times: 1}, "500": {CommitThenFail: true, Times: 1}} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				f.send("x", queue.SendOptions{})
				m := f.one(time.Minute)
				f.inject(queue.OpDelete, fault)
				if err := m.Complete(f.ctx); err != nil || !m.AmbiguousDelete() || m.Settlement() != queue.Completed {
					t.Errorf("complete: %v, ambiguous %v, %v", err, m.AmbiguousDelete(), m.Settlement())
				}
			})
		})
	}
}

// Q15: a receive is never retried, a send only when the service certainly refused it.
func TestRetriesByOperation(t *testing.T) {
	tests := map[string]struct {
		op    queue.Operation
		fault queuetest.Fault
		do    func(f *fixture) error
		tries int64
		fails bool
		on    int64 // messages on the queue afterwards
	}{
		"a receive that fails":                      {queue.OpReceive, queuetest.Fault{Status: 500, Times: 1}, receive, 1, true, 0},
		"a receive that is throttled":               {queue.OpReceive, queuetest.Busy(time.Second), receive, 1, true, 0},
		"a send refused as busy":                    {queue.OpSend, queuetest.Fault{Status: 503, RetryAfter: time.Second, Times: 2}, send(false), 3, false, 1},
		"a send whose response is lost":             {queue.OpSend, queuetest.Fault{DropResponse: true, Times: 1}, send(false), 1, true, 1},
		"a send answered 500":                       {queue.OpSend, queuetest.Fault{CommitThenFail: true, Times: 1}, send(false), 1, true, 1},
		"a send that may be doubled":                {queue.OpSend, queuetest.Fault{DropResponse: true, Times: 1}, send(true), 2, false, 2},
		"a send to a closed port":                   {queue.OpSend, queuetest.Fault{Refuse: true, Times: 1}, send(false), 2, false, 1},
		"reading properties is tried again":         {queue.OpProperties, queuetest.Fault{Status: 500, Times: 2}, properties, 3, false, 0},
		"reading properties, storage gone for long": {queue.OpProperties, queuetest.Fault{Status: 500}, properties, 4, true, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				remove := f.srv.Inject(func() queuetest.Fault { x := tc.fault; x.Operation = queuetest.Operation(tc.op); return x }())
				err := tc.do(f)
				if (err != nil) != tc.fails {
					t.Errorf("error %v", err)
				}
				if n := int64(f.requests(tc.op)); n != tc.tries {
					t.Errorf("%d tries, want %d", n, tc.tries)
				}
				remove()
				if n := f.count(); n != tc.on {
					t.Errorf("%d messages on the queue, want %d", n, tc.on)
				}
			})
		})
	}
}

func receive(f *fixture) error    { _, err := f.q.Receive(f.ctx, 1, 0); return err }
func properties(f *fixture) error { _, err := f.q.Properties(f.ctx); return err }
func send(twice bool) func(f *fixture) error {
	return func(f *fixture) error {
		_, err := f.q.Send(f.ctx, "x", queue.SendOptions{AllowDuplicates: twice})
		return err
	}
}

// Q15: every call ends, each try sooner.
func TestEveryCallHasADeadline(t *testing.T) {
	for name, do := range map[string]func(f *fixture) error{
		"receive": receive, "send": send(true), "properties": properties,
		"peek":  func(f *fixture) error { _, err := f.q.Peek(f.ctx, 1); return err },
		"clear": func(f *fixture) error { return f.q.Clear(f.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				f.inject("", queuetest.Fault{Hang: true})
				start := time.Now()
				err := do(f)
				if took := time.Since(start); err == nil || took > 30*time.Second || took < 10*time.Second {
					t.Errorf("took %v, error %v", took, err)
				}
				if queue.Classify(err) != queue.ResultTimeout {
					t.Errorf("%v is %s", err, queue.Classify(err))
				}
			})
		})
	}
}

func TestCreateIfMissing(t *testing.T) {
	each(t, queue.Config{CreateIfMissing: true}, func(f *fixture) {
		if n := f.requests(queue.OpCreate); n != 0 {
			t.Errorf("%d creates before first use", n)
		}
		f.send("x", queue.SendOptions{})
		f.one(time.Second)
	})
	each(t, queue.Config{}, func(f *fixture) {
		missing, err := f.acct.Queue("missing", queue.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := missing.Send(f.ctx, "x", queue.SendOptions{}); !errors.Is(err, queue.ErrQueueNotFound) {
			t.Errorf("send to a missing queue: %v", err)
		}
		if _, err := missing.Poison().Send(f.ctx, "x", queue.SendOptions{}); err != nil {
			t.Errorf("a missing poison queue is created on first use: %v", err)
		}
	})
}

func TestPropertiesWithoutACountAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			resp, err := srv.Do(r)
			if err == nil {
				resp.Header.Del("X-Ms-Approximate-Messages-Count")
				delete(resp.Header, "x-ms-approximate-messages-count")
			}
			return resp, err
		})})
		if err != nil {
			t.Fatal(err)
		}
		q := created(t, acct, queue.Config{})
		if p, err := q.Properties(t.Context()); err == nil {
			t.Errorf("got %+v without an error", p)
		}
	})
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestPeekChangesNothing(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		f.send(json.RawMessage(`{"a":1}`), queue.SendOptions{TimeToLive: time.Hour})
		for range 3 {
			time.Sleep(time.Minute)
			p, err := f.q.Peek(f.ctx, 32)
			if err != nil || len(p.Messages) != 1 || p.Messages[0].DequeueCount != 0 || string(p.Messages[0].Body) != `{"a":1}` {
				t.Fatalf("peeked %+v, error %v", p, err)
			}
			if err := p.Messages[0].Complete(f.ctx); !errors.Is(err, queue.ErrNotLeased) {
				t.Errorf("complete a peeked message: %v", err)
			}
		}
		if err := f.q.Clear(f.ctx); err != nil || f.count() != 0 {
			t.Errorf("clear: %v, %d left", err, f.count())
		}
	})
}

func TestReceiveRefusesWhatTheServiceWould(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for _, n := range []int{0, -1, 33} {
			if _, err := f.q.Receive(f.ctx, n, 0); err == nil {
				t.Errorf("receive of %d passes", n)
			}
		}
		for _, v := range []time.Duration{-time.Second, time.Millisecond, 1500 * time.Millisecond, 7*24*time.Hour + time.Second} {
			if _, err := f.q.Receive(f.ctx, 1, v); err == nil {
				t.Errorf("visibility timeout %v passes", v)
			}
		}
		if n := f.requests(queue.OpReceive); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestQueueConfigurationIsCheckedAsAWhole(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		for name, tc := range map[string]struct {
			queue string
			cfg   queue.Config
			want  []string
		}{
			"a long name without a poison name": {strings.Repeat("q", 57), queue.Config{}, []string{"57 characters", "set the poison queue's name"}},
			"a poison queue that is the queue":  {"orders", queue.Config{PoisonQueue: "orders"}, []string{"is the queue itself"}},
			"several faults":                    {"Bad_Name", queue.Config{Encoding: 9, VisibilityTimeout: 1, PoisonTimeToLive: 1}, []string{"Bad_Name", "encoding 9", "visibility timeout 1ns", "poison time to live"}},
		} {
			_, err := f.acct.Queue(tc.queue, tc.cfg)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v, want %q", name, err, want)
				}
			}
		}
		if _, err := f.acct.Queue(strings.Repeat("q", 57), queue.Config{PoisonQueue: "bad"}); err != nil {
			t.Error(err)
		}
		if _, err := f.acct.Queue(strings.Repeat("q", 56), queue.Config{}); err != nil {
			t.Error(err)
		}
	})
}

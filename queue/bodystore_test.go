package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// Q10: what does not fit the wire goes to the store, deleted on completion, kept otherwise.
func TestLargeBodies(t *testing.T) {
	large := strings.Repeat("x", queue.MaxTextBytes+1)
	for name, tc := range map[string]struct {
		cfg    queue.Config
		body   string
		opts   queue.SendOptions
		stored int // bytes; −1: fewer than the body has
	}{
		"64 KiB stay":                        {body: large[1:]},
		"one byte more goes":                 {body: large, stored: len(large)},
		"Base64 counts":                      {cfg: queue.Config{Encoding: queue.EncodingBase64}, body: large[:50000], stored: 50000},
		"the envelope counts":                {body: large[1:], opts: queue.SendOptions{Headers: map[string]string{"a": "b"}}, stored: len(large) - 1},
		"the type is sent along":             {body: large, opts: queue.SendOptions{MessageType: "Order"}, stored: len(large)},
		"a threshold sends smaller ones":     {cfg: queue.Config{BodyStoreThreshold: 100}, body: large[:100], stored: 100},
		"below the threshold":                {cfg: queue.Config{BodyStoreThreshold: 100}, body: large[:99]},
		"compression may keep it here":       {cfg: queue.Config{Compress: true}, body: large},
		"compression applies to what goes":   {cfg: queue.Config{Compress: true, BodyStoreThreshold: 1024}, body: large, stored: -1},
		"what gzip cannot shrink goes as is": {cfg: queue.Config{Compress: true, CompressionThreshold: 1, BodyStoreThreshold: 1}, body: "abc", stored: 3},
		"bytes the wire cannot carry":        {cfg: queue.Config{BodyStoreThreshold: 2}, body: "\x00\xff\r\n", stored: 4},
		"no bytes at all":                    {cfg: queue.Config{BodyStoreThreshold: 1}, body: ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory()
			tc.cfg.BodyStore = store
			each(t, tc.cfg, func(f *fixture) {
				f.send(tc.body, tc.opts)
				stored := 0
				for _, b := range store.bodies {
					stored += len(b)
				}
				if stored != tc.stored && (tc.stored != -1 || stored == 0 || stored > 1000) {
					t.Errorf("%d bytes in the store, want %d", stored, tc.stored)
				}
				p, err := f.q.Peek(f.ctx, 1)
				if err != nil || len(p.Messages) != 1 || string(p.Messages[0].Body) != tc.body {
					t.Fatalf("peeked %+v, error %v", p, err)
				}
				m := f.one(0)
				if m.Err != nil || string(m.Body) != tc.body || m.Type() != tc.opts.MessageType || m.Headers["a"] != tc.opts.Headers["a"] {
					t.Fatalf("received %d bytes, headers %v, error %v", len(m.Body), m.Headers, m.Err)
				}
				text := m.Text
				if err := m.Renew(f.ctx, time.Minute); err != nil {
					t.Fatal(err)
				}
				if got := f.srv.Texts(queuetest.AccountName, "orders"); got[0] != text {
					t.Errorf("renewing made %s of %s", got[0], text)
				}
				kept := store.count()
				if err := m.Abandon(f.ctx, 0); err != nil || store.count() != kept {
					t.Errorf("abandoning: %v, %d bodies kept of %d", err, store.count(), kept)
				}
				m = f.one(0)
				if err := m.Complete(f.ctx); err != nil || store.count() != 0 {
					t.Errorf("completing: %v, %d bodies left behind", err, store.count())
				}
			})
		})
	}
}

func TestLargeBodyOutlivesDeadLettering(t *testing.T) {
	store := newMemory()
	body := strings.Repeat("x", 100000)
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		f.send(body, queue.SendOptions{Headers: map[string]string{"tenant": "contoso"}})
		if err := poison.Move(f.ctx, f.one(0), poison.CategoryHandler, "boom"); err != nil {
			t.Fatal(err)
		}
		l, err := poison.List(f.ctx, f.q)
		if err != nil || len(l.Entries) != 1 || store.count() != 1 {
			t.Fatalf("listed %+v, error %v, %d bodies", l, err, store.count())
		}
		e := l.Entries[0]
		if e.Reason != "boom" || e.Headers["tenant"] != "contoso" || string(e.Message().Body) != body {
			t.Errorf("listed %+v", e)
		}
		ms, err := f.q.Poison().Receive(f.ctx, 1, 0)
		if err != nil || len(ms) != 1 {
			t.Fatal(err)
		}
		if err := ms[0].Complete(f.ctx); err != nil || store.count() != 0 {
			t.Errorf("purging: %v, %d bodies left", err, store.count())
		}
	})
}

// P4: a full message whose record fits in no other way leaves its body in the store.
func TestPoisonCopyUsesTheStore(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		body := noise(queue.MaxTextBytes)
		f.send(body, queue.SendOptions{})
		if store.count() != 0 {
			t.Fatal("the message itself did not fit")
		}
		remove := f.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Skip: 1, Status: 403, Code: "AuthorizationFailure"})
		m := f.one(0)
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "boom"); err == nil {
			t.Fatal("moved although the poison queue refuses")
		}
		if store.count() != 0 {
			t.Errorf("a copy that was refused left %d bodies behind", store.count())
		}
		remove()
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "boom"); err != nil {
			t.Fatal(err)
		}
		l, err := poison.List(f.ctx, f.q)
		if err != nil || len(l.Entries) != 1 || l.Entries[0].Reason != "boom" || string(l.Entries[0].Message().Body) != body || store.count() != 1 {
			t.Fatalf("listed %+v, error %v, %d bodies", l, err, store.count())
		}
	})
	// Without it, or when it is away, the copy goes bare, as before.
	store.put = errors.New("away")
	for _, s := range []queue.BodyStore{nil, store} {
		each(t, queue.Config{BodyStore: s}, func(f *fixture) {
			body := noise(queue.MaxTextBytes)
			f.send(body, queue.SendOptions{})
			if err := poison.Move(f.ctx, f.one(0), poison.CategoryHandler, "boom"); err != nil {
				t.Fatal(err)
			}
			if got := f.srv.Texts(queuetest.AccountName, "orders-poison"); len(got) != 1 || got[0] != body {
				t.Errorf("%d copies", len(got))
			}
		})
	}
}

// Q10: a failed upload sends nothing; a failed send leaves nothing, unless nobody knows whether it failed.
func TestLargeBodyThatIsNotSent(t *testing.T) {
	body := strings.Repeat("x", 100000)
	for name, tc := range map[string]struct {
		put        error
		fault      *queuetest.Fault
		opts       queue.SendOptions
		want       string
		sent, left int
	}{
		"the upload fails":              {put: errors.New("disk full"), want: "put the body of 100000 bytes into its store: disk full"},
		"the send is refused":           {fault: &queuetest.Fault{Status: 403, Code: "AuthorizationFailure"}, want: "403"},
		"the port is closed":            {fault: &queuetest.Fault{Refuse: true}, want: "refused"},
		"the response is lost":          {fault: &queuetest.Fault{DropResponse: true}, want: "send to acct/orders", sent: 1, left: 1},
		"the send is answered with 500": {fault: &queuetest.Fault{CommitThenFail: true}, want: "500", sent: 1, left: 1},
		"an option is wrong":            {opts: queue.SendOptions{Delay: -time.Second}, want: "delay -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory()
			store.put = tc.put
			each(t, queue.Config{BodyStore: store}, func(f *fixture) {
				if tc.fault != nil {
					f.inject(queue.OpSend, *tc.fault)
				}
				_, err := f.q.Send(f.ctx, body, tc.opts)
				if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "send to acct/orders: ") {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if n := f.srv.Len(queuetest.AccountName, "orders"); n != tc.sent || store.count() != tc.left {
					t.Errorf("%d messages, %d bodies; want %d, %d", n, store.count(), tc.sent, tc.left)
				}
			})
		})
	}
}

func TestBodyStoreWhoseReferenceNobodyCanCarry(t *testing.T) {
	for _, ref := range []string{"", "x", "{", `"a` + "\x01" + `"`, ` "a"`} {
		each(t, queue.Config{BodyStore: odd{newMemory(), ref}, BodyStoreThreshold: 1}, func(f *fixture) {
			if _, err := f.q.Send(f.ctx, "body", queue.SendOptions{}); err == nil || f.srv.Len(queuetest.AccountName, "orders") != 0 {
				t.Errorf("reference %q: error %v", ref, err)
			}
		})
	}
}

// A reference can be too large as well: the body does not stay behind.
func TestBodyStoreWhoseReferenceDoesNotFit(t *testing.T) {
	store := newMemory()
	long := `"body-1` + strings.Repeat(" ", queue.MaxTextBytes) + `"`
	each(t, queue.Config{BodyStore: odd{store, long}, BodyStoreThreshold: 1}, func(f *fixture) {
		deleted := false
		store.gone = func() { deleted = true }
		if _, err := f.q.Send(f.ctx, "body", queue.SendOptions{}); !errors.Is(err, queue.ErrTooLarge) || !deleted {
			t.Errorf("error %v, deleted %v", err, deleted)
		}
	})
}

type odd struct {
	*memory
	ref string
}

func (s odd) Put(context.Context, []byte) (json.RawMessage, error) {
	return json.RawMessage(s.ref), nil
}

// Q10: what cannot be fetched, ever, comes beside the healthy ones, and moves unchanged in reference.
func TestLargeBodyThatCannotBeHad(t *testing.T) {
	store := newMemory()
	gone := `{"$azqs-envelope":1,"headers":{"a":"b"},"blob":"body-77"}`
	foreign := `{"$azqs-envelope":1,"blob":{"container":"theirs"}}`
	each(t, queue.Config{BodyStore: store, MaxBodyBytes: 5000}, func(f *fixture) {
		f.send("small", queue.SendOptions{})
		for _, text := range []string{gone, foreign} {
			if _, err := f.q.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		f.send(strings.Repeat("x", 100000), queue.SendOptions{}) // over the reader's limit
		ms, err := f.q.Receive(f.ctx, 32, 0)
		if err != nil || len(ms) != 4 {
			t.Fatalf("received %d, error %v", len(ms), err)
		}
		if ms[0].Err != nil || string(ms[0].Body) != "small" {
			t.Errorf("the healthy one: %v", ms[0].Err)
		}
		for i, want := range []string{"the body is gone", "not a reference of this store", "are too many"} {
			if m := ms[i+1]; !errors.Is(m.Err, queue.ErrUnreadable) || m.Body != nil || !strings.Contains(m.Err.Error(), want) {
				t.Errorf("error %v, want %q", m.Err, want)
			}
		}
		if n := store.asked(); n != 2 {
			t.Errorf("%d fetches: a foreign reference is none", n)
		}
		if err := poison.Move(f.ctx, ms[1], poison.CategoryDeserialization, "gone"); err != nil {
			t.Fatal(err)
		}
		want := `"headers":{"a":"b"},"deadLetter":{"reason":"gone"`
		if got := f.srv.Texts(queuetest.AccountName, "orders-poison")[0]; !strings.Contains(got, want) || !strings.Contains(got, `"blob":"body-77"`) {
			t.Errorf("copied as %s", got)
		}
	})
}

package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// memory is a body store in memory, with faults.
type memory struct {
	mu      sync.Mutex
	bodies  map[string][]byte
	put     error
	fetch   func(ctx context.Context, ref string) error
	fetches int
	most    int // fetches at a time
	running int
}

func newMemory() *memory { return &memory{bodies: map[string][]byte{}} }

func (s *memory) Put(_ context.Context, body []byte) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil {
		return nil, s.put
	}
	name := fmt.Sprint("body-", len(s.bodies)+1)
	s.bodies[name] = bytes.Clone(body)
	return json.RawMessage(`"` + name + `"`), nil
}

func (s *memory) name(ref json.RawMessage) (string, error) {
	var name string
	if json.Unmarshal(ref, &name) != nil || !strings.HasPrefix(name, "body-") {
		return "", fmt.Errorf("%w: not a reference of this store", queue.ErrUnreadable)
	}
	return name, nil
}

func (s *memory) Fetch(ctx context.Context, ref json.RawMessage, limit int) ([]byte, error) {
	name, err := s.name(ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.fetches++
	s.running++
	s.most = max(s.most, s.running)
	fault := s.fetch
	s.mu.Unlock()
	if fault != nil {
		err = fault(ctx, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	b, ok := s.bodies[name]
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%w: the body is gone", queue.ErrUnreadable)
	case len(b) > limit:
		return nil, fmt.Errorf("%w: %d bytes are too many", queue.ErrUnreadable, len(b))
	}
	return bytes.Clone(b), nil
}

func (s *memory) Delete(_ context.Context, ref json.RawMessage) error {
	name, err := s.name(ref)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, name)
	return nil
}

func (s *memory) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

func (s *memory) fail(f func(ctx context.Context, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetch = f
}

func (s *memory) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// checked is a store that can tell whether it is there.
type checked struct {
	*memory
	down   error
	checks int
}

func (s *checked) Check(context.Context) error { s.checks++; return s.down }

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

// What may pass is not held against a message: it is released, for longer each time, and only the
// fifth delivery hands it out.
func TestLargeBodyThatCannotBeHadForNow(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		f.send(strings.Repeat("x", 100000), queue.SendOptions{})
		f.send("small", queue.SendOptions{})
		store.fail(func(context.Context, string) error { return errors.New("503 ServerBusy") })
		ms, err := f.q.Receive(f.ctx, 32, 0)
		if err != nil || len(ms) != 1 || string(ms[0].Body) != "small" {
			t.Fatalf("received %d messages, error %v", len(ms), err)
		}
		if err := ms[0].Complete(f.ctx); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var away []float64
		for {
			for f.srv.Messages(queuetest.AccountName, "orders")[0].Visible == false {
				time.Sleep(time.Second)
			}
			away = append(away, time.Since(start).Minutes())
			start = time.Now()
			ms, err = f.q.Receive(f.ctx, 32, 0)
			if len(ms) > 0 {
				break
			}
			if err == nil || errors.Is(err, queue.ErrUnreadable) || !strings.Contains(err.Error(), "receive from acct/orders: fetch the body from its store: 503 ServerBusy") {
				t.Fatalf("nothing was received: %v", err)
			}
		}
		if d := cmp.Diff([]float64{1, 2, 4, 5}, away); d != "" {
			t.Error(d)
		}
		m := ms[0]
		if m.DequeueCount != 5 || !errors.Is(m.Err, queue.ErrUnreadable) || !strings.Contains(m.Err.Error(), "at delivery 5: fetch the body") {
			t.Errorf("delivery %d: %v", m.DequeueCount, m.Err)
		}
		if store.count() != 1 {
			t.Error("the body is gone")
		}
	})
}

// A store that can tell that it is away costs no more deliveries than it had begun to.
func TestStoreThatIsAwayCostsNoDeliveries(t *testing.T) {
	store := &checked{memory: newMemory()}
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		for range 3 {
			f.send(strings.Repeat("x", 100000), queue.SendOptions{})
		}
		store.down = errors.New("connection refused")
		store.fail(func(context.Context, string) error { return store.down })
		for range 60 { // an hour
			if ms, err := f.q.Receive(f.ctx, 1, 0); err == nil {
				t.Fatalf("received %d", len(ms))
			}
			time.Sleep(time.Minute)
		}
		deliveries := 0
		for _, m := range f.srv.Messages(queuetest.AccountName, "orders") {
			deliveries += m.DequeueCount
		}
		if deliveries != 1 || store.checks != 59 {
			t.Errorf("an hour's outage cost %d deliveries and %d checks", deliveries, store.checks)
		}
		store.down = nil
		store.fail(nil)
		ms, err := f.q.Receive(f.ctx, 32, 0)
		if err != nil || len(ms) != 3 {
			t.Errorf("afterwards: %d messages, error %v", len(ms), err)
		}
	})
	// One body that cannot be had, in a store that answers, does not keep the others waiting.
	store = &checked{memory: newMemory()}
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		for range 3 {
			f.send(strings.Repeat("x", 100000), queue.SendOptions{})
		}
		store.fail(func(_ context.Context, name string) error {
			if name == "body-1" {
				return errors.New("timeout")
			}
			return nil
		})
		if ms, err := f.q.Receive(f.ctx, 1, 0); err == nil {
			t.Fatalf("received %d", len(ms))
		}
		if ms, err := f.q.Receive(f.ctx, 32, 0); err != nil || len(ms) != 2 {
			t.Errorf("received %d, error %v", len(ms), err)
		}
	})
}

// Fetching ends at half of the lease, several at a time, but not all.
func TestFetchingIsBounded(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		for range 32 {
			f.send(strings.Repeat("x", 70000), queue.SendOptions{})
		}
		slow := func(d time.Duration) func(context.Context, string) error {
			return func(ctx context.Context, _ string) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(d):
					return nil
				}
			}
		}
		store.fail(slow(time.Second))
		start := time.Now()
		ms, err := f.q.Receive(f.ctx, 32, 30*time.Second)
		if err != nil || len(ms) != 32 || store.most != 8 {
			t.Fatalf("received %d, error %v, %d at a time", len(ms), err, store.most)
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("took %v", took)
		}
		for _, m := range ms {
			if err := m.Abandon(f.ctx, 0); err != nil {
				t.Fatal(err)
			}
		}
		store.fail(slow(time.Hour))
		for visibility, want := range map[time.Duration]time.Duration{10 * time.Second: 5 * time.Second, time.Hour: 30 * time.Second} {
			start = time.Now()
			if ms, err := f.q.Receive(f.ctx, 1, visibility); err == nil {
				t.Errorf("received %d", len(ms))
			}
			if took := time.Since(start); took != want {
				t.Errorf("with a lease of %v a store that hangs took %v, want %v", visibility, took, want)
			}
		}
	})
}

// A receive whose caller goes away gives back at once what it had not read.
func TestReceiveThatIsCutOffReleases(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		f.send(strings.Repeat("x", 70000), queue.SendOptions{})
		f.send("small", queue.SendOptions{})
		store.fail(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		ctx, cancel := context.WithTimeout(f.ctx, time.Second)
		defer cancel()
		ms, err := f.q.Receive(ctx, 32, 0)
		if err != nil || len(ms) != 1 || string(ms[0].Body) != "small" {
			t.Errorf("received %d, error %v", len(ms), err)
		}
		if m := f.srv.Messages(queuetest.AccountName, "orders")[0]; !m.Visible && len(ms) == 1 && m.ID != ms[0].ID {
			t.Errorf("not released: %+v", m)
		}
		store.fail(nil)
		if ms, err := f.q.Receive(f.ctx, 32, 0); err != nil || len(ms) != 1 || len(ms[0].Body) != 70000 {
			t.Errorf("received again %d, error %v", len(ms), err)
		}
	})
}

// A delete whose response was lost may have been somebody else's dead-lettering: the body stays.
func TestBodyStaysWhenNobodyKnowsWhoDeletedTheMessage(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		f.send(strings.Repeat("x", 70000), queue.SendOptions{})
		m := f.one(0)
		f.inject(queue.OpDelete, queuetest.Fault{DropResponse: true, Times: 1})
		if err := m.Complete(f.ctx); err != nil || !m.AmbiguousDelete() || store.count() != 1 {
			t.Errorf("error %v, ambiguous %v, %d bodies", err, m.AmbiguousDelete(), store.count())
		}
	})
}

func TestOutageOfTheStoreIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{
			Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv,
			Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		store := newMemory()
		q, err := acct.Queue("orders", queue.Config{CreateIfMissing: true, BodyStore: store})
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("secret", 20000)
		for range 3 {
			if _, err := q.Send(t.Context(), body, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		store.fail(func(context.Context, string) error { return errors.New("away") })
		for range 3 {
			if _, err := q.Receive(t.Context(), 1, 0); err == nil {
				t.Error("received")
			}
		}
		store.fail(nil)
		time.Sleep(5 * time.Minute)
		for range 2 {
			if _, err := q.Receive(t.Context(), 1, 0); err != nil {
				t.Error(err)
			}
		}
		for line, want := range map[string]int{"messages cannot be read for now": 1, "messages can be read again": 1, "secret": 0} {
			if n := strings.Count(logged.String(), line); n != want {
				t.Errorf("%q stands %d times in the log, want %d:\n%s", line, n, want, logged.String())
			}
		}
	})
}

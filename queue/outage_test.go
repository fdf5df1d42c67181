package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

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
		for range 10 {
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

// Hidden for longer than it lives, a message would be dropped unseen.
func TestReleaseStaysWithinAMessagesLife(t *testing.T) {
	store := newMemory()
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		f.send(strings.Repeat("x", 70000), queue.SendOptions{TimeToLive: 50 * time.Second})
		store.fail(func(context.Context, string) error { return errors.New("away") })
		if ms, err := f.q.Receive(f.ctx, 1, 0); err == nil {
			t.Fatalf("received %d", len(ms))
		}
		store.fail(nil)
		time.Sleep(25 * time.Second)
		if m := f.one(0); len(m.Body) != 70000 {
			t.Errorf("%d bytes, error %v", len(m.Body), m.Err)
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

package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// circle is an error that wraps itself.
type circle struct{}

func (*circle) Error() string   { return "round and round" }
func (e *circle) Unwrap() error { return e }

// What goes wrong inside of a store is its absence: the message is released, and neither the process nor
// the body is lost.
func TestBodyStoreThatBreaksInFetch(t *testing.T) {
	var typedNil *net.OpError
	for name, tc := range map[string]struct {
		fetch func() error
		want  string
		takes time.Duration
	}{
		"it panics":                   {func() error { panic("oh") }, "fetch the body from its store: it panicked: oh", 0},
		"it panics with an error":     {func() error { panic(typedNil) }, "fetch the body from its store: it panicked: <nil>", 0},
		"it ends its goroutine":       {func() error { runtime.Goexit(); panic(0) }, "read the message: no answer", 0},
		"it does not return":          {func() error { time.Sleep(time.Hour); return nil }, "read the message: no answer", 31 * time.Second},
		"its error is a nil pointer":  {func() error { return typedNil }, "fetch the body from its store: it panicked: runtime error", 0},
		"its error wraps itself":      {func() error { return &circle{} }, "fetch the body from its store: its error, a *queue_test.circle, wraps more", 0},
		"it cannot be read after all": {func() error { return errors.Join(queue.ErrUnreadable, typedNil) }, "fetch the body from its store: it panicked: runtime error", 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory()
			each(t, queue.Config{BodyStore: store}, func(f *fixture) {
				for range 12 { // more than there are loaders
					f.send(strings.Repeat("x", 70000), queue.SendOptions{})
				}
				f.send("small", queue.SendOptions{})
				store.fail(func(context.Context, string) error { return tc.fetch() })
				began := time.Now()
				p, err := f.q.Peek(f.ctx, 1)
				if err != nil || p.Messages[0].Err == nil || !strings.HasPrefix(p.Messages[0].Err.Error(), tc.want) || p.Messages[0].Body != nil {
					t.Errorf("peeked %v, error %v, want %q", p.Messages[0].Err, err, tc.want)
				}
				if took := time.Since(began); took != tc.takes {
					t.Errorf("the peek took %v, want %v", took, tc.takes)
				}
				began = time.Now()
				ms, err := f.q.Receive(f.ctx, 32, 5*time.Minute)
				if err != nil || len(ms) != 1 || string(ms[0].Body) != "small" {
					t.Errorf("received %d messages, error %v", len(ms), err)
				}
				if took := time.Since(began); took > tc.takes {
					t.Errorf("the receive took %v, want %v", took, tc.takes)
				}
				store.fail(nil)
				time.Sleep(2 * time.Minute)
				if ms, err = f.q.Receive(f.ctx, 32, time.Minute); err != nil || len(ms) != 12 {
					t.Fatalf("received %d messages later, error %v", len(ms), err)
				}
				for _, m := range ms {
					if m.Err != nil || len(m.Body) != 70000 {
						t.Errorf("%d bytes, error %v", len(m.Body), m.Err)
					}
				}
				time.Sleep(time.Hour) // who was late finds nobody
			})
		})
	}
}

// breaking is a store whose other calls break.
type breaking struct {
	*memory
	wrong func()
}

func (s breaking) Put(ctx context.Context, body []byte) (json.RawMessage, error) {
	if string(body) == "wrong" {
		s.wrong()
	}
	return s.memory.Put(ctx, body)
}

func (s breaking) Delete(context.Context, json.RawMessage) error { s.wrong(); return nil }

func (s breaking) Check(context.Context) error { s.wrong(); return nil }

func TestBodyStoreThatBreaksElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		wrong func()
		want  string
	}{
		"it panics":             {func() { panic("oh") }, "it panicked: oh"},
		"it ends its goroutine": {runtime.Goexit, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			store := breaking{newMemory(), tc.wrong}
			each(t, queue.Config{BodyStore: store, BodyStoreThreshold: 1}, func(f *fixture) {
				if _, err := f.q.Send(f.ctx, "wrong", queue.SendOptions{}); err == nil || !strings.Contains(err.Error(), "into its store: "+tc.want) {
					t.Errorf("sending: %v", err)
				}
				f.send("right", queue.SendOptions{})
				if err := f.one(time.Minute).Complete(f.ctx); err != nil {
					t.Errorf("completing: %v", err)
				}
				if n := f.srv.Len(queuetest.AccountName, "orders"); n != 0 || store.count() != 1 {
					t.Errorf("%d messages and %d bodies left", n, store.count())
				}
				f.send("more", queue.SendOptions{})
				store.fail(func(context.Context, string) error { return errors.New("away") })
				if _, err := f.q.Receive(f.ctx, 1, time.Minute); err == nil {
					t.Error("received something")
				}
				if _, err := f.q.Receive(f.ctx, 1, time.Minute); err == nil || !strings.Contains(err.Error(), "not asked for") || !strings.HasSuffix(err.Error(), tc.want) {
					t.Errorf("asking whether it is back: %v", err)
				}
			})
		})
	}
}

// brokenKey is a key whose calls break.
type brokenKey struct {
	encryption.KeyWrapper
	wrap, unwrap func()
}

func (k *brokenKey) Wrap(ctx context.Context, content []byte) (encryption.WrappedKey, error) {
	k.wrap()
	return k.KeyWrapper.Wrap(ctx, content)
}

func (k *brokenKey) Unwrap(ctx context.Context, w encryption.WrappedKey) ([]byte, error) {
	k.unwrap()
	return k.KeyWrapper.Unwrap(ctx, w)
}

func TestKeyThatBreaks(t *testing.T) {
	for name, wrong := range map[string]func(){"it panics": func() { panic("oh") }, "it ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			fine := func() {}
			key := &brokenKey{localKey(t, keyID), fine, wrong}
			each(t, queue.Config{KeyWrapper: key}, func(f *fixture) {
				f.send("m", queue.SendOptions{})
				if ms, err := f.q.Receive(f.ctx, 1, time.Minute); err == nil {
					t.Errorf("received %d", len(ms))
				}
				if _, err := f.q.Receive(f.ctx, 1, time.Minute); err == nil || !strings.Contains(err.Error(), "not asked for") {
					t.Errorf("asking whether it is back: %v", err)
				}
				key.wrap, key.unwrap = wrong, fine
				if _, err := f.q.Send(f.ctx, "n", queue.SendOptions{}); err == nil {
					t.Error("sent without a key")
				}
				time.Sleep(2 * time.Minute)
				if m := f.one(time.Minute); m.Err != nil || string(m.Body) != "m" {
					t.Errorf("received %q, error %v", m.Body, m.Err)
				}
			})
		})
	}
}

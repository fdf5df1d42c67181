package poison_test

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
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

func each(t *testing.T, cfg queue.Config, run func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		defer acct.Close()
		cfg.CreateIfMissing = true
		q, err := acct.Queue("orders", cfg)
		if err != nil {
			t.Fatal(err)
		}
		run(&fixture{t, srv, acct, q, t.Context()})
	})
}

func (f *fixture) receive(text string) *queue.Message {
	f.Helper()
	if _, err := f.q.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
		f.Fatal(err)
	}
	ms, err := f.q.Receive(f.ctx, 1, 30*time.Second)
	if err != nil || len(ms) != 1 {
		f.Fatalf("received %d, error %v", len(ms), err)
	}
	return ms[0]
}

func (f *fixture) list() poison.Listing {
	f.Helper()
	l, err := poison.List(f.ctx, f.q)
	if err != nil {
		f.Fatal(err)
	}
	return l
}

func (f *fixture) poisoned() []queuetest.Message {
	return f.srv.Messages(queuetest.AccountName, f.q.Poison().Name())
}

func TestMoveKeepsBodyHeadersAndReason(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive(`{"$azqs-envelope":1,"traceparent":"tp","headers":{"tenant":"contoso"},"body":{"orderId": 42}}`)
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "line one\nline two"); err != nil {
			t.Fatal(err)
		}
		if m.Settlement() != queue.DeadLettered || f.srv.Len(queuetest.AccountName, "orders") != 0 {
			t.Errorf("settled %v, %d left", m.Settlement(), f.srv.Len(queuetest.AccountName, "orders"))
		}
		l := f.list()
		if len(l.Entries) != 1 || l.Total != 1 || l.Partial {
			t.Fatalf("listed %+v", l)
		}
		e := l.Entries[0]
		got := []any{e.MessageID, e.Category, e.Reason, e.DequeueCount, e.Queue, e.Headers["tenant"], string(e.Message().Body), e.Message().TraceParent, e.ExpiresAt == nil}
		want := []any{m.ID, poison.CategoryHandler, "line one line two", 1, "orders", "contoso", `{"orderId": 42}`, "tp", true}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// B25: poison never expires unless told to.
func TestPoisonTimeToLive(t *testing.T) {
	for ttl, want := range map[time.Duration]int{0: 1, queue.Never: 1, 48 * time.Hour: 0} {
		each(t, queue.Config{PoisonTimeToLive: ttl}, func(f *fixture) {
			if err := poison.Move(f.ctx, f.receive("x"), poison.CategoryHandler, "r"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * 24 * time.Hour)
			if got := len(f.list().Entries); got != want {
				t.Errorf("time to live %v: %d entries after 30 days, want %d", ttl, got, want)
			}
		})
	}
}

func TestUnreadableMessageMovesUnchangedAndIsCategorizedByReadingItAgain(t *testing.T) {
	for _, text := range []string{`{"$azqs-envelope":7,"body":1}`, `{"$azqs-envelope":1}`} {
		each(t, queue.Config{}, func(f *fixture) {
			m := f.receive(text)
			if m.Err == nil {
				t.Fatal("it can be read")
			}
			if err := poison.Move(f.ctx, m, poison.CategoryDeserialization, m.Err.Error()); err != nil {
				t.Fatal(err)
			}
			if got := f.poisoned(); len(got) != 1 || got[0].Text != text {
				t.Errorf("on the poison queue: %+v", got)
			}
			if e := f.list().Entries[0]; e.Category != poison.CategoryDeserialization || e.Reason == "" || e.SizeBytes != len(text) {
				t.Errorf("listed as %+v", e)
			}
		})
	}
}

// P4: a 65,536-byte message can always be poisoned.
func TestLargestMessagesFit(t *testing.T) {
	noise := make([]byte, 3*queue.MaxTextBytes/4)
	src := rand.NewChaCha8([32]byte{1})
	if _, err := src.Read(noise); err != nil {
		t.Fatal(err)
	}
	random := base64.StdEncoding.EncodeToString(noise) // 65,536 bytes that gzip cannot help enough
	reason := "reason " + strings.Repeat("é", 1500)
	tests := map[string]struct {
		cfg    queue.Config
		text   string
		record bool // survives
	}{
		"compressible text":           {text: strings.Repeat("x", queue.MaxTextBytes), record: true},
		"compressible JSON":           {text: `"` + strings.Repeat("x", queue.MaxTextBytes-2) + `"`, record: true},
		"JSON that leaves 500 bytes":  {text: `"` + random[:queue.MaxTextBytes-502] + `"`, record: true},
		"incompressible JSON, full":   {text: `"` + random[:queue.MaxTextBytes-2] + `"`, record: false},
		"incompressible in Base64":    {cfg: queue.Config{Encoding: queue.EncodingBase64}, text: random, record: false},
		"an unreadable message, full": {text: `{"$azqs-envelope":9,"p":"` + strings.Repeat("x", queue.MaxTextBytes-27) + `"}`, record: false},
		"an envelope that is full":    {text: `{"$azqs-envelope":1,"headers":{"a":"b"},"body":"` + strings.Repeat("y", queue.MaxTextBytes-51) + `"}`, record: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, tc.cfg, func(f *fixture) {
				if len(tc.text) > queue.MaxTextBytes {
					t.Fatalf("the test's text has %d bytes", len(tc.text))
				}
				m := f.receive(tc.text)
				if err := poison.Move(f.ctx, m, poison.CategoryMaxDequeue, reason); err != nil {
					t.Fatal(err)
				}
				e := f.list().Entries[0]
				got := e.Message()
				if string(got.Body) != string(m.Body) {
					t.Errorf("body of %d bytes became %d", len(m.Body), len(got.Body))
				}
				if (got.Record != nil) != tc.record {
					t.Errorf("record %v", got.Record)
				}
				if tc.record && !strings.HasPrefix(e.Reason, "reason é") {
					t.Errorf("reason %q", e.Reason)
				}
				if !tc.record && got.Text != m.Text {
					t.Error("the bare copy was altered")
				}
			})
		})
	}
}

// B14: the copy is made and the delete fails, again and again: one logical entry, and in the end nothing left.
func TestDeleteThatFailsAfterTheCopyLeavesOneLogicalEntry(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		remove := f.srv.Inject(queuetest.Fault{Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})
		for range 3 {
			err := poison.Move(f.ctx, m, poison.CategoryMaxDequeue, "r")
			var move *poison.MoveError
			if !errors.As(err, &move) || move.Stage != poison.StageDelete || m.Settlement() != queue.Unsettled {
				t.Fatalf("error %v, settled %v", err, m.Settlement())
			}
			time.Sleep(31 * time.Second)
			ms, err := f.q.Receive(f.ctx, 1, 30*time.Second)
			if err != nil || len(ms) != 1 {
				t.Fatalf("the original is gone: %v", err)
			}
			m = ms[0]
		}
		remove()
		if err := poison.Move(f.ctx, m, poison.CategoryMaxDequeue, "r"); err != nil {
			t.Fatal(err)
		}
		l := f.list()
		if len(l.Entries) != 1 || l.Entries[0].Copies != 4 || f.srv.Len(queuetest.AccountName, "orders") != 0 {
			t.Errorf("listed %+v, %d left on the queue", l, f.srv.Len(queuetest.AccountName, "orders"))
		}
	})
}

// B37: a copy that was made although the answer was 500 is retried; both copies are one entry.
func TestCopyWhoseResponseIsLostIsOneEntry(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		f.Cleanup(f.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Skip: 1, Times: 1, CommitThenFail: true}))
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "r"); err != nil {
			t.Fatal(err)
		}
		if l := f.list(); len(l.Entries) != 1 || l.Entries[0].Copies != 2 {
			t.Errorf("listed %+v", l)
		}
	})
}

func TestMoveThatCannotCopyChangesNothing(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		f.Cleanup(f.srv.Inject(queuetest.Fault{Queue: "orders-poison", Status: 403, Code: "AuthorizationFailure"}))
		err := poison.Move(f.ctx, m, poison.CategoryHandler, "r")
		var move *poison.MoveError
		if !errors.As(err, &move) || move.Stage != poison.StageSend || m.Settlement() != queue.Unsettled {
			t.Fatalf("error %v, settled %v", err, m.Settlement())
		}
		if err := m.Abandon(f.ctx, 0); err != nil {
			t.Error(err)
		}
	})
	each(t, queue.Config{NoPoison: true}, func(f *fixture) {
		if err := poison.Move(f.ctx, f.receive("x"), poison.CategoryHandler, "r"); err == nil {
			t.Error("moved without a poison queue")
		}
	})
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		if err := m.Complete(f.ctx); err != nil {
			t.Fatal(err)
		}
		if err := poison.Move(f.ctx, m, poison.CategoryHandler, "r"); !errors.Is(err, queue.ErrSettled) || len(f.poisoned()) != 0 {
			t.Errorf("a completed message was moved: %v", err)
		}
	})
}

// B51: listing changes nothing. D1: bare copies and shared poison queues.
func TestListing(t *testing.T) {
	each(t, queue.Config{PoisonQueue: "shared"}, func(f *fixture) {
		if l := f.list(); len(l.Entries) != 0 || l.Total != 0 {
			t.Errorf("a missing poison queue lists %+v", l)
		}
		p := f.q.Poison()
		for _, text := range []string{
			"a bare copy by Azure Functions",
			`{"$azqs-envelope":1,"deadLetter":{"reason":"r","category":"handler","messageId":"a","dequeueCount":6,"queue":"invoices","at":"2026-01-01T00:00:00Z"},"body":1}`,
			`{"$azqs-envelope":1,"deadLetter":{"reason":"r","category":"a later one","messageId":"b","dequeueCount":6,"queue":"orders","at":"2026-01-01T00:00:00Z"},"body":1}`,
		} {
			if _, err := p.SendText(f.ctx, text, queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			l := f.list()
			if len(l.Entries) != 2 || l.Others != 1 || l.Total != 3 || l.Partial {
				t.Fatalf("listed %+v", l)
			}
			if l.Entries[0].MessageID != l.Entries[0].PoisonMessageID || l.Entries[0].Category != poison.CategoryOther {
				t.Errorf("the bare copy is %+v", l.Entries[0])
			}
			if l.Entries[1].MessageID != "b" || l.Entries[1].Category != poison.CategoryOther {
				t.Errorf("the recorded one is %+v", l.Entries[1])
			}
		}
		for _, m := range f.poisoned() {
			if m.DequeueCount != 0 {
				t.Errorf("listing made the dequeue count %d", m.DequeueCount)
			}
		}
		for range 40 {
			if _, err := p.SendText(f.ctx, "x", queue.SendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if l := f.list(); !l.Partial || l.Peeked != 32 || l.Total != 43 {
			t.Errorf("listed %d of %d, partial %v", l.Peeked, l.Total, l.Partial)
		}
	})
}

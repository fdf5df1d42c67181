package poison_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func attempts(n int) []queue.Attempt {
	all := make([]queue.Attempt, n)
	for i := range all {
		all[i] = queue.Attempt{
			Number: i + 1, At: time.Date(2026, 3, 4, 12, i, 0, 0, time.UTC), Category: "handler",
			Error: "no answer " + strings.Repeat("x", 100), Worker: "host/1",
		}
	}
	return all
}

func TestTheRecordTellsBusinessKeyAndAttempts(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		history := attempts(3)
		if err := (poison.Case{Category: poison.CategoryMaxDequeue, Reason: "r", BusinessKey: "order\n42", Attempts: history}).Move(f.ctx, m); err != nil {
			t.Fatal(err)
		}
		e := f.list().Entries[0]
		if e.BusinessKey != "order 42" {
			t.Errorf("business key %q", e.BusinessKey)
		}
		if diff := cmp.Diff(history, e.Attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

func TestWhatARecordHoldsIsBounded(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		m := f.receive("x")
		long := strings.Repeat("é", 5000)
		c := poison.Case{Category: poison.CategoryHandler, Reason: long, BusinessKey: long, Attempts: []queue.Attempt{{Number: 1, Error: long, Worker: long}}}
		if err := c.Move(f.ctx, m); err != nil {
			t.Fatal(err)
		}
		if c.Attempts[0].Error != long {
			t.Error("the caller's attempts were changed")
		}
		e := f.list().Entries[0]
		for what, n := range map[string][2]int{
			"reason": {len(e.Reason), poison.MaxReason}, "key": {len(e.BusinessKey), poison.MaxKey},
			"error": {len(e.Attempts[0].Error), poison.MaxError}, "worker": {len(e.Attempts[0].Worker), poison.MaxKey},
		} {
			if n[0] > n[1] || n[0] < n[1]-4 {
				t.Errorf("the %s has %d bytes of %d", what, n[0], n[1])
			}
		}
	})
}

// P4: to fit, history goes first, then the reason is shortened, then gzip.
func TestWhatDoesNotFitGoesInItsOrder(t *testing.T) {
	reason := "reason " + strings.Repeat("r", 1000)
	const envelope = 200 // marker, record without its texts
	tests := []struct {
		name     string
		spare    int // bytes beside the body
		attempts int
		reason   int // its length at least
		gzip     bool
	}{
		{"room for everything", 20_000, 40, len(reason), false},
		{"the oldest attempts go", 6_000, 15, len(reason), false},
		{"then all of them", 1_400, 0, len(reason), false},
		{"then the reason", 700, 0, 64, false},
		{"then the body is compressed", 100, 0, 64, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			each(t, queue.Config{}, func(f *fixture) {
				m := f.receive(`"` + strings.Repeat("b", queue.MaxTextBytes-tt.spare-2) + `"`)
				c := poison.Case{Category: poison.CategoryMaxDequeue, Reason: reason, BusinessKey: "order-42", Attempts: attempts(40)}
				if err := c.Move(f.ctx, m); err != nil {
					t.Fatal(err)
				}
				e := f.list().Entries[0]
				if n := len(e.Attempts); n < tt.attempts || tt.attempts == 0 && n > 0 || tt.attempts < 40 && n > 2*tt.attempts {
					t.Errorf("%d attempts, want about %d", n, tt.attempts)
				}
				if n := len(e.Attempts); n > 0 && e.Attempts[n-1].Number != 40 {
					t.Error("the newest attempt went before older ones")
				}
				if len(e.Reason) < tt.reason || tt.spare < 1000 && !tt.gzip && len(e.Reason) > tt.spare-envelope+60 {
					t.Errorf("the reason has %d bytes", len(e.Reason))
				}
				if e.BusinessKey != "order-42" || e.MessageID != m.ID {
					t.Errorf("entry %+v", e)
				}
				if gzip := strings.Contains(e.Message().Text, `"encoding":"gzip"`); gzip != tt.gzip {
					t.Errorf("gzip: %v", gzip)
				}
				if string(e.Message().Body) != string(m.Body) {
					t.Error("the body changed")
				}
			})
		})
	}
}

// What is done between copy and delete.
func TestCopiedIsCalledBetweenCopyAndDelete(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		var seen string
		c := poison.Case{Category: poison.CategoryHandler, Reason: "r", Copied: func(context.Context) {
			seen = fmt.Sprint(f.srv.Len(queuetest.AccountName, "orders"), len(f.poisoned()))
		}}
		if err := c.Move(f.ctx, f.receive("x")); err != nil || seen != "1 1" {
			t.Errorf("original and copy: %q, error %v", seen, err)
		}
		seen = ""
		f.srv.Inject(queuetest.Fault{Queue: "orders-poison", Operation: queuetest.OpSend, Status: 403, Code: "AuthorizationFailure"})
		if err := c.Move(f.ctx, f.receive("y")); err == nil || seen != "" {
			t.Errorf("called without a copy: %q, error %v", seen, err)
		}
	})
}

// The copy is a message of its own: what the sender's delay hid does not make it look younger.
func TestACopyForgetsTheDelay(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		if _, err := f.q.Send(f.ctx, "x", queue.SendOptions{Delay: time.Minute, Headers: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		ms, err := f.q.Receive(f.ctx, 1, 0)
		if err != nil || len(ms) != 1 || ms[0].Delay != time.Minute {
			t.Fatalf("received %+v, %v", ms, err)
		}
		if err := poison.Move(f.ctx, ms[0], poison.CategoryHandler, "r"); err != nil {
			t.Fatal(err)
		}
		if e := f.list().Entries[0]; e.Message().Delay != 0 || strings.Contains(e.Message().Text, "delay") {
			t.Errorf("copy %s", e.Message().Text)
		}
	})
}

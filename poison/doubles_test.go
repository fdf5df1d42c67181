package poison_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/encryption"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// say puts messages on the poison queue whose records all say they are the message of one id.
func (f *fixture) say(id string, bodies ...string) {
	f.Helper()
	for _, body := range bodies {
		text := fmt.Sprintf(`{"$azqs-envelope":1,"deadLetter":{"reason":"r","category":"handler","messageId":%q,"dequeueCount":5,"queue":"orders","at":"2025-01-01T00:00:00Z"},"body":%s}`, id, body)
		if _, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{}); err != nil {
			f.Fatal(err)
		}
	}
}

// Whatever a record says, a message is a copy of another only if it has the same contents.
func TestMessagesOfOneIDWithDifferentContentsAreNoCopies(t *testing.T) {
	for _, all := range []bool{false, true} {
		each(t, queue.Config{CreateIfMissing: true}, func(f *fixture) {
			if err := f.q.Poison().Create(f.ctx); err != nil {
				t.Fatal(err)
			}
			f.say("victim-1", `{"evil":true}`, `{"good":true}`, `{"good":true}`)
			l := f.list()
			if len(l.Entries) != 2 || l.Entries[0].Copies != 1 || l.Entries[1].Copies != 2 || l.Entries[0].Key() == l.Entries[1].Key() {
				t.Fatalf("listed %+v", l.Entries)
			}
			r := f.replay(poison.ReplayOptions{Selection: poison.Selection{All: all}})
			if d := cmp.Diff(poison.Result{Chosen: 2, Done: 2, Copies: 3}, r); d != "" {
				t.Error(d)
			}
			got := f.texts("orders")
			slices.Sort(got)
			if d := cmp.Diff([]string{`{"evil":true}`, `{"good":true}`}, got); d != "" || len(f.poisoned()) != 0 {
				t.Errorf("%s%d left", d, len(f.poisoned()))
			}
		})
	}
}

// An id that several messages say is theirs names none of them; a copy's own id does.
func TestAnAmbiguousIDIsLeftAlone(t *testing.T) {
	for name, act := range map[string]func(*fixture, poison.Selection) (poison.Result, error){
		"replay": func(f *fixture, s poison.Selection) (poison.Result, error) {
			return poison.Replay(f.ctx, f.q, poison.ReplayOptions{Selection: s})
		},
		"delete": func(f *fixture, s poison.Selection) (poison.Result, error) {
			return poison.Delete(f.ctx, f.q, poison.DeleteOptions{Selection: s})
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{CreateIfMissing: true}, func(f *fixture) {
				if err := f.q.Poison().Create(f.ctx); err != nil {
					t.Fatal(err)
				}
				f.say("victim-1", `1`, `2`)
				f.say("other", `3`)
				r, err := act(f, poison.Selection{Filter: poison.Filter{IDs: []string{"victim-1", "other"}}})
				if err != nil || r.Chosen != 3 || r.Done != 1 || r.Left != 0 || len(r.Skipped) != 2 || len(f.poisoned()) != 2 {
					t.Errorf("%+v, error %v, %d left", r, err, len(f.poisoned()))
				}
				for _, s := range r.Skipped {
					if s.MessageID != "victim-1" || !strings.Contains(s.Reason, "2 messages of different contents") {
						t.Errorf("skipped %+v", s)
					}
				}
				mended := f.list().Entries[1].PoisonMessageID
				r, err = act(f, poison.Selection{Filter: poison.Filter{IDs: []string{mended}}})
				if d := cmp.Diff(poison.Result{Chosen: 1, Done: 1, Copies: 1}, r); d != "" || err != nil {
					t.Error(d, err)
				}
				if left := f.list().Entries; len(left) != 1 || string(left[0].Message().Body) != "1" {
					t.Errorf("left %+v", left)
				}
			})
		})
	}
}

// Copies of one message are one entry, however each was made: with a record of its own, packed to fit, marked.
func TestCopiesAreOneEntryHoweverTheyWereMade(t *testing.T) {
	plain := strings.Repeat("a", 64<<10-400)
	object := `{"x":"` + strings.Repeat("b", 64<<10-600) + `"}`
	for name, c := range map[string]struct {
		cfg  queue.Config
		text string
	}{
		"plain text":                    {queue.Config{}, "x"},
		"text that must be packed":      {queue.Config{}, plain},
		"JSON that must be packed":      {queue.Config{}, object},
		"an envelope":                   {queue.Config{}, `{"$azqs-envelope":1,"headers":{"k":"v","a":"b"},"delay":5,"new":{"x": 1},"body":` + object + `}`},
		"Base64 on a queue for either":  {queue.Config{Encoding: queue.EncodingAuto}, "eHl6"},
		"what had to go into the store": {queue.Config{BodyStore: &bodies{}}, noise(3 * queue.MaxTextBytes / 4)},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, c.cfg, func(f *fixture) {
				m := f.receive(c.text)
				defer f.srv.Inject(queuetest.Fault{Queue: "orders", Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})()
				for i, reason := range []string{"r", strings.Repeat("long ", 600)} {
					rec := poison.Case{Category: poison.CategoryHandler, Reason: reason, Attempts: attempts(3 * i)}
					if err := rec.Move(f.ctx, m); err == nil {
						t.Fatal("the delete worked")
					}
				}
				got, err := f.q.Poison().Receive(f.ctx, 1, time.Second)
				if err != nil || len(got) != 1 || got[0].Record == nil {
					t.Fatalf("received %v, error %v", got, err)
				}
				if err := got[0].Mark(f.ctx, *got[0].Record, f.acct.Now(), time.Second); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if l := f.list(); len(l.Entries) != 1 || l.Entries[0].Copies != 2 || l.Entries[0].MayHaveBeenSent == nil {
					t.Errorf("listed %d: %+v", len(l.Entries), l.Entries)
				}
			})
		})
	}
}

// bodies is a body store in memory. While away it answers nothing.
type bodies struct {
	kept [][]byte
	away bool
}

func (b *bodies) Put(_ context.Context, body []byte) (json.RawMessage, error) {
	b.kept = append(b.kept, slices.Clone(body))
	return json.Marshal(len(b.kept) - 1)
}

func (b *bodies) Fetch(_ context.Context, ref json.RawMessage, _ int) ([]byte, error) {
	if b.away {
		return nil, errors.New("away")
	}
	var i int
	if err := json.Unmarshal(ref, &i); err != nil {
		return nil, err
	}
	return b.kept[i], nil
}

func (b *bodies) Delete(context.Context, json.RawMessage) error { return nil }

// Whether what cannot be read is a copy cannot be told, so a replay sends neither.
func TestReplayLeavesAloneWhatMayBeACopy(t *testing.T) {
	store := &bodies{}
	each(t, queue.Config{BodyStore: store}, func(f *fixture) {
		m := f.receive(noise(3 * queue.MaxTextBytes / 4))
		defer f.srv.Inject(queuetest.Fault{Queue: "orders", Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})()
		for range 2 {
			if err := poison.Move(f.ctx, m, poison.CategoryHandler, "r"); err == nil {
				t.Fatal("the delete worked")
			}
		}
		store.away = true
		r := f.replay(poison.ReplayOptions{})
		if r.Chosen != 2 || r.Done != 0 || len(r.Skipped) != 2 || !strings.Contains(r.Skipped[0].Reason, "cannot be told") || len(f.poisoned()) != 2 {
			t.Errorf("%+v, %d left", r, len(f.poisoned()))
		}
		store.away = false
		if r = f.replay(poison.ReplayOptions{}); r.Chosen != 1 || r.Done != 1 || r.Copies != 2 {
			t.Errorf("%+v", r)
		}
	})
}

// Encrypted copies have nothing in common on the wire, and are compared by what is in them.
func TestEncryptedCopiesAreOneEntry(t *testing.T) {
	wrapper, err := encryption.NewAESKey("k", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	each(t, queue.Config{KeyWrapper: wrapper}, func(f *fixture) {
		if _, err := f.q.Send(f.ctx, []byte(`{"n":1}`), queue.SendOptions{}); err != nil {
			t.Fatal(err)
		}
		ms, err := f.q.Receive(f.ctx, 1, 30*time.Second)
		if err != nil || len(ms) != 1 {
			t.Fatalf("received %v, error %v", ms, err)
		}
		defer f.srv.Inject(queuetest.Fault{Queue: "orders", Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"})()
		for range 2 {
			if err := poison.Move(f.ctx, ms[0], poison.CategoryHandler, "r"); err == nil {
				t.Fatal("the delete worked")
			}
		}
		if p := f.poisoned(); len(p) != 2 || p[0].Text == p[1].Text {
			t.Fatalf("on the poison queue: %+v", p)
		}
		if l := f.list(); len(l.Entries) != 1 || l.Entries[0].Copies != 2 {
			t.Errorf("listed %+v", l.Entries)
		}
	})
}

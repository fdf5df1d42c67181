package triage_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

// zipped is an envelope whose body is 1000 times "a", compressed.
const zipped = `{"$azqs-envelope":1,"encoding":"gzip","body64":"H4sIAAAAAAACA0tMHAWjYBQMdwAAA9o4mugDAAA="}`

// Every body that is shown has its room while it is told, and none has it that nobody asked for.
func TestBodiesAreToldOneByOneInTheirRoom(t *testing.T) {
	onRig(t, func(r *rig) {
		const n = 5
		if err := errors.Join(r.orders.Create(r.Context()), r.orders.Poison().Create(r.Context())); err != nil {
			t.Fatal(err)
		}
		for range n {
			for _, q := range []*queue.Queue{r.orders, r.orders.Poison()} {
				if _, err := q.SendText(r.Context(), zipped, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		crowded := errors.New("crowded")
		now, asked, refuse := 0, 0, false
		room := triage.Room{Unpack: func(_ context.Context, size int) (func(), error) {
			if asked++; size == 0 {
				t.Error("no size")
			}
			if now++; now > 1 {
				t.Errorf("%d at once", now)
			}
			if refuse {
				now--
				return nil, crowded
			}
			return func() { now-- }, nil
		}}
		for name, c := range map[string]triage.Command{
			"a look":            {Operation: triage.List},
			"a walk":            {Operation: triage.List, All: true},
			"a rehearsal":       {Operation: triage.Replay, DryRun: true},
			"a whole rehearsal": {Operation: triage.Delete, All: true, DryRun: true, Categories: []poison.Category{poison.CategoryOther, poison.CategoryDeserialization}},
		} {
			for _, c.Body = range []bool{false, true} {
				asked, refuse = 0, false
				told := 0
				sink := func(e triage.Event) error {
					if e.Entry != nil {
						told++
						if c.Body != (now == 1) || c.Body != (e.Entry.Body != nil) {
							t.Errorf("%s: body %t: %d unpacked", name, c.Body, now)
						}
					}
					return nil
				}
				err := triage.Run(r.Context(), triage.Queue{Queue: r.orders}, c, triage.Hooks{Room: room}, sink)
				if err != nil || told != n || c.Body != (asked == n) || now != 0 {
					t.Errorf("%s: body %t: %d told, %d asked for room, %v", name, c.Body, told, asked, err)
				}
				refuse = true
				if err := triage.Run(r.Context(), triage.Queue{Queue: r.orders}, c, triage.Hooks{Room: room}, sink); c.Body != errors.Is(err, crowded) {
					t.Errorf("%s without room: %v", name, err)
				}
			}
		}
		refuse = false
		peeked, err := r.orders.PeekPacked(r.Context(), queue.MaxReceive)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		room.Hold = func(int) bool { held++; return held <= 2 }
		list, err := triage.DescribeAll(r.Context(), peeked.Messages, true, room)
		if err != nil || len(list) != n || now != 0 {
			t.Fatal(list, err)
		}
		for i, m := range list {
			if m.SizeBytes != 1000 || m.Partial != (i > 1) || m.Partial != (m.Body == nil) {
				t.Errorf("message %d: %+v", i, m)
			}
		}
	})
}

// What a body is said to take is what JSON makes of it.
func TestPayloadSize(t *testing.T) {
	for _, body := range []string{"", "plain", "\"\\\n\r\t\b\f\x00\x1f\x7f", "ü€\u2028\u2029x", "<&>"} {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			t.Fatal(err)
		}
		if got, want := (triage.Payload{Body: &body}).Size(), b.Len()-3; got != want {
			t.Errorf("%q: %d, want %d", body, got, want)
		}
	}
	if n := (triage.Payload{Body64: make([]byte, 3000)}).Size(); n != 4000 {
		t.Errorf("3000 bytes in Base64 are %d", n)
	}
}

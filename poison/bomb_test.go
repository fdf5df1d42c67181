package poison_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/queue"
)

const bombSize = 1 << 20

// bomb is an envelope of little whose body decompresses to bombSize bytes.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(bytes.Repeat([]byte{'"'}, bombSize))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"$azqs-envelope":1,"encoding":"gzip","body64":%q}`, base64.StdEncoding.EncodeToString(b.Bytes()))
}

// lay puts n messages without a record on the poison queue.
func (f *fixture) lay(text string, n int) {
	f.Helper()
	if err := errors.Join(f.q.Create(f.ctx), f.q.Poison().Create(f.ctx)); err != nil {
		f.Fatal(err)
	}
	for range n {
		if _, err := f.q.Poison().SendText(f.ctx, text, queue.SendOptions{}); err != nil {
			f.Fatal(err)
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Whoever may send to a queue can put 32 messages there of 22 KB that decompress to half a gigabyte: what does not need their
// bodies makes none, and what does, one at a time.
func TestBodiesAreUnpackedOnlyWhenAskedForAndOneAtATime(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		text := bomb(t)
		f.lay(text, queue.MaxReceive)
		var l poison.Listing
		for name, look := range map[string]func(){
			"a list": func() { l = f.list() },
			"an export": func() {
				for i := range l.Entries {
					if line, err := l.Entries[i].Line(); err != nil || len(line) > 64<<10 {
						t.Errorf("a line of %d bytes, %v", len(line), err)
					}
				}
			},
			"a walk": func() {
				if w, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{}, func(*poison.Entry) error { return nil }); err != nil || w.Peeked != queue.MaxReceive {
					t.Errorf("%+v, %v", w, err)
				}
			},
			"a rehearsal":       func() { f.replay(poison.ReplayOptions{DryRun: true}) },
			"a whole rehearsal": func() { f.replay(poison.ReplayOptions{DryRun: true, Selection: poison.Selection{All: true}}) },
		} {
			if n := allocated(look); n > 8*bombSize {
				t.Errorf("%s allocates %d MiB", name, n>>20)
			}
		}
		if len(l.Entries) != queue.MaxReceive || l.Entries[7].SizeBytes != bombSize || l.Entries[7].BodyBytes() != bombSize {
			t.Errorf("%d entries", len(l.Entries))
		}

		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		base, most, n := m.HeapAlloc, uint64(0), 0
		see := func(e *poison.Entry) error {
			if len(e.Message().Body) != bombSize {
				t.Errorf("a body of %d bytes", len(e.Message().Body))
			}
			if n++; n%8 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			return nil
		}
		if _, err := poison.Walk(f.ctx, f.q, poison.WalkOptions{}, see); err != nil {
			t.Error(err)
		}
		for _, all := range []bool{false, true} {
			f.replay(poison.ReplayOptions{DryRun: true, Selection: poison.Selection{All: all, Chosen: see}})
		}
		if n != 3*queue.MaxReceive || most > base+6*bombSize {
			t.Errorf("%d bodies seen, %d MiB at once", n, (most-base)>>20)
		}
		if r := f.replay(poison.ReplayOptions{}); r.Done != queue.MaxReceive || len(r.Skipped) > 0 {
			t.Errorf("replayed: %+v", r)
		}
		for _, got := range f.texts("orders") {
			if got != text {
				t.Fatalf("sent %.80q", got)
			}
		}
	})
}

// What is broken is told as before, though nothing is unpacked for it.
func TestABrokenBodyIsToldWithoutUnpackingIt(t *testing.T) {
	each(t, queue.Config{}, func(f *fixture) {
		text := `{"$azqs-envelope":1,"encoding":"gzip","body64":"AAAA"}`
		f.lay(text, 1)
		e := f.list().Entries[0]
		if e.Category != poison.CategoryDeserialization || e.SizeBytes != len(text) || e.Reason == "" || e.Message().Err == nil {
			t.Errorf("%+v, %v", e, e.Message().Err)
		}
	})
}

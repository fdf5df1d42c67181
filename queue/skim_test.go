package queue_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/qwatch/qwatch/queue"
)

// bomb is an envelope of some kilobytes whose body decompresses to n bytes; cut spoils its end.
func bomb(t *testing.T, n, cut int) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(bytes.Repeat([]byte{'"'}, n))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	zipped := b.Bytes()
	for i := range cut {
		zipped[len(zipped)-9-i] ^= 0xff
	}
	return fmt.Sprintf(`{"$azqs-envelope":1,"encoding":"gzip","body64":%q}`, base64.StdEncoding.EncodeToString(zipped))
}

// A look that leaves bodies compressed can tell of each what unpacking it would make, keeps nothing of it, and can
// let go of what it unpacked.
func TestSkimTellsWhatUnpackWouldMake(t *testing.T) {
	const size, limit = 1 << 20, 2 << 20
	for name, tc := range map[string]struct {
		text   string
		size   int
		broken bool
		packed int
	}{
		"a bomb":                        {bomb(t, size, 0), size, false, size},
		"a broken one":                  {bomb(t, size, 4), 0, true, size},
		"one that claims too much":      {bomb(t, limit+1, 0), 0, true, limit},
		"nothing":                       {bomb(t, 0, 0), 0, false, 0},
		"what is not compressed":        {"hello", 5, false, 0},
		"what is no envelope after all": {`{"$azqs-envelope":9}`, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, queue.Config{MaxBodyBytes: limit}, func(f *fixture) {
				if _, err := f.q.SendText(f.ctx, tc.text, queue.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				peeked, err := f.q.PeekPacked(f.ctx, 1)
				if err != nil || len(peeked.Messages) != 1 {
					t.Fatal(peeked, err)
				}
				m := peeked.Messages[0]
				if n := m.PackedSize(); n != tc.packed {
					t.Errorf("packed size %d, want %d", n, tc.packed)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				n, skimmed := m.Skim()
				runtime.ReadMemStats(&after)
				if n != tc.size || (skimmed != nil) != tc.broken {
					t.Errorf("skimmed as %d, %v", n, skimmed)
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > size/2 {
					t.Errorf("a skim took %d bytes", used)
				}
				for range 2 {
					m.Unpack()
					if len(m.Body) != tc.size || fmt.Sprint(m.Err) != fmt.Sprint(skimmed) || m.PackedSize() != 0 {
						t.Errorf("unpacked to %d bytes, %v; packed size %d", len(m.Body), m.Err, m.PackedSize())
					}
					m.Repack()
					if n, err := m.Skim(); n != tc.size || fmt.Sprint(err) != fmt.Sprint(skimmed) || tc.packed > 0 && m.Body != nil {
						t.Errorf("packed again: %d, %v, %d bytes are kept", n, err, len(m.Body))
					}
				}
			})
		})
	}
}

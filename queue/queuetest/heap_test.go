package queuetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHeapKeepsOrder does random things to a heap and to a sorted list, and compares.
func TestHeapKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h visible
	var all []*message
	at := map[*message]int64{}
	lease := uint64(0)
	for step := range 20_000 {
		lease++
		switch n := r.IntN(10); {
		case n < 4 || len(all) == 0:
			m := &message{lease: lease}
			at[m] = r.Int64N(50)
			h.push(m, at[m])
			all = append(all, m)
		case n < 7:
			m := all[r.IntN(len(all))]
			at[m] = r.Int64N(50)
			h.move(m, lease, at[m])
		default:
			i := r.IntN(len(all))
			h.remove(all[i])
			delete(at, all[i])
			all = slices.Delete(all, i, i+1)
		}
		if len(h) != len(all) {
			t.Fatalf("step %d: %d messages, want %d", step, len(h), len(all))
		}
		if step%97 != 0 {
			continue
		}
		slices.SortFunc(all, func(a, b *message) int {
			return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a.lease, b.lease))
		})
		now, limit := r.Int64N(60), 1+r.IntN(40)
		var want, got []*message
		for _, m := range all {
			if at[m] <= now && len(want) < limit {
				want = append(want, m)
			}
		}
		h.walk(now, func(m *message) bool {
			got = append(got, m)
			return len(got) < limit
		})
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: walk until %d saw %d messages, want %d, in order", step, now, len(got), len(want))
		}
		for i, e := range h {
			if e.m.at != i || e.lease != e.m.lease || e.at != at[e.m] {
				t.Fatalf("step %d: entry %d is %+v", step, i, e)
			}
		}
	}
}

func TestReceiptsAndIDsAreReversible(t *testing.T) {
	for _, n := range []uint64{0, 1, 2, 1 << 40, ^uint64(0)} {
		if got := unmix(mix(n)); got != n {
			t.Errorf("unmix(mix(%d)) = %d", n, got)
		}
		id := messageID(n)
		text := string(appendID(nil, id))
		if got, ok := parseID(text); !ok || got != id {
			t.Errorf("parseID(%s) = %x, %v", text, got, ok)
		}
		if text[14] != '4' {
			t.Errorf("%s is not a version 4 UUID", text)
		}
	}
}

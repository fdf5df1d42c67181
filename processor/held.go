package processor

import (
	"sync"
	"time"
)

// held counts messages that are hidden on our account although nobody works on them: in a retry
// delay, or left to their lease. It is a heap of the times at which they reappear. The zero value
// is ready.
type held struct {
	mu    sync.Mutex
	until []time.Duration // a binary heap, on the processor's clock
}

func (h *held) add(now, until time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(now)
	if until <= now {
		return
	}
	h.until = append(h.until, until)
	for i := len(h.until) - 1; i > 0; {
		parent := (i - 1) / 2
		if h.until[parent] <= h.until[i] {
			break
		}
		h.until[parent], h.until[i] = h.until[i], h.until[parent]
		i = parent
	}
}

func (h *held) count(now time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(now)
	return len(h.until)
}

// drop forgets what has reappeared.
func (h *held) drop(now time.Duration) {
	for len(h.until) > 0 && h.until[0] <= now {
		last := len(h.until) - 1
		h.until[0] = h.until[last]
		h.until = h.until[:last]
		for i := 0; ; {
			least := i
			for _, c := range [2]int{2*i + 1, 2*i + 2} {
				if c < last && h.until[c] < h.until[least] {
					least = c
				}
			}
			if least == i {
				break
			}
			h.until[i], h.until[least] = h.until[least], h.until[i]
			i = least
		}
	}
	if len(h.until) == 0 && cap(h.until) > 1024 {
		h.until = nil
	}
}

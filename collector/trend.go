package collector

import (
	"slices"
	"time"
)

// fallsBehind says whether messages are taken, and yet more and more wait, and ever longer. It takes
// growth, depth and age together: a little lag, a burst and a deep queue that is steady are none. Once
// found it stands until the growth has ended.
func (h *history) fallsBehind(f facts) bool {
	s, already := h.lastGood(), h.status == StatusFallingBehind
	if !already && (!h.touched.come || s.at-h.touched.at > h.pace()) {
		return false
	}
	var window []*sample
	h.recent(func(p *sample) bool {
		window = append(window, p)
		return s.at-p.from < f.patience.whole()
	})
	if len(window) < minSamples || s.at-window[len(window)-1].from < f.patience.whole() {
		return false
	}
	slices.Reverse(window)
	third := len(window) / 3
	early, middle, late := window[:third], window[third:len(window)-third], window[len(window)-third:]
	count := func(p *sample) int64 { return p.count }
	wait := func(p *sample) int64 { return int64(p.wait) }
	first, mid, last := median(early, count), median(middle, count), median(late, count)
	firstWait, lastWait := median(early, wait), median(late, wait)
	if already {
		over := s.count < minDepth/2 || last*20 <= first*21 && lastWait <= firstWait || last < first
		return !over
	}
	grown := last - first
	if last < minDepth || grown < max(minGrowth, first/5) || mid < first+grown/5 || mid > last-grown/5 || s.count*20 < last*19 {
		return false // a step is no trend
	}
	if !s.peeked {
		return true
	}
	long := max(f.patience.whole()/5, f.objective/2)
	return lastWait > firstWait && time.Duration(s.wait)*time.Second >= long
}

// pace returns how long ago the last sign of progress may be for a queue to count as moving: three samples.
func (h *history) pace() time.Duration {
	var at time.Duration
	n := 0
	h.back(func(p *sample) bool {
		at = p.at
		n++
		return n < 4
	})
	return h.lastGood().at - at
}

func median(of []*sample, value func(*sample) int64) int64 {
	xs := make([]int64, len(of))
	for i, p := range of {
		xs[i] = value(p)
	}
	slices.Sort(xs)
	if n := len(xs); n%2 == 0 {
		return (xs[n/2-1] + xs[n/2]) / 2
	}
	return xs[len(xs)/2]
}

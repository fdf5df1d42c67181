package collector

import (
	"math"
	"slices"
	"time"
)

// forecast is how long something will take, as of a poll. Times are counted from the history's epoch.
type forecast struct {
	at    time.Duration
	left  time.Duration
	known bool
}

// in returns what is left of it at a later time.
func (f forecast) in(now time.Duration) (time.Duration, bool) {
	return max(0, f.left-max(0, now-f.at)), f.known
}

// forecasts are what the samples foretell.
type forecasts struct {
	drain   forecast // until the queue is empty, at the present rate
	expiry  forecast // until the first message in the head expires
	outrun  forecast // until messages expire before their turn comes, though they are being taken
	service int64    // service clock of the peek behind expiry and outrun, Unix seconds
}

// longest is the longest time that is foretold: beyond, the trend says nothing.
const longest = 30 * 24 * time.Hour

// forecast looks ahead from the newest good sample.
func (h *history) forecast(now time.Duration, f facts) {
	h.forecasts = forecasts{drain: h.drains(now), service: h.head.at}
	if !h.headKnown {
		return
	}
	if at := h.head.firstExpiry(); at != 0 {
		h.expiry = forecast{h.headAt, seconds(at - h.head.at), true}
	}
	if f.kind == KindMain {
		h.outrun = h.outruns()
	}
}

func seconds(n int64) time.Duration { return time.Duration(max(0, n)) * time.Second }

// drains foretells when the queue is empty: from the newest samples when they fall clearly, else from all.
func (h *history) drains(now time.Duration) forecast {
	var points []*sample
	h.recent(func(p *sample) bool { points = append(points, p); return true })
	if len(points) == 0 || points[0].count == 0 {
		return forecast{}
	}
	for _, n := range []int{6, maxSamples} {
		if len(points) < 3 {
			break
		}
		newest := points[:min(n, len(points))]
		last, first := newest[0], newest[len(newest)-1]
		if fell := float64(first.count - last.count); fell < max(float64(first.count)/20, 2*math.Sqrt(float64(first.count))) {
			continue // less than a count that only goes up and down may fall by
		}
		if slope, steady := slopeOf(newest); slope < 0 && steady {
			left := float64(last.count) / -slope
			if left <= longest.Seconds() {
				return forecast{now, time.Duration(left * float64(time.Second)), true}
			}
		}
	}
	return forecast{}
}

// slopeOf returns by how many messages a second the count changes: the median of the slopes between
// all pairs of samples, which a single odd count does not move. It is steady when four out of five
// pairs fall: a count that goes up and down falls by chance.
func slopeOf(points []*sample) (slope float64, steady bool) {
	falls := 0
	slopes := make([]float64, 0, maxSamples*(maxSamples-1)/2)
	for i, a := range points {
		for _, b := range points[i+1:] {
			if d := (a.at - b.at).Seconds(); d > 0 {
				slopes = append(slopes, float64(a.count-b.count)/d)
			}
			if a.count < b.count {
				falls++
			}
		}
	}
	if len(slopes) == 0 {
		return 0, false
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2], falls*5 >= len(slopes)*4
}

// outruns foretells losses of a queue whose messages are being taken: of those in the head whose turn
// comes too late at the present rate; and, where the wait grows, when it outgrows the shortest time to live.
func (h *history) outruns() forecast {
	var taken, span, firstWait, lastWait, waitSpan float64
	newest := h.lastGood()
	last := newest
	h.back(func(p *sample) bool {
		if p != newest {
			taken += float64(last.left) + float64(last.taken)
			span = (newest.at - p.at).Seconds()
			firstWait, lastWait, waitSpan = float64(p.wait), float64(newest.wait), span
		}
		last = p
		return true
	})
	if span <= 0 || taken == 0 {
		return forecast{}
	}
	out := forecast{at: h.headAt}
	for i, m := range h.head.seen {
		left := m.expires - h.head.at
		if m.expires != 0 && float64(left)*taken/span < float64(i+1) && (!out.known || seconds(left) < out.left) {
			out.left, out.known = seconds(left), true
		}
	}
	life := float64(h.head.shortestLife())
	if slope := (lastWait - firstWait) / waitSpan; h.status == StatusFallingBehind && life > 0 && slope > 0 {
		if left := time.Duration(max(0, life-lastWait) / slope * float64(time.Second)); left <= longest && (!out.known || left < out.left) {
			out.left, out.known = left, true
		}
	}
	return out
}

// loss foretells when the first message is lost by expiry, for a queue with that status. A queue whose
// messages are taken in time loses none, however short they live.
func (h *history) loss(s Status, now time.Duration) (time.Duration, bool) {
	switch s {
	case StatusOK, StatusIdle, StatusFallingBehind:
		return h.outrun.in(now)
	case StatusUnknown, StatusMissing:
		return 0, false
	default: // a poison queue too: nobody takes messages, and nobody is meant to
		return h.expiry.in(now)
	}
}

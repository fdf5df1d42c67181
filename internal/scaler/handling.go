package scaler

import (
	"math"
	"time"
)

// How long messages take is a mean over about the last two minutes, and over at least the last ten
// messages, however long ago they were.
const (
	handlingWindow  = 2 * time.Minute
	handlingSamples = 10
	shortestMean    = time.Millisecond
	longestMean     = 24 * time.Hour
)

// handling is a mean that forgets: recent messages weigh more.
type handling struct {
	sum, n float64 // seconds, messages
	at     time.Time
}

// add counts n messages that took total together.
func (h *handling) add(now time.Time, n uint64, total time.Duration) {
	if n == 0 || total < 0 {
		return
	}
	keep := 1.0
	if !h.at.IsZero() {
		keep = math.Exp(-max(0, now.Sub(h.at)).Seconds() / handlingWindow.Seconds())
	}
	if missing := handlingSamples - float64(n); h.n > 0 && h.n*keep < missing {
		keep = min(1, missing/h.n)
	}
	h.sum, h.n, h.at = h.sum*keep+total.Seconds(), h.n*keep+float64(n), now
}

// mean is false before the first message.
func (h *handling) mean() (time.Duration, bool) {
	if h.n <= 0 {
		return 0, false
	}
	return min(max(time.Duration(h.sum/h.n*float64(time.Second)), shortestMean), longestMean), true
}

// progress is what a consumer has handled since it started.
type progress struct {
	n     uint64
	total time.Duration
}

// since returns what was handled after an earlier reading; everything, when it was begun anew.
func (p progress) since(before progress) progress {
	if p.n < before.n || p.total < before.total {
		return p
	}
	return progress{p.n - before.n, p.total - before.total}
}

package queue

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A skew beyond skewWarn is logged: shared-key requests are refused at 15 minutes, and SAS times
// and message ages are off long before. It counts as mended below skewMended.
const (
	skewWarn   = 5 * time.Minute
	skewMended = 4 * time.Minute
)

// clock estimates how far the service's clock is ahead of the local one, from the Date of its answers.
//
// A Date is the service's time cut to whole seconds, at some moment of the exchange. So each
// exchange proves bounds, Date − end ≤ skew < Date + 1 s − begin, as wide as 1 s plus the round
// trip. Bounds of later exchanges are intersected, which narrows them to tens of milliseconds; they
// are widened again for drift. The estimate is their middle, or 0 when they do not exclude it: its
// error is at most their width at first (1 s plus the round trip), half of it once 0 is excluded.
// An answer that contradicts the bounds is passed over unless the next one agrees with it.
type clock struct {
	log  *slog.Logger
	skew atomic.Int64
	seen atomic.Bool

	mu     sync.Mutex
	bounds interval
	agreed int // answers that agreed with bounds
	at     time.Time
	odd    interval // bounds proved by the latest answer, when it contradicted the others
	isOdd  bool
	warned bool
}

type interval struct{ lo, hi time.Duration }

func (i interval) middle() time.Duration { return i.lo + (i.hi-i.lo)/2 }

func (i interval) estimate() time.Duration {
	if i.lo <= 0 && i.hi >= 0 {
		return 0
	}
	return i.middle()
}

func (i interval) meets(o interval, slack time.Duration) bool {
	return i.lo <= o.hi+slack && o.lo <= i.hi+slack
}

const (
	drift      = 100 * time.Microsecond // a second, between two ordinary quartz clocks
	frontEnds  = time.Second            // how far the clocks of the service's own machines may differ
	unitSecond = time.Second            // resolution of a Date header
	tooFar     = 100 * 365 * 24 * time.Hour
)

// now returns the service's time, as far as it is known.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

// observe takes in the Date of an answer to an exchange that ran from begin to end, on the local clock.
func (c *clock) observe(date, begin, end time.Time) {
	// Round(0) drops the monotonic reading: skew is about wall clocks.
	got := interval{lo: date.Sub(end.Round(0)), hi: date.Add(unitSecond).Sub(begin.Round(0))}
	if got.hi < got.lo || got.lo < -tooFar || got.hi > tooFar {
		return // the local clock was set during the exchange, or the Date is nonsense
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.agreed == 0:
		c.restart(got, end)
	case c.widened(end).meets(got, frontEnds):
		c.agree(got, end)
	case c.isOdd && c.odd.meets(got, frontEnds):
		c.restart(got, end) // twice in a row: a clock was set
	case c.agreed == 1 && abs(got.estimate()) < abs(c.bounds.estimate()):
		c.restart(got, end) // one against one: the likelier is the one nearer to no skew
	default:
		c.odd, c.isOdd = got, true
		return
	}
	c.isOdd = false
	skew := c.bounds.estimate()
	c.skew.Store(int64(skew))
	c.seen.Store(true)
	c.report(skew)
}

func (c *clock) restart(got interval, at time.Time) {
	c.bounds, c.at, c.agreed = got, at, 1
}

func (c *clock) widened(now time.Time) interval {
	w := time.Duration(max(0, now.Sub(c.at).Seconds()) * float64(drift))
	return interval{lo: c.bounds.lo - w, hi: c.bounds.hi + w}
}

func (c *clock) agree(got interval, at time.Time) {
	b := c.widened(at)
	both := interval{lo: max(b.lo, got.lo), hi: min(b.hi, got.hi)}
	if both.lo > both.hi {
		both = got // machines of the service differ a little
	}
	c.bounds, c.at = both, at
	c.agreed = min(c.agreed+1, 1<<20)
}

// report logs once when the skew grows dangerous, and once when it is mended.
func (c *clock) report(skew time.Duration) {
	switch {
	case !c.warned && abs(skew) > skewWarn:
		c.warned = true
		c.log.Warn("clock differs from the storage service's; past 15 minutes requests signed with a key are refused", "skew_seconds", skew.Seconds())
	case c.warned && abs(skew) < skewMended:
		c.warned = false
		c.log.Info("clock agrees with the storage service's again", "skew_seconds", skew.Seconds())
	}
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

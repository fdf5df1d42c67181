package processor

import (
	"time"

	"golang.org/x/time/rate"
)

// limit takes permits of Config.RateLimit for messages before they are received. It is the receive loop's.
type limit struct {
	rate *rate.Limiter // nil: no limit
	kept int           // permits taken for messages that did not come
}

// take returns for how many of up to n messages there are permits, and if for none, how long to wait.
func (l *limit) take(n int) (permits int, wait time.Duration) {
	if l.rate == nil {
		return n, 0
	}
	now := time.Now()
	for l.kept < n && l.rate.AllowN(now, 1) {
		l.kept++
	}
	if l.kept > 0 {
		return min(n, l.kept), 0
	}
	missing := 1 - l.rate.TokensAt(now)
	if l.rate.Limit() <= 0 || l.rate.Burst() < 1 { // set to nothing while it runs
		return 0, beatEvery
	}
	wait = time.Duration(missing / float64(l.rate.Limit()) * float64(time.Second))
	return 0, max(wait, time.Millisecond)
}

// spend gives up the permits of messages that came.
func (l *limit) spend(messages int) {
	if l.rate != nil {
		l.kept -= messages
	}
}

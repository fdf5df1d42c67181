package processor

import (
	"math/rand/v2"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// delay is how long to wait before the delivery that follows the given one.
func (r RetryConfig) delay(dequeueCount int) time.Duration {
	d := r.Initial
	for n := 1; n < dequeueCount && d < r.Max; n++ {
		d *= 2
	}
	d = min(d, r.Max)
	if r.Jitter > 0 {
		d += time.Duration(float64(d) * r.Jitter * (2*rand.Float64() - 1))
	}
	// The service takes whole seconds. What is left of one is decided by chance in proportion, so
	// that jitter is not rounded away.
	d -= time.Duration(rand.Int64N(int64(time.Second)))
	return max(time.Second, wholeSeconds(d)) // 0 would be no delay at all
}

// wholeSeconds rounds a delay up to one the service takes: 0 to 7 days.
func wholeSeconds(d time.Duration) time.Duration {
	d = min(d, queue.MaxVisibility) + time.Second - 1
	return max(0, d-d%time.Second)
}

// backoff is a wait that doubles from least to most. The growth is spread by up to a tenth, so that
// processes which failed together do not come back together; the longest wait is exact.
type backoff struct {
	least, most time.Duration
	next        time.Duration
}

func (b *backoff) reset() { b.next = 0 }

func (b *backoff) wait() time.Duration {
	if b.next == 0 {
		b.next = min(b.least, b.most)
	}
	d := b.next
	b.next = min(2*d, b.most)
	return min(d+time.Duration(float64(d)*0.1*rand.Float64()), b.most)
}

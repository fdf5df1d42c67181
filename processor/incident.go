package processor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// tellEvery is the least time between two incidents of one kind in the log, so that a storage that
// fails every other request does not fill it.
const tellEvery = time.Minute

// incident counts failures in a row, so that an outage is one line in the log, and its end another.
// The zero value is ready.
type incident struct {
	failures atomic.Int64

	mu    sync.Mutex
	since time.Time
	told  time.Time // when an incident was last told
	open  bool      // the present one was told
	kinds []string  // of failure told in it
}

// failed counts a failure, and says whether to tell: it is the first of an incident, or the first of
// its kind in one.
func (i *incident) failed(kind string) (tell bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.failures.Add(1) == 1 {
		i.since = now
	}
	if !i.open {
		if !i.told.IsZero() && now.Sub(i.told) < tellEvery {
			return false
		}
		i.open, i.told, i.kinds = true, now, nil
	}
	if slices.Contains(i.kinds, kind) {
		return false
	}
	i.kinds = append(i.kinds, kind)
	return true
}

// mended ends an incident, and says whether to tell.
func (i *incident) mended() (failures int64, lasted time.Duration, tell bool) {
	if i.failures.Load() == 0 {
		return 0, 0, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	failures, tell = i.failures.Swap(0), i.open
	i.open = false
	return failures, time.Since(i.since), tell
}

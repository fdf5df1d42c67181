package web

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/qwatch/qwatch/internal/triage"
)

// Bounds of the memory that bodies take which operators look at, over all requests: some kilobytes on a queue may
// decompress a thousandfold.
const (
	largeBody   = 64 << 10                // what is smaller is unpacked at once
	maxUnpacked = triage.MaxShown         // bytes of larger bodies that are unpacked and not told yet
	maxKept     = 3 * triage.MaxShown / 2 // bytes of bodies kept for answers that are made as a whole
	peeksAtOnce = 4                       // looks at a main queue
)

// errCrowded refuses an answer for which there is no room.
var errCrowded = errors.New("operators read many bodies at once; try again in a few seconds")

// room is that memory. Safe for concurrent use.
type room struct{ unpacked, kept, peeks *semaphore.Weighted }

func newRoom() *room {
	return &room{semaphore.NewWeighted(maxUnpacked), semaphore.NewWeighted(maxKept), semaphore.NewWeighted(peeksAtOnce)}
}

// unpack waits until a body of n bytes may be unpacked. The error is the context's.
func (r *room) unpack(ctx context.Context, n int) (done func(), err error) {
	if n <= largeBody {
		return func() {}, nil
	}
	weight := min(int64(n), maxUnpacked)
	if err := r.unpacked.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { r.unpacked.Release(weight) }, nil
}

// answer is what one answer keeps, until it ends. It is for one goroutine.
type answer struct {
	room *room
	held int64
}

func (r *room) answer() *answer { return &answer{room: r} }

// hold keeps n bytes more, if there is room. It never waits: two that wait for each other would do so for ever.
func (a *answer) hold(n int) bool {
	weight := min(int64(n), maxKept)
	if !a.room.kept.TryAcquire(weight) {
		return false
	}
	a.held += weight
	return true
}

func (a *answer) end() {
	a.room.kept.Release(a.held)
	a.held = 0
}

// sizeOf is how many bytes of an answer an entry takes, about.
func sizeOf(e *triage.Entry) int {
	n := 512 + len(e.Reason) + len(e.BusinessKey) + e.Size()
	for k, v := range e.Headers {
		n += len(k) + len(v)
	}
	for _, a := range e.Attempts {
		n += 64 + len(a.Error) + len(a.Category) + len(a.Worker)
	}
	return n
}

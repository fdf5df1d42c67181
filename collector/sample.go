package collector

import (
	"math"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// seen is all that is kept of a message in a peek.
type seen struct {
	id        uint64 // a hash of its id
	inserted  int64  // service clock, Unix seconds
	expires   int64  // likewise; 0: never
	delivered int32
}

// hashOf is FNV-1a.
func hashOf(id string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

// head is what a peek showed.
type head struct {
	at   int64 // service clock, Unix seconds
	seen []seen
}

// change is how one head differs from the one before.
type change struct {
	left, taken, expired int
	again                int // of left and taken: those that had been delivered before
}

// since compares a head with an earlier one. A message that is gone from the head was taken or
// deleted, unless it had expired: messages are received from the head, and new ones join at the end.
func (h *head) since(before *head) (c change) {
	for _, old := range before.seen {
		i := h.find(old.id)
		switch {
		case i < 0 && old.expires != 0 && old.expires <= h.at:
			c.expired++
		case i < 0:
			c.left++
			c.again += min(int(old.delivered), 1)
		case h.seen[i].delivered > old.delivered:
			c.taken++
			c.again += min(int(old.delivered), 1)
		}
	}
	return c
}

func (h *head) find(id uint64) int {
	for i := range h.seen {
		if h.seen[i].id == id {
			return i
		}
	}
	return -1
}

// returned counts the messages that were delivered before.
func (h *head) returned() (n int) {
	for _, m := range h.seen {
		if m.delivered > 0 {
			n++
		}
	}
	return n
}

// ages returns the age of the oldest message, and how long new messages wait: the age of the oldest
// one that was never delivered, for one that comes back says nothing about that.
func (h *head) ages() (oldest, wait int32) {
	wait = -1
	for _, m := range h.seen {
		age := int32(min(max(h.at-m.inserted, 0), math.MaxInt32))
		oldest = max(oldest, age)
		if m.delivered == 0 {
			wait = max(wait, age)
		}
	}
	if wait < 0 {
		wait = oldest
	}
	return oldest, wait
}

// firstExpiry returns when the first message expires, service clock; 0 when none ever does.
func (h *head) firstExpiry() (at int64) {
	for _, m := range h.seen {
		if m.expires != 0 && (at == 0 || m.expires < at) {
			at = m.expires
		}
	}
	return at
}

// shortestLife returns the shortest time to live in the head, in seconds; 0 when nothing expires.
func (h *head) shortestLife() (life int64) {
	for _, m := range h.seen {
		if m.expires != 0 && (life == 0 || m.expires-m.inserted < life) {
			life = max(m.expires-m.inserted, 1)
		}
	}
	return life
}

// sample is Sample as it is kept. Times are counted from the history's epoch.
type sample struct {
	from, at time.Duration // of its first poll and its last
	count    int64
	finished int64
	gained   int64
	oldest   int32 // seconds
	wait     int32 // seconds
	polls    uint16
	left     uint16
	taken    uint16
	again    uint16
	expired  uint16
	visible  uint8
	returned uint8
	failed   uint8 // 1 + the reason's place in pollReasons; 0: the polls succeeded
	peeked   bool
}

// moved says whether somebody took or finished a message.
func (s *sample) moved() bool { return s.left > 0 || s.taken > 0 || s.finished > 0 }

// empty says that the queue held nothing.
func (s *sample) empty() bool { return s.count == 0 && s.visible == 0 }

// hiding says that (nearly) all messages are hidden: at the most a few are visible, which are new or on
// their way to the next attempt.
func (s *sample) hiding() bool {
	return s.peeked && s.count > 0 && s.visible < peekSize && int64(s.visible)*4 <= s.count
}

// merge adds a later poll to the sample.
func (s *sample) merge(n sample) {
	n.from = s.from
	n.polls = add16(s.polls, int(n.polls))
	n.left, n.taken = add16(s.left, int(n.left)), add16(s.taken, int(n.taken))
	n.again, n.expired = add16(s.again, int(n.again)), add16(s.expired, int(n.expired))
	n.finished += s.finished
	n.gained += s.gained
	*s = n
}

// add16 adds without overflowing.
func add16(a uint16, b int) uint16 { return uint16(min(int(a)+b, math.MaxUint16)) }

func (s *sample) public(epoch time.Time) Sample {
	p := Sample{At: epoch.Add(s.at), Polls: int(s.polls)}
	if s.failed > 0 {
		p.Failed = reasonAt(int(s.failed) - 1)
		return p
	}
	p.Messages = new(s.count)
	p.Finished, p.Gained = s.finished, s.gained
	if s.peeked {
		p.Visible = new(int(s.visible))
		p.Left, p.Taken, p.Again, p.Expired, p.Returned = int(s.left), int(s.taken), int(s.again), int(s.expired), int(s.returned)
		p.OldestAgeSeconds = int(s.oldest)
	}
	return p
}

func reasonAt(i int) queue.Result { return pollReasons()[i] }

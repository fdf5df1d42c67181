package processor

import (
	"slices"
	"time"
)

const (
	cautionProof = 10 * time.Second // a handler that has run so long is not about to end the process
	cautionQuiet = time.Minute      // after as long, what was learnt of such messages no longer counts
	cautionTrust = 8                // so many handled let one more in at once
	cautionYouth = time.Minute      // beside the lease: for polling, and the supervisor's time
)

// caution limits what a message that ends the process takes with it. A message that was delivered
// before, and not given back by this process, may have ended the one that had it. Receiving alone counts
// a delivery, so it is not enough to handle such messages one at a time: they are received so.
//
// Where several processes share a queue, a message that another has given back looks the same. So one
// earlier delivery is held against a message only while this process is young: what the crash before its
// start left behind comes back when the leases lapse. Later it takes two. Guarded by Processor.mu.
type caution struct {
	off    bool
	young  time.Duration // until then
	wary   bool          // ask for little: the last receive brought one of them, or nothing
	inHand []*delivery   // of them, those with a handler slot
	proven int           // of them, those that were handled since the last pause
	last   time.Duration
}

// ask is how many messages to ask for when there is room for some.
func (c *caution) ask(room int, now time.Duration) int {
	if c.off || !c.wary {
		return room
	}
	c.inHand = slices.DeleteFunc(c.inHand, func(d *delivery) bool {
		proven := now-d.since >= cautionProof
		if proven {
			c.proven++
		}
		return proven
	})
	if now-c.last > cautionQuiet && len(c.inHand) == 0 {
		c.proven = 0
	}
	return max(0, min(room, 1+c.proven/cautionTrust-len(c.inHand)))
}

// received looks at what a receive brought. It is true when somebody should hear of it.
func (c *caution) received(batch []*delivery, now time.Duration) (tell bool) {
	c.wary = false
	for _, d := range batch {
		if !d.unaccounted || now > c.young && d.msg.DequeueCount < 3 {
			continue
		}
		d.suspect = true
		tell = tell || d.msg.DequeueCount > 2 && now-c.last > cautionQuiet
		c.wary, c.last = true, now
		c.inHand = append(c.inHand, d)
	}
	return tell
}

// returned takes note that a handler has returned.
func (c *caution) returned(d *delivery) {
	if !d.suspect {
		return
	}
	if i := slices.Index(c.inHand, d); i >= 0 {
		c.inHand = slices.Delete(c.inHand, i, i+1)
		c.proven++
	}
}

package processor

import (
	"slices"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// memory is what is remembered of a message that will be delivered again.
type memory struct {
	at      time.Duration // when it was last in hand
	last    int           // the delivery that this process gave back; 0: none
	seen    int           // deliveries that this process had
	excused int           // deliveries that an outage has cost it
	foreign int           // deliveries by other processes that an outage they told of may have cost it
	pending int           // failures in a row that may turn out to be one
	row     uint32        // that row
	suspect bool          // it failed while others succeeded
	granted uint32        // openings when it got an attempt beyond its budget
	grants  int           // such attempts while an outage lasted
}

// failed notes a failure in a row.
func (m *memory) failed(row uint32) {
	if m.row != row {
		m.row, m.pending = row, 0
	}
	m.pending++
}

// recall returns what is known of a message. The caller holds mu.
func (b *breaker) recall(id string) memory { return b.settle(b.memory[id]) }

// settle turns failures in a row that was an outage into excused ones. Those in a row that a success has
// ended speak against the message.
func (b *breaker) settle(m memory) memory {
	switch {
	case m.pending == 0:
	case slices.Contains(b.outages, m.row):
		m.excused = min(m.excused+m.pending, max(m.excused, maxExcused))
		m.pending = 0
	case m.row != b.row || b.failures == 0:
		m.pending, m.suspect = 0, true
	}
	return m
}

// remember keeps what is known of a message. The caller holds mu.
func (b *breaker) remember(id string, m memory, now time.Duration) {
	if _, known := b.memory[id]; !known && len(b.memory) >= breakerMemory {
		b.forgetOld(now)
	}
	m.at = now
	b.memory[id] = m
}

// forgetOld makes room: for what was not seen for longest, more or less.
func (b *breaker) forgetOld(now time.Duration) {
	for age := 24 * time.Hour; len(b.memory) >= breakerMemory*3/4; age /= 2 {
		for id, m := range b.memory {
			if now-m.at >= age {
				delete(b.memory, id)
			}
		}
	}
}

// recognize fills in what is known of a message that has been delivered before.
func (b *breaker) recognize(d *delivery) {
	if b.cfg.Off || d.msg.DequeueCount <= 1 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.recall(d.msg.ID)
	d.excused = m.excused + m.foreign
	d.unaccounted = m.last != d.msg.DequeueCount-1
}

// grant gives a message that was delivered too often another attempt, if an outage may have taken them:
// one during its life, once; or one that lasts, which other processes spend deliveries on as well.
func (b *breaker) grant(d *delivery, now time.Duration) bool {
	if b.cfg.Off {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.recall(d.msg.ID)
	switch lasting := b.state == breakerOpen && b.heard.IsZero() || b.failures > 0 && (b.alike > 0 || len(b.messages) >= tripMessages); {
	case lasting && m.grants < maxExcused:
		m.grants++
	case b.state == breakerOpen, !d.msg.InsertedAt.Before(b.closedAt), m.granted == b.openings:
		return false
	default:
		m.granted = b.openings
	}
	m.excused = d.msg.DequeueCount - d.msg.Absences() - b.most - m.foreign
	d.excused = m.excused + m.foreign
	b.remember(d.msg.ID, m, now)
	return true
}

// partly says whether a message has been delivered by other processes too, as far as is remembered.
func (b *breaker) partly(d *delivery) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return d.msg.DequeueCount-d.msg.Absences()-1 > b.memory[d.msg.ID].seen
}

// forgive does not hold against a message what other processes delivered, because of an outage they told of: the
// attempts in this process are its own. While that outage lasts it gets further ones. It is false when none is left.
func (b *breaker) forgive(d *delivery, failed, lasting bool, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.recall(d.msg.ID)
	m.foreign = max(m.foreign, min(maxExcused, d.msg.DequeueCount-d.msg.Absences()-1-m.seen))
	most := b.most
	if failed { // there must be one to come
		most--
	}
	if over := d.msg.DequeueCount - d.msg.Absences() - m.excused - m.foreign - most; over > 0 {
		if !lasting || m.excused+over > maxExcused {
			return false
		}
		m.excused += over
	}
	d.excused = m.excused + m.foreign
	b.remember(d.msg.ID, m, now)
	return true
}

// done forgets a message that is gone, and remembers one that will be back.
func (b *breaker) done(d *delivery, now time.Duration) {
	s := d.msg.Settlement()
	gone := s == queue.Completed || s == queue.DeadLettered
	if b.cfg.Off || gone && d.msg.DequeueCount <= 1 && d.err == nil && b.calm.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing == d { // it did not come to a handler, or that said nothing
		b.probing, b.probeAt = nil, now
		if !gone { // the same message must not be had again and again
			b.probeAt += b.cfg.MinPause
		}
	}
	if gone {
		delete(b.memory, d.msg.ID)
		return
	}
	m := b.recall(d.msg.ID)
	m.last = d.msg.DequeueCount
	if !d.putBack {
		m.seen++
	}
	b.remember(d.msg.ID, m, now)
}

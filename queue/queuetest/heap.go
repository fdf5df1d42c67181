package queuetest

// message is one stored message. Times are microseconds since 1970 on the clock without
// its offset, so that moving the clock does not end leases.
type message struct {
	id       [16]byte
	text     string
	lease    uint64 // the number in its pop receipt; a later lease has a larger one
	inserted int64
	expires  int64
	offset   int64 // of the clock when it was inserted
	dequeued int64
	at       int // index in the heap
}

// visible orders messages by the time they become visible, and within the same time by
// when that time was set: a message given back at once is behind those that waited. It
// is a binary heap that knows where each message is.
type visible []entry

type entry struct {
	at    int64
	lease uint64 // m's
	m     *message
}

func (e entry) before(o entry) bool { return e.at < o.at || e.at == o.at && e.lease < o.lease }

func (h visible) set(i int, e entry) {
	h[i] = e
	e.m.at = i
}

func (h *visible) push(m *message, at int64) {
	*h = append(*h, entry{at, m.lease, m})
	h.up(len(*h) - 1)
}

// move gives m a new lease and changes when it becomes visible.
func (h visible) move(m *message, lease uint64, at int64) {
	m.lease = lease
	i := m.at
	old := h[i]
	h[i].at, h[i].lease = at, lease
	if old.before(h[i]) {
		h.down(i)
	} else {
		h.up(i)
	}
}

func (h *visible) remove(m *message) {
	i, last := m.at, len(*h)-1
	e := (*h)[last]
	(*h)[last] = entry{}
	*h = (*h)[:last]
	if i == last {
		return
	}
	h.set(i, e)
	h.down(i)
	h.up(e.m.at)
}

func (h visible) up(i int) {
	e := h[i]
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(h[p]) {
			break
		}
		h.set(i, h[p])
		i = p
	}
	h.set(i, e)
}

func (h visible) down(i int) {
	e := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if r := c + 1; r < len(h) && h[r].before(h[c]) {
			c = r
		}
		if !h[c].before(e) {
			break
		}
		h.set(i, h[c])
		i = c
	}
	h.set(i, e)
}

// walk calls yield for messages visible at now, first one first, until it says stop. It
// looks at a few entries around the top only. yield must not change the heap.
func (h visible) walk(now int64, yield func(*message) bool) {
	var room [80]int
	next := room[:0] // indices whose parents were visited, as a heap
	add := func(i int) {
		if i >= len(h) || h[i].at > now {
			return
		}
		next = append(next, i)
		for c := len(next) - 1; c > 0; {
			p := (c - 1) / 2
			if !h[next[c]].before(h[next[p]]) {
				break
			}
			next[c], next[p] = next[p], next[c]
			c = p
		}
	}
	add(0)
	for len(next) > 0 {
		i := next[0]
		last := len(next) - 1
		next[0] = next[last]
		next = next[:last]
		for p := 0; ; {
			c := 2*p + 1
			if c >= last {
				break
			}
			if c+1 < last && h[next[c+1]].before(h[next[c]]) {
				c++
			}
			if !h[next[c]].before(h[next[p]]) {
				break
			}
			next[c], next[p] = next[p], next[c]
			p = c
		}
		if !yield(h[i].m) {
			return
		}
		add(2*i + 1)
		add(2*i + 2)
	}
}

package queuetest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
)

const messagesOpen, messagesClose = prolog + "<QueueMessagesList>", "</QueueMessagesList>"

// put stores a message.
func (s *Server) put(c *call) *failure {
	visibility, f := c.number("visibilitytimeout", 0, 0, maxVisibility)
	if f != nil {
		return f
	}
	ttl, f := c.number("messagettl", int64(defaultTTL.Seconds()), -1<<63, 1<<63-1)
	if f != nil {
		return f
	}
	if ttl == 0 || ttl < -1 {
		v, _ := c.param("messagettl")
		return invalidParameter("messagettl", v, "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.")
	}
	if ttl != -1 && visibility >= ttl {
		v, _ := c.param("visibilitytimeout")
		return invalidParameter("visibilitytimeout", v, "messagettl must be greater than visibilitytimeout.")
	}
	text, f := c.text()
	if f != nil {
		return f
	}
	n := s.ids.Add(1)
	m := &message{id: messageID(n), text: text, lease: n, inserted: c.now, offset: c.shift, expires: never}
	if left := lastSecond - c.now/1e6; ttl != -1 && ttl < left {
		m.expires = c.now + ttl*1e6
	}
	visible := c.now + visibility*1e6

	c.q.mu.Lock()
	if !c.q.exists {
		c.q.mu.Unlock()
		return queueNotFound()
	}
	c.q.order.push(m, visible)
	c.q.byID[m.id] = m
	c.q.mu.Unlock()

	c.status = http.StatusCreated
	b := append(c.out, messagesOpen...)
	b = m.appendIdentity(b)
	b = appendReceipt(append(b, "<PopReceipt>"...), n)
	b = append(b, "</PopReceipt><TimeNextVisible>"...)
	b = appendTime(b, (visible+c.shift)/1e6)
	b = append(b, "</TimeNextVisible></QueueMessage>"...)
	c.out = append(b, messagesClose...)
	return nil
}

// get receives messages, or peeks at them.
func (s *Server) get(c *call) *failure {
	n, f := c.number("numofmessages", 1, 1, maxBatch)
	if f != nil {
		return f
	}
	lease, f := c.number("visibilitytimeout", defaultLease, 1, maxVisibility)
	if f != nil && c.verb == getMessages {
		return f
	}
	c.status = http.StatusOK
	b := append(c.out, messagesOpen...)
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.exists {
		return queueNotFound()
	}
	q.reap(c.now)
	if c.verb == peekMessages {
		b = q.peek(b, c.now, int(n))
	} else {
		for ; n > 0 && len(q.order) > 0 && q.order[0].at <= c.now; n-- {
			m := q.order[0].m
			m.dequeued++
			visible := c.now + lease*1e6
			q.order.move(m, s.ids.Add(1), visible)
			b = m.appendIdentity(b)
			b = appendReceipt(append(b, "<PopReceipt>"...), m.lease)
			b = append(b, "</PopReceipt><TimeNextVisible>"...)
			b = appendTime(b, (visible+c.shift)/1e6)
			b = append(b, "</TimeNextVisible>"...)
			b = m.appendRest(b)
			q.reap(c.now)
		}
	}
	c.out = append(b, messagesClose...)
	return nil
}

func (q *queue) peek(b []byte, now int64, n int) []byte {
	var expired []*message
	q.order.walk(now, func(m *message) bool {
		if m.expires <= now {
			expired = append(expired, m)
			return true
		}
		b = m.appendRest(m.appendIdentity(b))
		n--
		return n > 0
	})
	for _, m := range expired {
		q.drop(m)
	}
	return b
}

func (m *message) appendIdentity(b []byte) []byte {
	b = append(b, "<QueueMessage><MessageId>"...)
	b = appendID(b, m.id)
	b = append(b, "</MessageId><InsertionTime>"...)
	b = appendTime(b, (m.inserted+m.offset)/1e6)
	b = append(b, "</InsertionTime><ExpirationTime>"...)
	b = appendTime(b, m.expiry())
	return append(b, "</ExpirationTime>"...)
}

func (m *message) appendRest(b []byte) []byte {
	b = append(b, "<DequeueCount>"...)
	b = strconv.AppendInt(b, m.dequeued, 10)
	b = append(b, "</DequeueCount><MessageText>"...)
	b = appendText(b, m.text)
	return append(b, "</MessageText></QueueMessage>"...)
}

// expiry returns the second shown as the message's expiration time.
func (m *message) expiry() int64 {
	if m.expires == never {
		return lastSecond
	}
	return (m.expires + m.offset) / 1e6
}

// update changes the text and the visibility of a leased message.
func (s *Server) update(c *call) *failure {
	if _, ok := c.param("visibilitytimeout"); !ok {
		return missingParameter("visibilitytimeout")
	}
	visibility, f := c.number("visibilitytimeout", 0, 0, maxVisibility)
	if f != nil {
		return f
	}
	lease, f := c.receipt()
	if f != nil {
		return f
	}
	text, keep := "", len(c.body) == 0
	if !keep {
		if text, f = c.text(); f != nil {
			return f
		}
	}
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	m, f := s.leased(c, lease)
	if f != nil {
		return f
	}
	if !keep {
		m.text = text
	}
	visible := c.now + visibility*1e6
	q.order.move(m, s.ids.Add(1), visible)
	c.status = http.StatusNoContent
	c.header("X-Ms-Popreceipt", string(appendReceipt(nil, m.lease)))
	c.header("X-Ms-Time-Next-Visible", string(appendTime(nil, (visible+c.shift)/1e6)))
	return nil
}

// remove deletes a leased message.
func (s *Server) remove(c *call) *failure {
	lease, f := c.receipt()
	if f != nil {
		return f
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	m, f := s.leased(c, lease)
	if f != nil {
		return f
	}
	c.q.drop(m)
	c.status = http.StatusNoContent
	return nil
}

// leased finds the message a request names, if its receipt is the newest. An expired
// lease still counts while nobody else received the message. The queue is locked.
func (s *Server) leased(c *call, lease uint64) (*message, *failure) {
	if !c.q.exists {
		return nil, queueNotFound()
	}
	id, ok := parseID(c.message)
	if !ok {
		return nil, messageNotFound()
	}
	m := c.q.byID[id]
	if m == nil {
		return nil, messageNotFound()
	}
	if m.expires <= c.now {
		c.q.drop(m)
		return nil, messageNotFound()
	}
	if m.lease != lease {
		if s.lostNotFound {
			return nil, messageNotFound()
		}
		return nil, &failure{status: http.StatusBadRequest, code: "PopReceiptMismatch"}
	}
	return m, nil
}

// clear deletes all messages.
func (s *Server) clear(c *call) *failure {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !c.q.exists {
		return queueNotFound()
	}
	c.q.order, c.q.byID = nil, map[[16]byte]*message{}
	c.status = http.StatusNoContent
	return nil
}

// text reads the message in the request's body.
func (c *call) text() (string, *failure) {
	if len(c.body) > maxBody {
		return "", tooLarge()
	}
	text, ok := parseMessage(c.body)
	if !ok {
		return "", &failure{status: http.StatusBadRequest, code: "InvalidXmlDocument"}
	}
	if len(text) > maxText {
		return "", tooLarge()
	}
	return text, nil
}

func tooLarge() *failure {
	return &failure{status: http.StatusRequestEntityTooLarge, code: "RequestBodyTooLarge", details: []pair{{"MaxLimit", "65536"}}}
}

// receiptPrefix is how the service's receipts begin; a lease's number follows.
const receiptPrefix = "AgAAAAMAAAAAAAAA"

func appendReceipt(b []byte, lease uint64) []byte {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], mix(lease))
	return base64.StdEncoding.AppendEncode(append(b, receiptPrefix...), raw[:])
}

// receipt reads the pop receipt parameter.
func (c *call) receipt() (uint64, *failure) {
	v, ok := c.param("popreceipt")
	if !ok {
		return 0, missingParameter("popreceipt")
	}
	var raw [9]byte
	if len(v) == len(receiptPrefix)+12 && v[:len(receiptPrefix)] == receiptPrefix {
		if n, err := base64.StdEncoding.Decode(raw[:], []byte(v[len(receiptPrefix):])); err == nil && n == 8 {
			return unmix(binary.LittleEndian.Uint64(raw[:8])), nil
		}
	}
	return 0, invalidParameter("popreceipt", v, "Invalid pop receipt format")
}

// messageID makes the n-th id: unique, of a random UUID's looks, the same in every run.
func messageID(n uint64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:8], mix(n))
	binary.BigEndian.PutUint64(id[8:], mix(^n))
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// mix is a bijection that looks random (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func unmix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0x9cb4b2f8129337db
	x ^= x >> 33
	x *= 0x4f74430c22a54005
	return x ^ x>>33
}

func appendID(b []byte, id [16]byte) []byte {
	for i, span := range [5][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, id[span[0]:span[1]])
	}
	return b
}

func parseID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	var digits [32]byte
	n := 0
	for i := range len(s) {
		if i != 8 && i != 13 && i != 18 && i != 23 {
			digits[n] = s[i]
			n++
		}
	}
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

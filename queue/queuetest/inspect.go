package queuetest

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Request is a request that was answered.
type Request struct {
	Op
	Status   int
	Code     string // of the error; "" is success
	Injected bool   // it met a fault
}

// Message is a stored message, for assertions.
type Message struct {
	ID           string
	Text         string
	PopReceipt   string // the newest
	DequeueCount int
	InsertedAt   time.Time // service clock
	ExpiresAt    time.Time // service clock; year 9999 is never
	VisibleAt    time.Time // service clock
	Visible      bool
	Expired      bool // not reaped yet
}

func (c *counters) count(v verb) { c[operationOf[v]].Add(1) }

// counters returns where the request is counted.
func (s *Server) counters(c *call) *counters {
	switch {
	case c.q != nil:
		return &c.q.count
	case c.acct != nil:
		return &c.acct.other
	default:
		return &s.lost
	}
}

// Requests returns how many requests matched op so far; its empty fields match all.
// Requests that met a fault count too.
func (s *Server) Requests(op Op) int {
	n := 0
	for k, v := range s.Counts() {
		if (op.Account == "" || op.Account == k.Account) && (op.Queue == "" || op.Queue == k.Queue) &&
			(op.Operation == "" || op.Operation == k.Operation) {
			n += v
		}
	}
	return n
}

// Counts returns how many requests there were so far, without zeros. Requests that name
// no queue, or one that cannot exist, count under the queue ""; those of unknown
// accounts under the account "" as well.
func (s *Server) Counts() map[Op]int {
	all := map[Op]int{}
	add := func(account, queue string, c *counters) {
		for i := range c {
			if n := int(c[i].Load()); n > 0 {
				all[Op{account, queue, operations[i]}] = n
			}
		}
	}
	add("", "", &s.lost)
	for name, a := range s.accounts {
		add(name, "", &a.other)
		a.mu.RLock()
		for _, q := range a.queues {
			add(name, q.name, &q.count)
		}
		a.mu.RUnlock()
	}
	return all
}

// ResetCounts sets all request counts to zero.
func (s *Server) ResetCounts() {
	reset := func(c *counters) {
		for i := range c {
			c[i].Store(0)
		}
	}
	reset(&s.lost)
	for _, a := range s.accounts {
		reset(&a.other)
		a.mu.RLock()
		for _, q := range a.queues {
			reset(&q.count)
		}
		a.mu.RUnlock()
	}
}

// existing returns the queue, locked, or nil if there is none.
func (s *Server) existing(account, name string) *queue {
	a := s.accounts[account]
	if a == nil {
		return nil
	}
	a.mu.RLock()
	q := a.queues[name]
	a.mu.RUnlock()
	if q == nil {
		return nil
	}
	q.mu.Lock()
	if !q.exists {
		q.mu.Unlock()
		return nil
	}
	return q
}

// Exists reports whether the queue exists.
func (s *Server) Exists(account, queue string) bool {
	q := s.existing(account, queue)
	if q == nil {
		return false
	}
	q.mu.Unlock()
	return true
}

// Queues returns the names of the account's queues, in order.
func (s *Server) Queues(account string) []string {
	if a := s.accounts[account]; a != nil {
		return a.names("", "")
	}
	return nil
}

// Metadata returns a copy of the queue's metadata; nil if there is no such queue.
func (s *Server) Metadata(account, queue string) map[string]string {
	q := s.existing(account, queue)
	if q == nil {
		return nil
	}
	defer q.mu.Unlock()
	all := map[string]string{}
	for _, m := range q.metadata {
		all[m.key] = m.value
	}
	return all
}

// Len returns how many messages the queue holds: visible, hidden, and expired ones that
// are not reaped yet. It is the count that the service answers.
func (s *Server) Len(account, queue string) int {
	q := s.existing(account, queue)
	if q == nil {
		return 0
	}
	defer q.mu.Unlock()
	return len(q.byID)
}

// Messages returns the queue's messages in the order in which they are received. The
// receiver may change the result.
func (s *Server) Messages(account, queue string) []Message {
	q := s.existing(account, queue)
	if q == nil {
		return nil
	}
	defer q.mu.Unlock()
	now, shift := s.now().UnixMicro(), s.offset.Load()/micro
	order := slices.SortedFunc(slices.Values(q.order), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.lease, b.lease))
	})
	all := make([]Message, 0, len(order))
	for _, e := range order {
		m := e.m
		all = append(all, Message{
			ID: string(appendID(nil, m.id)), Text: m.text, PopReceipt: string(appendReceipt(nil, m.lease)),
			DequeueCount: int(m.dequeued),
			InsertedAt:   time.UnixMicro(m.inserted + m.offset).UTC(),
			ExpiresAt:    time.Unix(m.expiry(), 0).UTC(),
			VisibleAt:    time.UnixMicro(e.at + shift).UTC(),
			Visible:      e.at <= now && m.expires > now,
			Expired:      m.expires <= now,
		})
	}
	return all
}

// Texts returns the texts of Messages.
func (s *Server) Texts(account, queue string) []string {
	all := s.Messages(account, queue)
	texts := make([]string, 0, len(all))
	for _, m := range all {
		texts = append(texts, m.Text)
	}
	return texts
}

// Reset removes all queues and their messages at once, without the wait after a
// deletion. Counts and faults stay.
func (s *Server) Reset() {
	for _, a := range s.accounts {
		a.mu.RLock()
		for q := range maps.Values(a.queues) {
			q.mu.Lock()
			q.exists, q.freeAt = false, 0
			q.metadata, q.policies, q.order, q.byID = nil, nil, nil, nil
			q.mu.Unlock()
		}
		a.mu.RUnlock()
	}
}

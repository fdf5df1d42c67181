package queuetest

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	never         = math.MaxInt64           // a message's expiry, if it has none
	lastSecond    = 253402300799            // 9999-12-31T23:59:59Z
	deletionDelay = 30 * time.Second        // before a deleted queue's name is free again
	defaultTTL    = 7 * 24 * time.Hour      // of a message
	maxVisibility = 7 * 24 * 60 * 60        // seconds
	defaultLease  = 30                      // seconds
	maxBatch      = 32                      // messages a receive or peek
	maxText       = 64 << 10                // bytes of message text
	maxBody       = 6*maxText + 4096        // bytes of a request body: every character escaped
	maxMetadata   = 8 << 10                 // bytes of metadata names and values
	maxClockSkew  = 15 * time.Minute        // of a shared key request's date
	maxPage       = 5000                    // queues a page
	micro         = int64(time.Microsecond) // clock resolution
)

// account is one storage account.
type account struct {
	name string
	key  string
	mac  signer

	mu     sync.RWMutex
	queues map[string]*queue // each name ever asked for
	other  counters          // requests that name no queue
}

func newAccount(name, key string, raw []byte) *account {
	return &account{name: name, key: key, mac: newSigner(raw), queues: map[string]*queue{}}
}

// queue is one queue name: the queue while it exists, and its request counts always.
type queue struct {
	name  string
	count counters

	mu       sync.Mutex
	exists   bool
	freeAt   int64 // when a deleted queue's name is free again
	metadata []pair
	policies []policyEntry
	order    visible
	byID     map[[16]byte]*message
}

// counters count requests by operation.
type counters [numOps]atomic.Int64

// find returns the queue of that name, making an entry for it if there is none.
func (a *account) find(name string) *queue {
	a.mu.RLock()
	q := a.queues[name]
	a.mu.RUnlock()
	if q != nil {
		return q
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if q = a.queues[name]; q == nil {
		q = &queue{name: name}
		a.queues[name] = q
	}
	return q
}

func (q *queue) drop(m *message) {
	q.order.remove(m)
	delete(q.byID, m.id)
}

// reap removes expired messages that would be next to be seen.
func (q *queue) reap(now int64) {
	for len(q.order) > 0 && q.order[0].at <= now && q.order[0].m.expires <= now {
		q.drop(q.order[0].m)
	}
}

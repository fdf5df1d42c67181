package metric

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Storage times storage requests. Everything is safe for concurrent use.
type Storage struct {
	durations *prometheus.HistogramVec
	mu        sync.Mutex // for writing accounts
	accounts  atomic.Pointer[map[string]*storageAccount]
}

// storageAccount holds what was resolved of an account, by operation and result; an
// element is filled when it is first needed.
type storageAccount struct {
	operations, results []string
	resolved            []atomic.Pointer[prometheus.Observer]
}

// NewStorage returns the storage metrics, registered with reg; of opts it takes Native. It
// panics when reg has them already.
func NewStorage(reg prometheus.Registerer, opts Options) *Storage {
	s := &Storage{durations: newHistogram(Of(StorageRequestDuration), opts.Native)}
	s.accounts.Store(&map[string]*storageAccount{})
	reg.MustRegister(s.durations)
	return s
}

// Init makes the account known and creates its series at 0: every result of the given
// operations (package queue's Operation, as strings). Name those the process will use;
// another one's series appear when it is first observed. Calling it again adds operations.
func (s *Storage) Init(account string, operations []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := *s.accounts.Load()
	a := known[account]
	if a == nil {
		a = &storageAccount{operations: storageOperations(), results: storageResults()}
		a.resolved = make([]atomic.Pointer[prometheus.Observer], len(a.operations)*len(a.results))
		known = maps.Clone(known)
		known[account] = a
		s.accounts.Store(&known)
	}
	for _, operation := range operations {
		op := indexOrLast(a.operations, operation)
		for res := range a.results {
			s.resolve(a, account, op, res)
		}
	}
}

// Observe records one request. An operation or result that is none of the closed set counts
// as "other"; an account that Init did not name, or that was deleted, counts nowhere. It
// takes no lock and allocates nothing once a combination was seen.
func (s *Storage) Observe(account, operation, result string, d time.Duration) {
	a := (*s.accounts.Load())[account]
	if a == nil {
		return
	}
	op, res := indexOrLast(a.operations, operation), indexOrLast(a.results, result)
	o := a.resolved[op*len(a.results)+res].Load()
	if o == nil {
		if o = s.first(a, account, op, res); o == nil {
			return
		}
	}
	(*o).Observe(max(0, d).Seconds())
}

// Delete removes the account's series.
func (s *Storage) Delete(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := maps.Clone(*s.accounts.Load())
	delete(known, account)
	s.accounts.Store(&known)
	s.durations.DeletePartialMatch(prometheus.Labels{LabelAccount: account})
}

// first resolves a combination outside Init, unless the account was deleted meanwhile: a
// request that ends late must not bring its series back.
func (s *Storage) first(a *storageAccount, account string, op, res int) *prometheus.Observer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (*s.accounts.Load())[account] != a {
		return nil
	}
	return s.resolve(a, account, op, res)
}

// resolve fills an element of a. The caller holds s.mu.
func (s *Storage) resolve(a *storageAccount, account string, op, res int) *prometheus.Observer {
	slot := &a.resolved[op*len(a.results)+res]
	if o := slot.Load(); o != nil {
		return o
	}
	o := s.durations.WithLabelValues(account, a.operations[op], a.results[res])
	slot.Store(&o)
	return &o
}

func indexOrLast(values []string, value string) int {
	if i := slices.Index(values, value); i >= 0 {
		return i
	}
	return len(values) - 1
}

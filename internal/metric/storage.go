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

// NewStorage returns the storage metrics, registered with reg. It panics when reg has them
// already.
func NewStorage(reg prometheus.Registerer, opts Options) *Storage {
	s := &Storage{durations: newHistogram(Of(StorageRequestDuration), opts.Native)}
	s.accounts.Store(&map[string]*storageAccount{})
	reg.MustRegister(s.durations)
	return s
}

// Init creates the account's series at 0: every result of the given operations (package
// queue's Operation, as strings). Name those the process will use; another one's series
// appear when it is first observed. Calling it again adds operations.
func (s *Storage) Init(account string, operations []string) {
	a := s.account(account)
	for _, operation := range operations {
		for _, result := range a.results {
			s.observer(a, account, operation, result)
		}
	}
}

// Observe records one request. An operation or result that is none of the closed set counts
// as "other". It takes no lock and allocates nothing once a combination was seen.
func (s *Storage) Observe(account, operation, result string, d time.Duration) {
	a := s.account(account)
	(*s.observer(a, account, operation, result)).Observe(max(0, d).Seconds())
}

// Delete removes the account's series.
func (s *Storage) Delete(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accounts := maps.Clone(*s.accounts.Load())
	delete(accounts, account)
	s.accounts.Store(&accounts)
	s.durations.DeletePartialMatch(prometheus.Labels{LabelAccount: account})
}

func (s *Storage) account(name string) *storageAccount {
	if a := (*s.accounts.Load())[name]; a != nil {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.accounts.Load()
	if a := old[name]; a != nil {
		return a
	}
	a := &storageAccount{operations: storageOperations(), results: storageResults()}
	a.resolved = make([]atomic.Pointer[prometheus.Observer], len(a.operations)*len(a.results))
	accounts := maps.Clone(old)
	accounts[name] = a
	s.accounts.Store(&accounts)
	return a
}

func (s *Storage) observer(a *storageAccount, account, operation, result string) *prometheus.Observer {
	op, res := indexOrLast(a.operations, operation), indexOrLast(a.results, result)
	slot := &a.resolved[op*len(a.results)+res]
	if o := slot.Load(); o != nil {
		return o
	}
	o := s.durations.WithLabelValues(account, a.operations[op], a.results[res])
	slot.Store(&o) // another's is the same
	return &o
}

func indexOrLast(values []string, value string) int {
	if i := slices.Index(values, value); i >= 0 {
		return i
	}
	return len(values) - 1
}

package dedup

import (
	"context"
	"sync"
)

// Memory is a Store that forgets with the process. It is for tests of handlers: it does not survive
// the crash that idempotency is about. The zero value is ready; it must not be copied.
//
// A second worker waits for the first, as with SQL.
type Memory struct {
	mu   sync.Mutex
	keys map[[2]string]*memory
}

type memory struct {
	over   chan struct{} // closed when whoever has it in hand is through
	done   bool
	result []byte
}

// Once implements Store.
func (s *Memory) Once(ctx context.Context, key Key, do func(context.Context) ([]byte, error)) (Outcome, error) {
	mine := &memory{over: make(chan struct{})}
	for {
		other := s.claim(key, mine)
		if other == nil {
			break
		}
		select {
		case <-ctx.Done():
			return Outcome{}, context.Cause(ctx)
		case <-other.over:
		}
		if other.done {
			return Outcome{Hit: true, Result: other.result}, nil
		}
	}
	defer close(mine.over)
	defer s.free(key, mine)
	result, err := do(ctx)
	mine.done, mine.result = err == nil, result
	return Outcome{}, err
}

// claim takes the key, or returns who has it.
func (s *Memory) claim(key Key, m *memory) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := [2]string{key.Scope, key.Value}
	if other := s.keys[id]; other != nil {
		return other
	}
	if s.keys == nil {
		s.keys = map[[2]string]*memory{}
	}
	s.keys[id] = m
	return nil
}

// free gives the key back unless it is done.
func (s *Memory) free(key Key, m *memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.done {
		delete(s.keys, [2]string{key.Scope, key.Value})
	}
}

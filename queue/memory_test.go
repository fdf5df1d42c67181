package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/qwatch/qwatch/queue"
)

// memory is a body store in memory, with faults.
type memory struct {
	mu      sync.Mutex
	bodies  map[string][]byte
	put     error
	gone    func() // called by Delete
	fetch   func(ctx context.Context, ref string) error
	fetches int
	most    int // fetches at a time
	running int
}

func newMemory() *memory { return &memory{bodies: map[string][]byte{}} }

func (s *memory) Put(_ context.Context, body []byte) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil {
		return nil, s.put
	}
	name := fmt.Sprint("body-", len(s.bodies)+1)
	s.bodies[name] = bytes.Clone(body)
	return json.RawMessage(`"` + name + `"`), nil
}

func (s *memory) name(ref json.RawMessage) (string, error) {
	var name string
	if json.Unmarshal(ref, &name) != nil || !strings.HasPrefix(name, "body-") {
		return "", fmt.Errorf("%w: not a reference of this store", queue.ErrUnreadable)
	}
	return name, nil
}

func (s *memory) Fetch(ctx context.Context, ref json.RawMessage, limit int) ([]byte, error) {
	name, err := s.name(ref)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.fetches++
	s.running++
	s.most = max(s.most, s.running)
	fault := s.fetch
	s.mu.Unlock()
	if fault != nil {
		err = fault(ctx, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	b, ok := s.bodies[name]
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%w: the body is gone", queue.ErrUnreadable)
	case len(b) > limit:
		return nil, fmt.Errorf("%w: %d bytes are too many", queue.ErrUnreadable, len(b))
	}
	return bytes.Clone(b), nil
}

func (s *memory) Delete(_ context.Context, ref json.RawMessage) error {
	name, err := s.name(ref)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, name)
	if s.gone != nil {
		s.gone()
	}
	return nil
}

func (s *memory) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

func (s *memory) fail(f func(ctx context.Context, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetch = f
}

func (s *memory) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// checked is a store that can tell whether it is there.
type checked struct {
	*memory
	down   error
	checks int
}

func (s *checked) Check(context.Context) error { s.checks++; return s.down }

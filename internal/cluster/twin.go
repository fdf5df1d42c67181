package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// twinBeats is every how many heartbeats a shard asks who answers at its own address, and twins how often in a row
// another must until it is told: one that was replaced may answer once more.
const (
	twinBeats = 15
	twins     = 2
)

// errTwice says that the shard of this replica runs twice.
var errTwice = errors.New("another replica runs as this shard too, and both poll its queues: give each an index of its own")

// meetSelf asks at this shard's own address who is there. Who cannot reach it knows nothing new.
func (s *Shards) meetSelf(ctx context.Context, addr string) {
	a, err := s.asker.ask(ctx, addr, ShardPath)
	if err != nil || a.Status != http.StatusOK {
		return
	}
	var v shardView
	if err := json.Unmarshal(a.Body, &v); err != nil || v.Mode != "shard" || v.Instance == "" {
		return
	}
	s.mu.Lock()
	before := s.twins
	if v.Instance == s.instance || v.Index != s.cfg.Index || v.Leaving {
		s.twins = 0
	} else {
		s.twins++
	}
	now := s.twins
	s.mu.Unlock()
	switch {
	case before < twins && now >= twins:
		s.log.Warn("this shard runs twice", "shard", s.cfg.Index, "addr", addr, "error", errTwice)
	case before >= twins && now == 0:
		s.log.Info("this shard no longer runs twice", "shard", s.cfg.Index)
	}
}

package cluster

import (
	"errors"
	"log/slog"
	"slices"
)

// deafBeats is how many answers of another shard in a row must leave this one out of the living until it is told: one
// that has just come is not known to everybody yet.
const deafBeats = 6

// errDeaf says that another shard answers, and does not hear this one.
var errDeaf = errors.New("it does not hear this replica and polls its queues too: look at the addresses in that one's file, and at the network between")

// unheard notes whether a shard that lives counts this one among the living. Who is asked at a wrong address, or
// cannot be reached from there, would not learn of it otherwise. The lock is held.
func (s *Shards) unheard(p *peer, v shardView) {
	if v.Leaving || s.state != joined || slices.Contains(v.Living, s.cfg.Index) {
		p.deaf = 0
	} else {
		p.deaf++
	}
}

// isDeaf says that the shard does not hear this one. The lock is held.
func (p *peer) isDeaf() bool { return p.deaf >= deafBeats }

// deafNews is what is worth a line about shards that do not hear this one. The lock is held.
func (s *Shards) deafNews() []func(*slog.Logger) {
	var lines []func(*slog.Logger)
	for i, p := range s.peers {
		switch deaf := s.lives(i) && p.isDeaf(); {
		case deaf == p.toldDeaf:
		case deaf:
			p.toldDeaf = true
			lines = append(lines, func(l *slog.Logger) {
				l.Warn("a shard does not hear this one", "shard", i, "error", errDeaf)
			})
		default:
			p.toldDeaf = false
			if s.lives(i) {
				lines = append(lines, func(l *slog.Logger) { l.Info("a shard hears this one again", "shard", i) })
			}
		}
	}
	return lines
}

package story

import (
	"math"
	"time"
)

// Bounds of what is remembered of a queue's numbers: about 3 KB.
const (
	finePoints   = 90
	coarsePoints = 96
	coarseStep   = 15 * time.Minute // so that the coarse ones cover a day
)

// A Point is a queue's numbers at one time; −1 where one was not known.
type Point struct {
	At       time.Time
	Messages int64 // on the main queue, hidden ones included
	Oldest   int64 // age of the oldest visible message, seconds
	Poison   int64 // on the poison queue
}

// point is Point as it is kept.
type point struct {
	at                       uint32 // Unix seconds
	messages, oldest, poison int32
}

func (p point) public() Point {
	return Point{time.Unix(int64(p.at), 0).UTC(), int64(p.messages), int64(p.oldest), int64(p.poison)}
}

func clamp(n int64) int32 { return int32(min(max(n, -1), math.MaxInt32)) }

// series is how a queue's numbers went: the latest points one by one, and before them the peak of each
// quarter of an hour.
type series struct {
	fine, coarse ring
	peak         point // of the present quarter
}

func (s *series) add(p point) {
	s.fine.add(p, finePoints)
	const step = uint32(coarseStep / time.Second)
	if s.peak.at/step != p.at/step {
		if s.peak.at != 0 {
			s.coarse.add(s.peak, coarsePoints)
		}
		s.peak = p
		return
	}
	s.peak.messages = max(s.peak.messages, p.messages)
	s.peak.oldest = max(s.peak.oldest, p.oldest)
	s.peak.poison = max(s.peak.poison, p.poison)
}

// points returns all that is kept, the oldest first.
func (s *series) points() []Point {
	out := make([]Point, 0, len(s.coarse.of)+len(s.fine.of))
	first := uint32(math.MaxUint32)
	if len(s.fine.of) > 0 {
		first = s.fine.at(0).at
	}
	for i := range s.coarse.of {
		if p := s.coarse.at(i); p.at < first {
			out = append(out, p.public())
		}
	}
	for i := range s.fine.of {
		out = append(out, s.fine.at(i).public())
	}
	return out
}

// spark returns the counts of the latest points, at most that many, each the highest of its share.
func (s *series) spark(most int) []int64 {
	n := len(s.fine.of)
	if n == 0 || most <= 0 {
		return nil
	}
	out := make([]int64, min(n, most))
	for i := range out {
		out[i] = -1
	}
	for i := range n {
		at := i * len(out) / n
		out[at] = max(out[at], int64(s.fine.at(i).messages))
	}
	return out
}

// ring keeps the latest of many points.
type ring struct {
	of   []point
	next int
}

func (r *ring) add(p point, most int) {
	if len(r.of) < most {
		r.of = append(r.of, p)
		return
	}
	r.of[r.next] = p
	r.next = (r.next + 1) % most
}

// at returns the i-th point, the oldest first.
func (r *ring) at(i int) point { return r.of[(r.next+i)%len(r.of)] }

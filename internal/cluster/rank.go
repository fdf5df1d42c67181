package cluster

import (
	"hash/fnv"
	"strings"
)

// poisonSuffix is what poison queues are called after. One that is watched as a queue of its own stays
// with the queue it is named after.
const poisonSuffix = "-poison"

// shardOf returns the one of members that a queue belongs to: the one that ranks highest for it, so that a member
// that leaves gives its queues to all others alike, and one that comes takes of all alike, and nothing else moves.
// False without members. Versions of qwatch that run side by side must agree on it: it never changes.
func shardOf(account, queue string, members []int) (int, bool) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(account)) // a hash takes everything
	_, _ = h.Write([]byte{'/'})
	_, _ = h.Write([]byte(strings.TrimSuffix(queue, poisonSuffix)))
	key := h.Sum64()
	best, top := 0, uint64(0)
	for n, m := range members {
		if rank := mix(key ^ mix(uint64(m)+1)); n == 0 || rank > top {
			best, top = m, rank
		}
	}
	return best, len(members) > 0
}

// mix spreads the bits of a number (the finisher of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

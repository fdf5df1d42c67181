package app

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

const (
	// largeFleet is how many polled queues, poison queues counted, make a fleet large.
	largeFleet = 4000
	// ThriftyGC is the GC percentage while a large fleet is watched.
	ThriftyGC = 50

	thriftEvery = 30 * time.Second
)

// thrift has garbage collected sooner while a large fleet is watched: what is known of its queues is most of the
// memory and stays, so that half as much again on top is a small pod's difference, and looking through
// it more often is cheap beside the polls. GOGC in the environment has the say.
func (s *service) thrift(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual, thrifty := 0, false
	for until(ctx, thriftEvery) {
		if large := s.collector.Polled() >= largeFleet; large != thrifty {
			thrifty = large
			if large {
				usual = debug.SetGCPercent(ThriftyGC)
			} else {
				debug.SetGCPercent(usual)
			}
		}
	}
	if thrifty {
		debug.SetGCPercent(usual)
	}
}

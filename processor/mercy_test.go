package processor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// most is the largest dequeue count that a handler has seen.
func (c *calls) most() int {
	n := 0
	for _, c := range c.list() {
		n = max(n, c.attempt)
	}
	return n
}

// noted is what the queue's metadata tells of an outage.
func (r *rig) noted() string {
	return r.srv.Metadata(queuetest.AccountName, "orders")[processor.MetadataOutage]
}

// Replicas with few messages between them, some of which see too little of an outage to know it.
func TestReplicasWithFewMessagesLoseNothingInAnOutage(t *testing.T) {
	for name, err := range map[string]error{"plain": errBroken, "network": errAway, "unavailable": processor.Unavailable(errBroken)} {
		for _, replicas := range []int{2, 3, 4} {
			for _, messages := range []int{1, 2, 3, 4, 5, 8} {
				if name == "plain" && messages < 3 {
					continue // nothing tells them from bad ones
				}
				t.Run(fmt.Sprintf("%s, %d messages, %d replicas", name, messages, replicas), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) {
						d := &downstream{err: err}
						d.away.Store(true)
						r.fill(messages)
						var runs []*running
						for range replicas {
							runs = append(runs, r.start(processor.Config{}, r.handle(d.call)))
						}
						time.Sleep(10 * time.Minute)
						d.away.Store(false)
						time.Sleep(10 * time.Minute)
						for _, run := range runs {
							r.end(run)
						}
						r.left(0, 0)
						t.Logf("at most %d deliveries, noted %q", r.calls.most(), r.noted())
					})
				})
			}
		}
	}
}

func TestAProcessStartedInAnOutageSparesWhatItCost(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for _, messages := range []int{3, 8, 40} {
			for _, at := range []time.Duration{4 * time.Minute, 9*time.Minute + 50*time.Second} {
				t.Run(fmt.Sprintf("%d messages, %d replicas, after %v", messages, replicas, at), func(t *testing.T) {
					bubble(t, func(t *testing.T, r *rig) {
						d := &downstream{err: errBroken}
						d.away.Store(true)
						r.fill(messages)
						start := func() (runs []*running) {
							for range replicas {
								runs = append(runs, r.start(processor.Config{}, r.handle(d.call)))
							}
							return runs
						}
						end := func(runs []*running) {
							for _, run := range runs {
								r.end(run)
							}
						}
						runs := start()
						time.Sleep(at)
						end(runs)
						runs = start()
						time.Sleep(10*time.Minute - at)
						d.away.Store(false)
						time.Sleep(10 * time.Minute)
						end(runs)
						r.left(0, 0)
						t.Logf("at most %d deliveries, noted %q", r.calls.most(), r.noted())
					})
				})
			}
		}
	}
}

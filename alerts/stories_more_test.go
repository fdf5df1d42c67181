package alerts_test

import (
	"fmt"
	"slices"

	"github.com/qwatch/qwatch/alerts/scenario"
)

func moreStories() []*scenario.Scenario {
	var all []*scenario.Scenario
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }

	s := add(story("rollout: pods release 100 messages and are replaced", 90))
	s.Watch(consumed("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, fine)
	s.Consume(consumed("1"), "old:9780", false, func(m int) work {
		switch {
		case m < 30:
			return work{Received: 20, Started: 20, Processed: 20, Active: 2, Oldest: 1}
		case m == 30:
			return work{Released: 100}
		default:
			return work{Gone: true}
		}
	})
	s.Consume(consumed("1"), "new:9780", false, func(m int) work {
		switch {
		case m < 32:
			return work{Gone: true}
		case m == 32:
			return work{}
		case m == 33:
			return work{Received: 120, Redelivered: 100, Started: 20, Processed: 120, Active: 16, Oldest: 2}
		default:
			return work{Received: 20, Started: 20, Processed: 20, Active: 2, Oldest: 1}
		}
	})
	s.Silent(30, 33, 36, 45, 60, 90)

	s = add(scenario.New("rollout of the watcher itself", 60))
	s.Process("", "watcher-1:9780", func(m int) bool { return m < 20 })
	s.Process("", "watcher-2:9780", func(m int) bool { return m >= 22 })
	one, two := orders("1"), orders("1")
	one.Instance, two.Instance = "watcher-1:9780", "watcher-2:9780"
	s.Watch(one, scenario.Settings{}, until(20, fine, always(view{Gone: true})))
	s.Watch(two, scenario.Settings{}, until(22, always(view{Gone: true}), fine))
	for name, healthy := range unmoved() {
		one.Queue, two.Queue = name, name
		s.Watch(one, scenario.Settings{}, until(20, healthy, always(view{Gone: true})))
		s.Watch(two, scenario.Settings{}, until(22, always(view{Gone: true}), until(25, unknown(healthy), healthy)))
	}
	s.Silent(21, 23, 24, 25, 27, 29, 35, 60)

	s = add(story("job pods that live shorter than a scrape, working well", 60))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		return view{Count: 40 + float64(2*m), Visible: 32, Age: 120, Head: 30, Status: "ok"} // never seen to fall
	})
	for pod := range 6 { // scraped once in its life, with nothing done yet
		s.Consume(orders("1"), fmt.Sprintf("job-%d:9780", pod), false, func(m int) work {
			if m != 10+7*pod {
				return work{Gone: true}
			}
			return work{Received: 1, Active: 1, Oldest: 1}
		})
	}
	s.Silent(11, 18, 30, 45, 60)

	s = add(story("one storage account throttles for an hour, criticals were firing before", 150))
	throttled := func(m int) bool { return m >= 60 && m < 120 }
	for _, name := range []string{"q1", "q2", "q3", "q4", "stuck", "poisoned"} {
		q := scenario.ID{Account: "a", Queue: name, Tier: "1"}
		s.Watch(q, scenario.Settings{}, func(m int) view {
			v := fine(m)
			switch name {
			case "stuck":
				v = view{Count: 100, Visible: 32, Age: float64(60 * m), Head: float64(60 * m), Status: "stalled"}
			case "poisoned":
				v.Poison = float64(5 * min(m, 59))
			}
			v.Fails = throttled(m)
			return v
		})
	}
	s.Set("qwatch_storage_request_duration_seconds_count", []string{"account", "a", "instance", "watcher:9780", "operation", "properties", "result", "ok"}, func(m int) float64 {
		return float64(12*min(m, 60) + 12*max(0, m-120))
	})
	s.Set("qwatch_storage_request_duration_seconds_count", []string{"account", "a", "instance", "watcher:9780", "operation", "properties", "result", "throttled"}, func(m int) float64 {
		return float64(48 * min(max(0, m-60), 60))
	})
	before := []string{"QwatchConsumerStalled critical a/stuck", "QwatchPoisonGrowing critical a/poisoned", "QwatchPoisonMessages warning a/poisoned"}
	s.Fires(55, before...)
	for _, m := range []int{63, 70, 80, 100, 119} {
		s.Fires(m, append(slices.Clone(before), "QwatchAccountUnreachable critical account=a")...)
	}
	s.Only(150, "QwatchAccountUnreachable|QwatchQueuePoll.+|QwatchConsumerStalled", "QwatchConsumerStalled critical a/stuck")

	s = add(story("40 % of receives fail", 60))
	s.Watch(consumed("1"), scenario.Settings{}, fine)
	s.Consume(consumed("1"), "c1", false, until(20, working, always(work{Received: 6, Started: 6, Processed: 6, Errors: 4, Active: 2, Oldest: 1})))
	s.Fires(35, "QwatchReceiveFailing"+warning)

	s = add(story("all receives of one replica of ten fail", 60))
	s.Watch(consumed("1"), scenario.Settings{}, fine)
	for i := range 10 {
		s.Consume(consumed("1"), fmt.Sprintf("c%d", i), false, func(m int) work {
			if i == 3 && m >= 20 {
				return work{Errors: 2}
			}
			return working(m)
		})
	}
	s.Fires(35, "QwatchReceiveFailing"+warning)

	s = add(story("nightly burst of 50,000, drained in 8 minutes, objective 15 minutes", 90))
	s.Watch(consumed("1"), scenario.Settings{Objective: 900, Ratio: 0.99}, func(m int) view {
		if m < 30 || m >= 38 {
			return view{Visible: 0}
		}
		return view{Count: 50000 - 6250*float64(m-30), Visible: 32, Age: float64(m-30) * 60, Status: "ok"}
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		if m > 30 && m <= 38 {
			return work{Received: 6250, Started: 6250, Processed: 6250, Active: 16, Oldest: 1}
		}
		return idling(m)
	})
	for m := 30; m <= 60; m += 3 {
		s.Silent(m)
	}

	s = add(story("forgotten queue, discovered, nobody has consumed for hours", 60))
	s.Watch(scenario.ID{Account: "a", Queue: "forgotten"}, scenario.Settings{}, func(m int) view {
		v := view{Count: 3, Visible: 3, Age: float64(m) * 60, Head: float64(m) * 60, Status: "unknown"}
		if m > 6 {
			v.Status = "stalled"
		}
		return v
	})
	s.Fires(59, "QwatchConsumerStalled warning a/forgotten")

	s = add(story("healthy queue whose messages live one hour", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		v.Expiry = 3500
		return v
	})
	s.Silent(15, 60, 120)

	s = add(story("key rotated; consumers and watcher lose access", 60))
	for _, name := range []string{"orders", "invoices"} {
		q := consumed("1")
		q.Queue = name
		s.Watch(q, scenario.Settings{}, func(m int) view {
			v := fine(m)
			v.Fails = m >= 20
			return v
		})
		s.Consume(q, "c1", false, until(20, working, always(work{Errors: 1})))
	}
	requests(s, func(m int) float64 { return float64(min(m, 20) * 100) }, "ok")
	requests(s, func(m int) float64 { return float64(max(0, m-20) * 6) }, "auth")
	s.Silent(19)
	for _, m := range []int{25, 40, 60} {
		s.Fires(m, "QwatchAccountUnreachable critical account=a")
	}

	s = add(story("key rotated; idle queues, so only requests tell", 60))
	for _, name := range []string{"orders", "invoices", "mails"} { // each is polled every five minutes
		q := orders("1")
		q.Queue = name
		s.Watch(q, scenario.Settings{}, func(m int) view { return view{Fails: m >= 26, PoisonAbsent: true} })
	}
	requests(s, func(m int) float64 { return float64(min(m, 20) * 4) }, "ok")
	requests(s, func(m int) float64 { return float64(max(0, m-20) * 4) }, "auth")
	s.Fires(25, "QwatchAccountUnreachable critical account=a")

	s = add(story("configured queue deleted", 90))
	s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, always(view{Deleted: true})))
	s.Consume(consumed("1"), "c1", false, until(20, working, always(work{Errors: 1})))
	s.Silent(19)
	for _, m := range []int{26, 45, 90} {
		s.Fires(m, "QwatchQueueMissing"+critical)
	}

	s = add(story("configured queue deleted while it was stalled", 90))
	s.Watch(consumed("1"), scenario.Settings{}, until(20, always(view{Count: 5, Visible: 5, Status: "stalled", Age: 6000, Head: 600}), always(view{Deleted: true})))
	s.Only(19, "", "QwatchConsumerStalled"+critical)
	for _, m := range []int{26, 45, 90} {
		s.Fires(m, "QwatchQueueMissing"+critical)
	}

	s = add(story("discovered queue deleted", 200))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		switch {
		case m < 21:
			return fine(m)
		case m < 24:
			return view{Deleted: true}
		default:
			return view{Gone: true}
		}
	})
	other := orders("1")
	other.Queue = "other"
	s.Watch(other, scenario.Settings{}, fine)
	discovery(s, func(m int) float64 { return float64(m - m%5 - 1) })
	for m := 20; m < 26; m++ {
		s.Silent(m)
	}
	s.Fires(40, "QwatchDiscoveredQueueDeleted"+warning)
	s.Silent(90, 200)

	s = add(story("a poison queue deleted", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if v.Poison = 7; m >= 30 {
			v.Poison, v.PoisonAbsent = 0, true
		}
		return v
	})
	s.Fires(25, "QwatchPoisonMessages"+warning)
	s.Silent(60, 120)

	s = add(story("a poison queue deleted, as the watcher tells it", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if m < 30 {
			v.Poison = 7
		}
		return v
	})
	s.Silent(60, 120)

	s = add(scenario.New("release installed under another name; one of several clusters loses its only replica", 90))
	s.Process("east", "watcher-east:9780", scenario.Always)
	s.Process("west", "watcher-west:9780", func(m int) bool { return m < 30 })
	for _, cluster := range []string{"east", "west"} {
		q := orders("1")
		q.Cluster, q.Instance = cluster, "watcher-"+cluster+":9780"
		s.Watch(q, scenario.Settings{}, func(m int) view {
			v := fine(m)
			v.Gone = cluster == "west" && m >= 30
			return v
		})
	}
	s.Silent(29)
	for _, m := range []int{34, 60, 90} {
		s.Fires(m, "QwatchAbsent critical cluster=west")
	}

	s = add(scenario.New("prod and dev share an account name; the dev consumer works, prod stalls", 60))
	for _, cluster := range []string{"prod", "dev"} {
		s.Process(cluster, "watcher:9780", scenario.Always)
		q := consumed("1")
		q.Cluster = cluster
		stall := until(20, fine, func(m int) view { return view{Count: 30, Visible: 30, Age: float64(m) * 60, Status: "ok"} })
		if cluster == "dev" {
			stall = fine
		}
		s.Watch(q, scenario.Settings{}, stall)
		s.Consume(q, "c1", false, until(20, working, func(m int) work {
			if cluster == "dev" {
				return working(m)
			}
			return idling(m)
		}))
	}
	s.Silent(19)
	s.Fires(31, "QwatchConsumerStalled critical a/orders cluster=prod")

	s = add(story("a healthy busy Functions queue, discovered, no settings at all", 150))
	s.Watch(orders(""), scenario.Settings{}, func(m int) view {
		return view{Count: 500 + float64(m%3), Visible: 32, Age: 40, Head: 0, Attempts: float64(m % 2), Status: "ok"}
	})
	s.Silent(15, 60, 120, 150)

	s = add(story("a .NET consumer whose series lack account", 90))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		return view{Count: 100 + float64(m), Visible: 32, Age: 60, Status: "stalled"} // the watcher is mistaken
	})
	s.Consume(orders("1"), "dotnet:8080", true, working)
	s.Silent(30, 60, 90)
	return all
}

// requests counts an account's storage requests by result.
func requests(s *scenario.Scenario, total func(int) float64, result string) {
	s.Set("qwatch_storage_request_duration_seconds_count", []string{"account", "a", "instance", "watcher:9780", "operation", "properties", "result", result}, total)
}

// discovery lists account a, the last time at a minute.
func discovery(s *scenario.Scenario, last func(int) float64) {
	labels := []string{"account", "a", "instance", "watcher:9780", "job", "qwatch"}
	s.Set("qwatch_discovery_queues", labels, func(int) float64 { return 2 })
	s.Set("qwatch_discovery_last_success_timestamp_seconds", labels, func(m int) float64 { return max(0, 60*last(m)) })
}

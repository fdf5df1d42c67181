package alerts_test

import (
	"fmt"

	"github.com/qwatch/qwatch/alerts/scenario"
)

// variations are incidents of the same kinds as the stories, told otherwise.
func variations() []*scenario.Scenario {
	var all []*scenario.Scenario
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }

	s := add(story("a poison queue that could not be read before holds 400", 60))
	for _, name := range []string{"orders", "b", "c"} {
		q := orders("1")
		q.Queue = name
		s.Watch(q, scenario.Settings{}, func(m int) view {
			v := fine(m)
			if name != "orders" {
				return v
			}
			if v.PoisonAbsent = m < 20; m >= 20 {
				v.Poison = 400
			}
			return v
		})
	}
	s.Set("queue_up", []string{"account", "a", "queue_name", "orders", "queue_kind", "poison", "instance", "another:9780"}, func(m int) float64 {
		if m < 20 {
			return 0
		}
		return 1
	})
	s.Only(26, "QwatchPoison.+", "QwatchPoisonMessages"+warning)

	s = add(story("poison storm at tier 3, seen by three replicas", 60))
	for i := range 3 {
		q := orders("3")
		q.Instance = fmt.Sprintf("watcher-%d:9780", i)
		s.Watch(q, scenario.Settings{}, func(m int) view { v := fine(m); v.Poison = float64(40 * max(0, m-20-i)); return v })
	}
	s.Fires(30, "QwatchPoisonGrowing"+info, "QwatchPoisonMessages"+info)

	s = add(story("one consumer of two crashes again and again; the other works", 90))
	s.Watch(consumed("1"), scenario.Settings{}, fine)
	s.Consume(consumed("1"), "good:9780", false, working)
	s.Consume(consumed("1"), "bad:9780", false, func(m int) work {
		if m < 20 || m%3 == 1 {
			return work{Gone: m >= 20}
		}
		return work{Restart: m%3 == 2, Received: 10, Redelivered: 8, Active: 10, Oldest: 20}
	})
	s.Only(45, "QwatchConsumerStalled|QwatchPoison.+|QwatchAbsent")

	s = add(story("a single bad message blocks the only consumer", 90))
	s.Watch(consumed("2"), scenario.Settings{}, until(20, fine, func(m int) view {
		return view{Count: 1, Visible: float64(m % 2), Attempts: float64(m - 20), Age: float64(m-20) * 60, Status: "ok"}
	}))
	s.Consume(consumed("2"), "c1", false, until(20, working, always(work{Received: 1, Redelivered: 1, Failed: 1, Retried: 1})))
	s.Only(31, "QwatchConsumerStalled", "QwatchConsumerStalled"+warning)

	s = add(story("scheduled messages of which one is being retried", 180))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := view{Count: 300 - float64(m%9), Status: "hidden"}
		if m%11 == 0 {
			v.Visible, v.Attempts, v.Age = 1, 2, 7200
		}
		return v
	})
	s.Silent(30, 60, 90, 179)

	s = add(story("rollouts one after another, every 15 minutes", 120))
	s.Watch(consumed("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, fine)
	for i := range 8 {
		s.Consume(consumed("1"), fmt.Sprintf("pod-%d:9780", i), false, func(m int) work {
			switch age := m - 15*i; {
			case age < 1 || age > 14:
				return work{Gone: true}
			case age == 2:
				return work{Received: 60, Redelivered: 40, Started: 20, Processed: 60, Active: 8, Oldest: 2}
			case age == 14:
				return work{Released: 40}
			default:
				return work{Received: 60, Started: 60, Processed: 60, Active: 4, Oldest: 1}
			}
		})
	}
	s.Silent(20, 33, 47, 63, 95, 119)

	s = add(story("an account throttles now and then, and work goes on", 120))
	for _, name := range []string{"q1", "q2", "q3"} {
		q := scenario.ID{Account: "a", Queue: name, Tier: "1", Mode: "consume"}
		s.Watch(q, scenario.Settings{}, func(m int) view { v := fine(m); v.Fails = m > 30 && m%5 == 0; return v })
		s.Consume(q, "c1", false, working)
	}
	requests(s, func(m int) float64 { return float64(900 * m) }, "ok")
	requests(s, func(m int) float64 { return float64(60 * max(0, m-30)) }, "throttled")
	s.Only(60, "Qwatch(Storage|Queue|Consumer|Receive).+", "QwatchStorageThrottled warning account=a")

	s = add(story("one receive in a hundred fails", 60))
	s.Watch(consumed("1"), scenario.Settings{}, fine)
	s.Consume(consumed("1"), "c1", false, always(work{Received: 99, Started: 99, Processed: 99, Errors: 1, Active: 4, Oldest: 1}))
	s.Silent(30, 60)

	s = add(story("nightly burst on a queue that is only watched", 90))
	s.Watch(orders("1"), scenario.Settings{Objective: 900, Ratio: 0.99}, func(m int) view {
		if m < 30 || m >= 38 {
			return view{}
		}
		return view{Count: 50000 - 6250*float64(m-30), Visible: 32, Age: float64(m-30) * 60, Status: "ok"}
	})
	s.Silent(31, 34, 37, 40, 60, 90)

	s = add(story("the only queue of a discovered account deleted, noticed by the listing", 120))
	s.Watch(orders("1"), scenario.Settings{}, until(20, fine, always(view{Gone: true})))
	discovery(s, func(m int) float64 { return float64(m - m%5) })
	s.Fires(30, "QwatchDiscoveredQueueDeleted"+warning)
	s.Silent(100, 120)

	s = add(story("configured queue deleted in an account that is discovered too", 60))
	s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, always(view{Deleted: true})))
	discovery(s, func(m int) float64 { return float64(m - m%5) })
	s.Fires(30, "QwatchQueueMissing"+critical)
	s.Fires(60, "QwatchQueueMissing"+critical)

	s = add(scenario.New("every cluster loses its qwatch", 60))
	for _, cluster := range []string{"east", "west"} {
		s.Process(cluster, "watcher-"+cluster, func(m int) bool { return m < 30 })
	}
	s.Fires(40, "QwatchAbsent critical cluster=east", "QwatchAbsent critical cluster=west")

	s = add(story("a .NET consumer whose series lack account, and that stands still", 60))
	s.Watch(orders("1"), scenario.Settings{}, until(20, fine, func(m int) view {
		v := view{Count: 30, Visible: 30, Age: float64(m-20) * 60, Head: float64(m-20) * 60, Status: "ok"}
		if m > 26 {
			v.Status = "stalled"
		}
		return v
	}))
	s.Consume(orders("1"), "dotnet:8080", true, until(20, working, idling))
	s.Fires(45, "QwatchConsumerStalled"+critical)

	s = add(story("a busy Functions queue that falls behind", 120))
	s.Watch(orders(""), scenario.Settings{}, func(m int) view {
		v := view{Count: 500 + 50*float64(m), Visible: 32, Age: 60 + 10*float64(m), Status: "ok"}
		if m > 30 {
			v.Status = "falling_behind"
		}
		return v
	})
	s.Silent(29)
	s.Fires(120, "QwatchBacklogGrowing"+warning)

	s = add(story("a queue that is nearly out of time, and then is drained", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if m >= 20 && m < 60 {
			v = view{Count: 50, Visible: 32, Age: 2000, Status: "falling_behind", Loss: 3600}
		}
		return v
	})
	s.Only(40, "QwatchMessagesExpiringSoon", "QwatchMessagesExpiringSoon"+critical+" window=soon")
	s.Only(90, "QwatchMessagesExpiringSoon")
	return all
}

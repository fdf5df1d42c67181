package alerts_test

import (
	"fmt"

	"github.com/qwatch/qwatch/alerts/scenario"
)

const (
	stall  = "QwatchConsumerStalled"
	pages  = "QwatchConsumerStalled|QwatchMessagesRetriedInVain|QwatchPoisonGrowing|Qwatch.+Burn|QwatchAbsent|QwatchAccountUnreachable"
	redone = "QwatchRedelivery.+|QwatchRedeliveries.+"
)

// unmoved are healthy queues whose counts are never seen to fall.
func unmoved() map[string]func(int) view {
	return map[string]func(int) view{
		"rising":   func(m int) view { return view{Count: 50 + 3*float64(m), Visible: 20, Age: 40, Status: "ok"} },
		"constant": always(view{Count: 50, Visible: 20, Age: 40, Status: "ok"}),
	}
}

// unknown is what a watcher says that has just begun.
func unknown(what func(int) view) func(int) view {
	return func(m int) view {
		v := what(m)
		v.Status = "unknown"
		return v
	}
}

// edges are situations next to those that the rules are for: what looks like an incident and is none, and incidents
// that something hides.
func edges() []*scenario.Scenario {
	all := append(edgesOfSight(), edgesOfTime()...)
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }

	s := add(story("200 scheduled for tomorrow, one due every 10 minutes, its handler takes over 3", 80))
	s.Watch(consumed("1"), scenario.Settings{}, func(m int) view {
		v := view{Count: 200, Status: "hidden"}
		if m%10 < 4 {
			v.Count = 201
		}
		if m%10 == 0 {
			v.Visible, v.Age = 1, 7200
		}
		return v
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		switch r := m % 10; r {
		case 1:
			return work{Received: 1, Started: 1, Active: 1, Oldest: 30, Empty: 4}
		case 2, 3:
			return work{Active: 1, Oldest: float64(r-1)*60 + 30, Empty: 4}
		case 4:
			return work{Processed: 1, Empty: 4}
		}
		return idling(m)
	})
	for m := 20; m <= 80; m++ {
		s.Only(m, pages)
	}

	s = add(story("200 scheduled for tomorrow, one due every 15 minutes fails once", 100))
	s.Watch(consumed("1"), scenario.Settings{}, func(m int) view {
		v := view{Count: 200, Status: "hidden"}
		if m%15 < 5 {
			v.Count = 201
		}
		return v
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		switch m % 15 {
		case 1:
			return work{Received: 1, Started: 1, Failed: 1, Retried: 1, Empty: 4}
		case 5:
			return work{Received: 1, Redelivered: 1, Processed: 1, Empty: 4}
		}
		return idling(m)
	})
	for m := 20; m <= 80; m++ {
		s.Only(m, pages)
	}

	// Of the crashes, those of pods that live for 14 minutes are told by the start times of their processes.
	for _, life := range []int{7, 14} {
		s = add(story(fmt.Sprintf("crash loop of pods that live %d minutes: dying handlers are old", life-1), 90))
		s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, func(m int) view {
			return view{Count: 300 + float64(m), Visible: 32, Status: "ok", Attempts: float64((m - 20) / life), Age: float64(m-20) * 60}
		}))
		for i := range 2 {
			instance := fmt.Sprintf("c%d", i)
			s.Consume(consumed("1"), instance, false, until(20, working, func(m int) work {
				switch r := (m + 3*i) % life; r {
				case 0:
					return work{Gone: true}
				case 1:
					return work{Restart: true, Received: 16, Redelivered: 16, Active: 16, Oldest: 20}
				default:
					return work{Active: 16, Oldest: float64(r-1)*60 + 20}
				}
			}))
			s.Set("process_start_time_seconds", []string{"instance", instance, "job", "qwatch"}, func(m int) float64 {
				if m < 20 {
					return 1
				}
				return float64((m + 3*i) / life)
			})
		}
		s.Only(19, stall)
		for _, m := range []int{60, 70, 80, 90} {
			s.Only(m, stall, stall+critical)
		}
		if life == 7 {
			for _, m := range []int{31, 36, 40, 50} {
				s.Only(m, stall, stall+critical)
			}
		}
	}

	s = add(story("no consumer is left; a queue of that name in another account has a .NET consumer without account", 70))
	s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, func(m int) view {
		v := view{Count: 5 * float64(m), Visible: 32, Age: float64(m-20) * 60, Head: float64(m-20) * 60, Status: "ok"}
		if m > 26 {
			v.Status = "stalled"
		}
		return v
	}))
	s.Consume(consumed("1"), "c1", false, until(20, working, always(work{Gone: true})))
	other := orders("1")
	other.Account = "b"
	s.Watch(other, scenario.Settings{}, fine)
	s.Consume(other, "dotnet:8080", true, working)
	for _, m := range []int{31, 45, 70} {
		s.Only(m, stall, stall+critical)
	}

	s = add(story("poison count that goes up and down by one, and nothing arrives", 90))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view { v := fine(m); v.Poison = 100 + float64(m%2); return v })
	for _, m := range []int{20, 40, 60, 90} {
		s.Fires(m, "QwatchPoisonMessages"+warning)
	}

	s = add(story("rollout of five pods; each releases 40 messages after its last scrape", 90))
	s.Watch(consumed("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, fine)
	for i := range 5 {
		quiet := work{Received: 2, Started: 2, Processed: 2, Active: 1, Oldest: 1}
		s.Consume(consumed("1"), fmt.Sprintf("old-%d", i), false, until(31+3*i, always(quiet), always(work{Gone: true})))
		s.Consume(consumed("1"), fmt.Sprintf("new-%d", i), false, func(m int) work {
			switch k := m - 31 - 3*i; {
			case k < 0:
				return work{Gone: true}
			case k == 0:
				return work{}
			case k == 1:
				return work{Received: 42, Redelivered: 40, Started: 2, Processed: 42, Active: 8, Oldest: 2}
			}
			return quiet
		})
	}
	for m := 30; m <= 90; m += 2 {
		s.Silent(m)
	}

	s = add(story("one consumer of two dies every three minutes, and comes back under its name", 90))
	s.Watch(consumed("1"), scenario.Settings{}, fine)
	s.Consume(consumed("1"), "good:9780", false, working)
	s.Consume(consumed("1"), "bad:9780", false, until(20, working, func(m int) work {
		if m%3 == 1 {
			return work{Gone: true}
		}
		return work{Restart: m%3 == 2, Received: 100, Redelivered: 80, Active: 10, Oldest: 20}
	}))
	s.Only(19, redone)
	s.Only(80, "QwatchRedeliveriesUnaccounted", "QwatchRedeliveriesUnaccounted"+warning+" window=consumer")
	return all
}

// edgesOfSight are about watchers that come and go.
func edgesOfSight() []*scenario.Scenario {
	var all []*scenario.Scenario
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }
	for _, gap := range []int{1, 3, 30} {
		s := add(scenario.New(fmt.Sprintf("healthy queues that are only watched, their counts never fall; %d minutes without a watcher", gap), 90))
		s.Process("", "w1:9780", func(m int) bool { return m < 40 })
		s.Process("", "w2:9780", func(m int) bool { return m >= 40+gap })
		for name, healthy := range unmoved() {
			one, two := orders("1"), orders("1")
			one.Queue, two.Queue, one.Instance, two.Instance = name, name, "w1:9780", "w2:9780"
			s.Watch(one, scenario.Settings{}, until(40, healthy, always(view{Gone: true})))
			s.Watch(two, scenario.Settings{}, until(40+gap, always(view{Gone: true}), until(43+gap, unknown(healthy), healthy)))
		}
		for m := 38; m <= 90; m += 2 {
			s.Only(m, stall+"|QwatchMessagesRetriedInVain")
		}
	}

	s := add(scenario.New("a storm of 400 while there is no watcher for 20 minutes", 60))
	up := func(m int) bool { return m < 20 || m >= 40 }
	s.Process("", "watcher:9780", up)
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if v.Gone = !up(m); m >= 40 {
			v.Poison = 400
		}
		return v
	})
	s.Only(19, "QwatchPoison.+")
	s.Only(47, "QwatchPoisonGrowing", "QwatchPoisonGrowing"+critical)

	s = add(scenario.New("what is critical stays so while the watcher is gone for 40 minutes", 90))
	up = func(m int) bool { return m < 40 || m > 80 }
	s.Process("", "watcher:9780", up)
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		v.Gone, v.Poison = !up(m), float64(10*max(0, m-20))
		return v
	})
	// The consumers lose access as well: they have storage requests, and no tier.
	consumer := []string{"account", "a", "instance", "c1", "operation", "receive"}
	total := func(from, to int) func(int) float64 {
		return func(m int) float64 { return float64(12 * max(0, min(m, to)-from)) }
	}
	s.Set("qwatch_storage_request_duration_seconds_count", append(consumer, "result", "ok"), total(0, 30))
	s.Set("qwatch_storage_request_duration_seconds_count", append(consumer, "result", "auth"), total(30, 90))
	for _, m := range []int{36, 39, 42, 45, 50, 56, 60, 70, 80} {
		s.Only(m, "QwatchPoisonGrowing|QwatchAccountUnreachable", "QwatchPoisonGrowing"+critical, "QwatchAccountUnreachable critical account=a")
	}
	return all
}

// edgesOfTime are about messages that were scheduled ahead, and are handled when they are due.
func edgesOfTime() []*scenario.Scenario {
	var all []*scenario.Scenario
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }
	settings := scenario.Settings{Objective: 900, Ratio: 0.99}
	for _, of := range []struct {
		total, minutes int
		consumed       bool
	}{{100, 1, true}, {200, 2, true}, {3000, 12, true}, {3000, 12, false}} {
		q, who := orders("1"), "only watched"
		if of.consumed {
			q, who = consumed("1"), "consumed"
		}
		each := float64(of.total / of.minutes)
		s := add(story(fmt.Sprintf("%d messages scheduled 2 hours ahead for one moment, done in %d minutes, %s", of.total, of.minutes, who), 100))
		s.Watch(q, settings, func(m int) view {
			switch {
			case m < 60:
				return view{Count: float64(of.total), Status: "hidden"}
			case m < 60+of.minutes:
				return view{Count: each * float64(60+of.minutes-m), Visible: 32, Age: 7200 + 60*float64(m-60), Status: "ok"}
			default:
				return view{}
			}
		})
		if of.consumed {
			s.Consume(q, "c1", false, func(m int) work {
				if m > 60 && m <= 60+of.minutes {
					return work{Received: each, Started: each, Late: each, Waits: each, Processed: each, Active: 16, Oldest: 4}
				}
				return idling(m)
			})
		}
		for m := 58; m <= 100; m += 2 {
			s.Silent(m)
		}
	}

	s := add(story("30 scheduled messages due every 20 minutes, done within the minute", 120))
	s.Watch(consumed("1"), settings, func(m int) view {
		v := view{Count: 180, Status: "hidden"}
		if m%20 == 0 {
			v.Visible, v.Age = 30, 7200
		}
		return v
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		if m%20 == 1 {
			return work{Received: 30, Started: 30, Late: 30, Waits: 30, Processed: 30, Active: 16, Oldest: 4}
		}
		return idling(m)
	})
	for m := 20; m <= 120; m += 2 {
		s.Silent(m)
	}

	// The other side: as many and as old, but they go on waiting.
	for _, own := range []bool{true, false} {
		q, alert := orders("1"), "QwatchHeadLateBudgetBurn"
		if own {
			q, alert = consumed("1"), "QwatchTimeInQueueBudgetBurn"
		}
		s = add(story("a burst that takes an hour, objective 15 minutes: "+alert, 100))
		s.Watch(q, settings, func(m int) view {
			if m < 30 || m >= 90 {
				return view{}
			}
			return view{Count: 3000 - 50*float64(m-30), Visible: 32, Age: float64(m-30) * 60, Status: "ok"}
		})
		if own {
			s.Consume(q, "c1", false, func(m int) work {
				if m <= 30 || m > 90 {
					return idling(m)
				}
				w := work{Received: 50, Started: 50, Processed: 50, Active: 16, Oldest: 1}
				if m > 45 {
					w.Late, w.Waits = 50, 50
				}
				return w
			})
		}
		s.Only(44, "Qwatch.+Burn")
		fires := []string{alert + critical + " window=fast"}
		if own {
			fires = append(fires, alert+warning+" window=slow")
		}
		s.Only(75, "Qwatch.+Burn", fires...)
	}
	return all
}

package alerts_test

import (
	"math"

	"github.com/qwatch/qwatch/alerts/scenario"
)

type (
	view = scenario.View
	work = scenario.Work
)

// story is a scenario in which one qwatch runs all the time.
func story(name string, minutes int) *scenario.Scenario {
	s := scenario.New(name, minutes)
	s.Process("", "watcher:9780", scenario.Always)
	return s
}

func orders(tier string) scenario.ID {
	return scenario.ID{Account: "a", Queue: "orders", Tier: tier, Team: "payments"}
}

func consumed(tier string) scenario.ID {
	q := orders(tier)
	q.Mode = "consume"
	return q
}

// fine is a queue that is worked off: its count goes up and down.
func fine(m int) view {
	n := 20 + 10*math.Sin(float64(m))
	return view{Count: math.Round(n), Visible: math.Round(n / 2), Age: 5, Status: "ok"}
}

// working is a consumer that does its work.
func working(int) work {
	return work{Received: 100, Started: 100, Processed: 100, Active: 4, Oldest: 1}
}

// idling is a consumer that finds nothing.
func idling(int) work { return work{Empty: 4} }

// until is the first before a minute, and the second from then on.
func until[T any](minute int, first, then func(int) T) func(int) T {
	return func(m int) T {
		if m < minute {
			return first(m)
		}
		return then(m)
	}
}

func always[T any](x T) func(int) T { return func(int) T { return x } }

const (
	critical = " critical a/orders"
	warning  = " warning a/orders"
	info     = " info a/orders"
)

// stories are the incidents that the rules are measured by.
func stories() []*scenario.Scenario {
	var all []*scenario.Scenario
	add := func(s *scenario.Scenario) *scenario.Scenario { all = append(all, s); return s }
	poisonOnly := "QwatchPoison.+|QwatchDeadLetter.+|QwatchMessagesDeadLettered"

	s := add(story("first poison storm: the poison queue did not exist, 400 arrive within one poll", 60))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if v.PoisonAbsent = m < 20; m >= 20 {
			v.Poison = 400
		}
		return v
	})
	s.Silent(19)
	s.Only(26, "QwatchPoisonGrowing", "QwatchPoisonGrowing"+critical)
	s.Only(26, "", "QwatchPoisonGrowing"+critical, "QwatchPoisonMessages"+warning)

	s = add(story("the same where the watcher counts 0 before", 60))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if m >= 20 {
			v.Poison = 400
		}
		return v
	})
	s.Fires(26, "QwatchPoisonGrowing"+critical, "QwatchPoisonMessages"+warning)

	s = add(story("400 in the poison queue when the watch begins is no storm", 60))
	s.Watch(orders("1"), scenario.Settings{}, until(10, always(view{Gone: true}), func(m int) view {
		v := fine(m)
		v.Poison = 400
		return v
	}))
	s.Fires(25, "QwatchPoisonMessages"+warning)

	s = add(story("poison storm while an operator purges every 20 minutes", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		if m >= 20 {
			v.Poison = float64(m % 20 * 10)
		}
		return v
	})
	for m := 40; m < 120; m += 7 {
		s.Only(m, "QwatchPoisonGrowing", "QwatchPoisonGrowing"+critical)
	}

	s = add(story("poison that is replayed one by one is no storm", 120))
	s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		v.Poison = max(0, 100-float64(m))
		return v
	})
	s.Fires(60, "QwatchPoisonMessages"+warning)

	s = add(story("slow drip: one bad message every 4 minutes for hours", 180))
	s.Watch(consumed("1"), scenario.Settings{}, func(m int) view {
		v := fine(m)
		v.Poison = float64(m / 4)
		return v
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		w := work{Received: 5, Started: 4, Processed: 4, Active: 1, Oldest: 1}
		if m%4 == 3 {
			w.Failed, w.Retried, w.DeadLettered, w.Redelivered = 5, 4, 1, 1
		}
		return w
	})
	for _, m := range []int{60, 120, 180} {
		s.Only(m, poisonOnly, "QwatchPoisonMessages"+warning)
		s.Only(m, "QwatchConsumerStalled|QwatchFailureBudgetBurn", fastOnly(m)...)
	}

	for _, deep := range []bool{false, true} {
		name, count := "crash loop of all consumers, ten messages, no objective set", func(int) float64 { return 10 }
		if deep {
			name, count = "crash loop, deep queue", func(m int) float64 { return 5000 + 20*float64(m) }
		}
		s = add(story(name, 60))
		crash := 20
		s.Watch(consumed("1"), scenario.Settings{}, until(crash, fine, func(m int) view {
			v := view{Count: count(m), Status: "ok", Attempts: float64((m - crash) / 2)}
			if deep || m%2 == 0 { // leases lapse, and are taken anew
				v.Visible, v.Age = min(count(m), 32), float64(m-crash)*60
			}
			if m > crash+11 {
				v.Status = "stalled"
			}
			return v
		}))
		s.Consume(consumed("1"), "pod-a:9780", false, until(crash, working, func(m int) work {
			switch m % 3 {
			case 0: // has just died: a last scrape shows its handlers
				return work{Received: 10, Redelivered: 10, Active: 10, Oldest: 20}
			case 1:
				return work{Gone: true}
			default:
				return work{Restart: true, Received: 10, Redelivered: 10, Active: 10, Oldest: 30}
			}
		}))
		s.Only(19, "")
		for _, m := range []int{30, 31, 32, 40, 60} {
			s.Only(m, "QwatchConsumerStalled", "QwatchConsumerStalled"+critical)
		}
	}

	s = add(story("all consumers are gone, and their series too", 60))
	s.Watch(orders("1"), scenario.Settings{}, until(20, fine, func(m int) view {
		v := view{Count: float64(m), Visible: float64(m), Age: float64(m-20) * 60, Head: float64(m-20) * 60, Status: "ok"}
		if m > 26 {
			v.Status = "stalled"
		}
		return v
	}))
	s.Consume(orders("1"), "pod-a:9780", false, until(20, working, always(work{Gone: true})))
	for _, m := range []int{31, 45, 60} {
		s.Only(m, "", "QwatchConsumerStalled"+critical)
	}

	s = add(story("what handlers call is down; long retries hide every message (our consumer)", 60))
	s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, func(m int) view {
		v := view{Count: 50, Status: "hidden", Attempts: 0}
		if m < 28 {
			v.Status = "ok"
		}
		return v
	}))
	s.Consume(consumed("1"), "c1", false, until(20, working, func(m int) work {
		if m%4 == 0 {
			return work{Received: 50, Redelivered: 50, Failed: 50, Retried: 50}
		}
		return idling(m)
	}))
	for _, m := range []int{30, 45, 60} {
		s.Only(m, "QwatchConsumerStalled", "QwatchConsumerStalled"+critical)
	}

	s = add(story("the same with a Functions consumer that qwatch only watches", 80))
	s.Watch(orders("1"), scenario.Settings{}, until(20, fine, func(m int) view {
		v := view{Count: 50, Status: "hidden"}
		if m < 29 {
			v.Status = "ok"
		}
		if m%7 == 0 { // a look at the right moment
			v.Visible, v.Attempts, v.Age = 1, float64(1+(m-20)/10), float64(m-20)*60
		}
		return v
	}))
	for _, m := range []int{40, 60, 80} {
		s.Fires(m, "QwatchMessagesRetriedInVain"+critical)
	}

	s = add(story("ten-minute outage of what handlers call, default settings", 60))
	s.Watch(consumed("1"), scenario.Settings{Objective: 900, Ratio: 0.99}, func(m int) view {
		if m < 20 || m >= 32 {
			return fine(m)
		}
		return view{Count: 100 + 10*float64(m-20), Visible: 32, Age: float64(m-20) * 60, Head: 60, Status: "ok"}
	})
	s.Consume(consumed("1"), "c1", false, func(m int) work {
		if m < 20 || m >= 30 {
			return working(m)
		}
		if m == 20 {
			return work{Received: 12, Failed: 12, Retried: 12, Breaker: true}
		}
		return work{Breaker: true}
	})
	s.Only(25, "QwatchBreakerOpen", "QwatchBreakerOpen"+warning)
	for m := 20; m <= 60; m++ {
		s.Only(m, poisonOnly)
	}
	s.Only(45, "")

	for _, dense := range []bool{false, true} {
		name := "messages scheduled two hours ahead, all on time, sender unknown to us"
		if dense {
			name += ", ten a second"
		}
		s = add(story(name, 220))
		s.Watch(consumed("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, func(m int) view {
			v := view{Count: 240 + float64(m%5), Status: "hidden"}
			if dense {
				v.Count, v.Visible, v.Age = 72000+float64(m%7), 5+float64(m%9), 7200
			} else if m%3 == 0 {
				v.Visible, v.Age = 1, 7200
			}
			return v
		})
		s.Consume(consumed("1"), "c1", false, func(int) work {
			w := work{Received: 2, Started: 2, Late: 2, Waits: 2, Processed: 2, Empty: 2}
			if dense {
				w = work{Received: 600, Started: 600, Late: 600, Waits: 600, Processed: 600, Active: 3, Oldest: 1}
			}
			return w
		})
		s.Silent(20, 70, 130, 220)
	}

	s = add(story("scheduled ahead, and only watched", 130))
	s.Watch(orders("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, func(m int) view {
		v := view{Count: 240, Status: "hidden"}
		if m%4 == 0 {
			v.Visible, v.Age = 1, 7200
		}
		return v
	})
	s.Silent(30, 70, 130)
	return append(all, moreStories()...)
}

// fastOnly is what a slow drip may tell beside the poison queue: that handlers fail.
func fastOnly(minute int) []string {
	if minute < 60 {
		return nil
	}
	return []string{"QwatchFailureBudgetBurn" + warning + " window=slow"}
}

package alerts_test

import (
	"fmt"
	"math"

	"github.com/qwatch/qwatch/alerts/scenario"
)

// silent are the situations in which no alert at all may be heard, and those in which one must go on without
// a break.
func silent() []*scenario.Scenario {
	var all []*scenario.Scenario
	quiet := func(name string, fill func(*scenario.Scenario)) {
		s := story("silent: "+name, 100)
		fill(s)
		s.Silent(10, 16, 30, 45, 51, 62, 63, 64, 65, 70, 76, 90, 100)
		all = append(all, s)
	}
	settings := scenario.Settings{Objective: 300, Ratio: 0.99, HandlerLimit: 600}
	quiet("a healthy queue", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, fine)
		s.Consume(consumed("1"), "c1", false, working)
	})
	quiet("no traffic", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, always(view{}))
		s.Consume(consumed("1"), "c1", false, idling)
	})
	quiet("series absent", func(*scenario.Scenario) {})
	quiet("the watcher's series only", func(s *scenario.Scenario) { s.Watch(consumed("1"), settings, fine) })
	quiet("the consumer's series only", func(s *scenario.Scenario) { s.Consume(consumed("1"), "c1", false, working) })
	quiet("consumer restarts", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, fine)
		s.Consume(consumed("1"), "c1", false, func(m int) work {
			w := working(m)
			switch m {
			case 60, 61:
				return work{Gone: true}
			case 62:
				return work{Restart: true}
			}
			return w
		})
	})
	quiet("two replicas watch, and see it at different moments", func(s *scenario.Scenario) {
		one, two := consumed("1"), consumed("1")
		one.Instance, two.Instance = "watcher-1:9780", "watcher-2:9780"
		s.Watch(one, settings, fine)
		s.Watch(two, settings, func(m int) view { return fine(m + 1) })
		s.Consume(consumed("1"), "c1", false, working)
		s.Consume(consumed("1"), "c2", false, working)
	})
	quiet("two replicas disagree about tier and team", func(s *scenario.Scenario) {
		one, two := consumed("1"), consumed("2")
		one.Instance, two.Instance, two.Team = "watcher-1:9780", "watcher-2:9780", "others"
		s.Watch(one, settings, fine)
		s.Watch(two, settings, fine)
	})
	quiet("one replica of two cannot poll", func(s *scenario.Scenario) {
		one, two := consumed("1"), consumed("1")
		one.Instance, two.Instance = "watcher-1:9780", "watcher-2:9780"
		s.Watch(one, settings, fine)
		s.Watch(two, settings, func(m int) view { v := fine(m); v.Fails = m > 30; return v })
		s.Consume(consumed("1"), "c1", false, working)
	})
	quiet("one missed scrape of everything", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, func(m int) view { v := fine(m); v.Gone = m == 62; return v })
		s.Consume(consumed("1"), "c1", false, func(m int) work { w := working(m); w.Unseen = m == 62; return w })
	})
	quiet("flapping values", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, func(m int) view {
			v := view{Count: float64(m % 2 * 40), Visible: float64(m % 2 * 32), Age: float64(m % 2 * 400), Status: "ok"}
			v.Fails = m%6 == 0
			return v
		})
		s.Consume(consumed("1"), "c1", false, func(m int) work {
			w := working(m)
			if m%2 == 0 {
				w = idling(m)
			}
			return w
		})
	})
	quiet("a count that only rises and one that does not move, while the watcher is replaced", func(s *scenario.Scenario) {
		for name, healthy := range unmoved() {
			for i, there := range []func(int) bool{func(m int) bool { return m < 60 }, func(m int) bool { return m >= 63 }} {
				q := orders("1")
				q.Queue, q.Instance = name, fmt.Sprintf("watcher-%d:9780", i)
				s.Watch(q, settings, func(m int) view {
					v := healthy(m)
					if m >= 60 && m < 66 {
						v.Status = "unknown"
					}
					v.Gone = !there(m)
					return v
				})
			}
		}
	})
	quiet("one failed poll of every queue", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, func(m int) view { v := fine(m); v.Fails = m == 62; return v })
	})
	s := story("silent: paused consumer, but for saying so after an hour", 150)
	s.Watch(consumed("1"), scenario.Settings{}, until(30, fine, func(m int) view {
		return view{Count: float64(m), Visible: 32, Age: float64(m-30) * 60, Head: float64(m-30) * 60, Status: "paused"}
	}))
	s.Consume(consumed("1"), "c1", false, until(30, working, always(work{Paused: true})))
	s.Silent(29, 45, 60, 89)
	s.Fires(120, "QwatchProcessorPaused"+info)
	all = append(all, s)
	quiet("watch-only queue that nobody is meant to consume", func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{MonitorOnly: true}, func(m int) view {
			return view{Count: 5, Visible: 5, Age: float64(m) * 60, Head: float64(m) * 60, Status: "ok"}
		})
	})
	quiet("long handlers at work while messages wait", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), scenario.Settings{HandlerLimit: 7200}, func(m int) view { return view{Count: 5, Visible: 4, Age: 600, Status: "ok"} })
		s.Consume(consumed("1"), "c1", false, func(m int) work {
			w := work{Active: 1, Oldest: float64(m%20) * 60}
			if m%20 == 0 {
				w.Received, w.Started, w.Processed = 1, 1, 1
			}
			return w
		})
	})
	quiet("a queue that is polled every five minutes", func(s *scenario.Scenario) {
		s.Watch(orders(""), scenario.Settings{}, func(m int) view { return view{Poison: 0} })
	})
	quiet("messages in flight only", func(s *scenario.Scenario) {
		s.Watch(consumed("1"), settings, func(m int) view { return view{Count: 16, Status: "ok"} })
		s.Consume(consumed("1"), "c1", false, func(m int) work { w := working(m); w.Active = 16; return w })
	})
	return append(all, append(continuous(), handovers()...)...)
}

// continuous are alerts that must not end and begin anew.
func continuous() []*scenario.Scenario {
	var all []*scenario.Scenario
	for _, two := range []bool{false, true} {
		s := story("one continuous alert: a stall with missed scrapes, failed polls and a count that is told now and then", 120)
		if two {
			s.Name += ", two replicas"
		}
		instances := 1
		if two {
			instances = 2
		}
		for i := range instances {
			q := consumed("1")
			q.Instance = fmt.Sprintf("watcher-%d:9780", i)
			s.Watch(q, scenario.Settings{}, func(m int) view {
				v := view{Count: 40, Visible: math.Min(32, float64(m)), Age: float64(m) * 60, Head: float64(m) * 60, Status: "stalled"}
				v.Fails, v.Gone = m%17 == 16, m%23 == 22
				return v
			})
			s.Consume(consumed("1"), fmt.Sprintf("c%d", i), false, func(m int) work { w := idling(m); w.Unseen = m%23 == 22; return w })
		}
		for m := 14; m <= 120; m++ {
			s.Only(m, "QwatchConsumerStalled|QwatchAccountUnreachable", "QwatchConsumerStalled"+critical)
		}
		all = append(all, s)
	}
	s := story("the watcher restarts during a stall, and does not know yet", 120)
	one, two := orders("1"), orders("1")
	one.Instance, two.Instance = "watcher-1:9780", "watcher-2:9780"
	stuck := func(status string) func(int) view {
		return func(m int) view { return view{Count: 5, Visible: 5, Age: float64(m) * 60, Head: 600, Status: status} }
	}
	s.Watch(one, scenario.Settings{}, until(40, stuck("stalled"), always(view{Gone: true})))
	s.Watch(two, scenario.Settings{}, until(42, always(view{Gone: true}), until(60, stuck("unknown"), until(90, stuck("stalled"), fine))))
	for m := 5; m < 90; m += 3 {
		s.Fires(m, "QwatchConsumerStalled"+critical)
	}
	s.Silent(95)
	return append(all, s)
}

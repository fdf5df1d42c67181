package alerts_test

import (
	"github.com/qwatch/qwatch/alerts/scenario"
)

// firing has, of each alert, a scenario in which it fires at last and is silent before, or next to one that does
// not quite reach it.
func firing() []*scenario.Scenario {
	var all []*scenario.Scenario
	// about adds a scenario, which expects of one alert only that it fires at the end, and not at the minutes before.
	about := func(alert, labels string, minutes int, silent []int, fill func(*scenario.Scenario)) {
		s := story(alert+" fires", minutes)
		fill(s)
		for _, m := range silent {
			s.Only(m, alert)
		}
		s.Only(minutes, alert, alert+" "+labels)
		all = append(all, s)
	}
	watch := func(settings scenario.Settings, v func(int) view) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) { s.Watch(orders("1"), settings, v) }
	}
	consume := func(w func(int) work) func(*scenario.Scenario) {
		return func(s *scenario.Scenario) {
			s.Watch(consumed("1"), scenario.Settings{}, fine)
			s.Consume(consumed("1"), "c1", false, w)
		}
	}
	process := []string{"instance", "watcher:9780", "job", "qwatch"}
	account := []string{"account", "a", "instance", "watcher:9780", "job", "qwatch"}
	step := func(minute int, before, after float64) func(int) float64 {
		return until(minute, always(before), always(after))
	}

	// qwatch itself
	s := scenario.New("QwatchAbsent fires", 40)
	s.Process("", "watcher:9780", func(m int) bool { return m < 30 })
	s.Silent(29, 31)
	s.Fires(40, "QwatchAbsent critical")
	all = append(all, s)
	s = scenario.New("QwatchAbsent fires where qwatch never was", 10)
	s.Set("up", []string{"job", "other"}, always(1.0))
	s.Fires(10, "QwatchAbsent critical")
	all = append(all, s)
	about("QwatchRestarting", "warning", 60, []int{10, 30}, func(s *scenario.Scenario) {
		s.Set("process_start_time_seconds", process, func(m int) float64 { return float64(m / 8 * 480) })
		s.Set("process_start_time_seconds", []string{"instance", "another", "job", "qwatch"}, func(m int) float64 { return float64(m / 8 * 480) })
	})
	about("QwatchLoopStuck", "warning", 40, []int{19, 24}, func(s *scenario.Scenario) {
		labels := append([]string{"check", "collector"}, process...)
		s.Set("qwatch_health_check_status", append([]string{"probe", "live"}, labels...), step(20, 1, 0))
		s.Set("qwatch_health_check_status", append([]string{"probe", "ready"}, labels...), always(0.0))
	})
	about("QwatchConfigReloadFailed", "warning", 40, []int{19, 29}, func(s *scenario.Scenario) {
		s.Set("qwatch_config_last_reload_successful", process, step(20, 1, 0))
	})
	about("QwatchLeaderMissing", "critical", 40, []int{5, 22}, func(s *scenario.Scenario) {
		s.Set("qwatch_leader", process, step(20, 1, 0))
		s.Set("qwatch_leader", []string{"instance", "watcher-2:9780", "job", "qwatch"}, always(0.0))
	})
	about("QwatchShardMissing", "critical", 40, []int{19, 23}, func(s *scenario.Scenario) {
		s.Set("qwatch_shards", process, always(3.0))
		s.Set("qwatch_shards_alive", process, step(20, 3, 2))
	})
	about("QwatchCanaryFailing", "warning", 40, []int{19, 22}, func(s *scenario.Scenario) {
		s.Set("qwatch_canary_failures_total", process, func(m int) float64 { return float64(max(0, m-20)) })
		s.Set("qwatch_canary_failures_total", []string{"instance", "elsewhere", "job", "other"}, func(m int) float64 { return float64(m / 6) })
	})

	// accounts
	about("QwatchAccountUnreachable", "critical account=a", 40, []int{19, 20}, watch(scenario.Settings{}, func(m int) view { v := fine(m); v.Fails = m >= 20; return v }))
	about("QwatchStorageThrottled", "warning account=a", 60, []int{19, 29}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, fine)
		requests(s, func(m int) float64 { return float64(600 * m) }, "ok")
		requests(s, func(m int) float64 { return float64(20 * max(0, m-20)) }, "throttled")
	})
	about("QwatchCredentialExpiring", "warning account=a window=week", 40, []int{10}, func(s *scenario.Scenario) {
		s.Set("qwatch_credential_expiry_timestamp_seconds", account, step(20, 0, 500_000))
	})
	all[len(all)-1].Expect[0].Firing = []string{"QwatchCredentialExpiring warning account=a window=day"} // expired: tier unknown
	about("QwatchClockSkew", "warning account=a", 40, []int{19, 29}, func(s *scenario.Scenario) {
		s.Set("qwatch_clock_skew_seconds", account, step(20, 5, -200))
		s.Set("qwatch_clock_skew_seconds", []string{"account", "b", "instance", "watcher:9780"}, always(119.0))
	})
	about("QwatchDiscoveryFailing", "warning account=a", 120, []int{19, 75}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, fine)
		discovery(s, func(m int) float64 { return float64(min(m, 20)) })
	})
	about("QwatchDiscoveryTruncated", "warning account=a", 40, []int{19, 34}, func(s *scenario.Scenario) {
		discovery(s, func(m int) float64 { return float64(m) })
		s.Set("qwatch_discovery_queues_dropped", account, step(20, 0, 12))
	})

	// queues
	about("QwatchQueueMissing", "critical a/orders", 40, []int{19, 22}, watch(scenario.Settings{}, until(20, fine, always(view{Deleted: true}))))
	about("QwatchQueuePollFailing", "warning a/orders", 60, []int{19, 28}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, func(m int) view { v := fine(m); v.Fails = m >= 20; return v })
		for _, name := range []string{"b", "c", "d"} {
			s.Watch(scenario.ID{Account: "a", Queue: name}, scenario.Settings{}, fine)
		}
	})
	about("QwatchQueuePollStale", "warning a/orders", 60, []int{19, 28}, watch(scenario.Settings{}, func(m int) view { v := fine(m); v.NoPoll = m >= 20; return v }))
	about("QwatchDiscoveredQueueDeleted", "warning a/orders", 40, []int{19, 21}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, until(20, fine, always(view{Gone: true})))
		discovery(s, func(m int) float64 { return float64(m) })
	})
	about("QwatchQueueSeriesVanished", "warning a/orders", 60, []int{19, 29}, watch(scenario.Settings{}, until(20, fine, always(view{Gone: true}))))
	about("QwatchConsumerStalled", "critical a/orders", 40, []int{19, 24}, func(s *scenario.Scenario) {
		s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, always(view{Count: 1, Visible: 1, Status: "ok"}))) // one message is enough
		s.Consume(consumed("1"), "c1", false, until(20, working, idling))
	})
	about("QwatchMessagesRetriedInVain", "critical a/orders", 60, []int{19, 24}, watch(scenario.Settings{}, until(20, fine, func(m int) view {
		return view{Count: 9, Status: "hidden", Attempts: float64(m % 3)}
	})))
	about("QwatchHeadOfQueueStuck", "warning a/orders", 60, []int{19, 27}, watch(scenario.Settings{Objective: 300}, until(20, fine, func(m int) view {
		return view{Count: 9, Visible: 9, Head: float64(m-20) * 60, Age: float64(m-20) * 60, Status: "ok"}
	})))
	about("QwatchBacklogPredictedLate", "warning a/orders", 90, []int{19, 30}, func(s *scenario.Scenario) {
		s.Watch(consumed("1"), scenario.Settings{Objective: 300}, until(20, fine, func(m int) view {
			return view{Count: 60000 + float64(m), Visible: 32, Age: 200, Status: "ok"}
		}))
		s.Consume(consumed("1"), "c1", false, working)
	})
	about("QwatchBacklogGrowing", "warning a/orders", 60, []int{19, 29}, watch(scenario.Settings{}, until(20, fine, func(m int) view {
		return view{Count: 100 * float64(m), Visible: 32, Age: 500, Status: "falling_behind"}
	})))
	about("QwatchMessagesExpiringSoon", "warning a/orders window=day", 60, []int{19, 29}, watch(scenario.Settings{}, func(m int) view {
		v := fine(m)
		if v.Poison = 1; m >= 20 {
			v.PoisonLoss = 80_000
		}
		return v
	}))
	about("QwatchMessagesExpiringSoon", "critical a/orders window=soon", 60, []int{19, 24}, watch(scenario.Settings{}, until(20, fine, always(view{Count: 40, Visible: 32, Status: "stalled", Loss: 3000}))))
	about("QwatchScalingSignalStale", "warning a/orders", 60, []int{19, 22}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, fine)
		s.Set("qwatch_scaling_signal_age_seconds", append([]string{"queue_name", "orders"}, account...), func(m int) float64 { return float64(60 * max(0, m-20)) })
	})

	// poison
	about("QwatchPoisonMessages", "warning a/orders", 40, []int{19, 24}, watch(scenario.Settings{}, func(m int) view {
		v := fine(m)
		if m >= 20 && m%2 == 0 { // somebody takes it out, and it comes back
			v.Poison = 1
		}
		return v
	}))
	about("QwatchPoisonGrowing", "critical a/orders", 60, []int{19, 39}, watch(scenario.Settings{}, func(m int) view { v := fine(m); v.Poison = max(0, float64(m-20)/2); return v }))
	about("QwatchMessagesDeadLettered", "warning a/orders", 40, []int{19}, consume(func(m int) work {
		w := working(m)
		if m == 30 {
			w.DeadLettered = 1
		}
		return w
	}))
	about("QwatchUnreadableMessages", "warning a/orders", 40, []int{19, 23}, consume(func(m int) work {
		w := working(m)
		if m >= 20 {
			w.Unreadable = 1
		}
		return w
	}))
	about("QwatchDeadLetterFailing", "critical a/orders", 40, []int{19}, consume(func(m int) work {
		w := working(m)
		if m == 25 {
			w.CopyFailed = 1
		}
		return w
	}))
	about("QwatchDeadLetterRatioHigh", "critical a/orders", 60, []int{19, 22}, consume(func(m int) work {
		w := working(m)
		if m >= 20 {
			w.DeadLettered = 10
		}
		return w
	}))
	return append(all, firingConsumers(about, consume)...)
}

package alerts_test

import "github.com/qwatch/qwatch/alerts/scenario"

func firingConsumers(
	about func(alert, labels string, minutes int, silent []int, fill func(*scenario.Scenario)),
	consume func(func(int) work) func(*scenario.Scenario),
) []*scenario.Scenario {
	with := func(from int, change func(*work)) func(int) work {
		return func(m int) work {
			w := working(m)
			if m >= from {
				change(&w)
			}
			return w
		}
	}
	about("QwatchBreakerOpen", "warning a/orders", 30, []int{19, 20}, consume(with(20, func(w *work) { w.Breaker = true })))
	about("QwatchHandlerHung", "critical a/orders", 120, []int{19, 79}, consume(func(m int) work {
		w := working(m)
		w.Oldest = float64(60 * max(0, m-20))
		return w
	}))
	about("QwatchFailureRatioHigh", "warning a/orders", 60, []int{19, 22}, consume(with(20, func(w *work) { w.Failed, w.Retried = 30, 30 })))
	about("QwatchLeaseRenewalsFailing", "warning a/orders", 40, []int{19}, consume(func(m int) work {
		w := working(m)
		if m == 30 {
			w.RenewalsLost = 1
		}
		return w
	}))
	about("QwatchPopReceiptConflicts", "warning a/orders", 40, []int{19, 24}, consume(with(20, func(w *work) { w.Conflicts = 1 })))
	about("QwatchRedeliveryHigh", "warning a/orders", 90, []int{19, 40}, consume(with(20, func(w *work) { w.Redelivered, w.Retried = 50, 50 })))
	about("QwatchRedeliveriesUnaccounted", "warning a/orders window=consumer", 90, []int{19, 40}, consume(with(20, func(w *work) { w.Redelivered = 20 })))
	about("QwatchRedeliveriesUnaccounted", "warning a/orders window=watcher", 60, []int{19, 34}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{}, func(m int) view {
			v := fine(m)
			if m >= 20 {
				v.Attempts = 3 + float64(m%2)
			}
			return v
		})
	})
	about("QwatchReceiveFailing", "warning a/orders", 60, []int{19, 24}, consume(with(20, func(w *work) { w.Errors = 100 })))
	about("QwatchConsumersSaturated", "warning a/orders", 90, []int{19, 39}, func(s *scenario.Scenario) {
		s.Watch(consumed("1"), scenario.Settings{}, until(20, fine, func(m int) view {
			return view{Count: 100 * float64(m), Visible: 32, Age: 500, Status: "ok"}
		}))
		s.Consume(consumed("1"), "c1", false, with(20, func(w *work) { w.Active = 16 }))
	})
	about("QwatchProcessorPaused", "info a/orders", 90, []int{19, 79}, consume(with(20, func(w *work) { *w = work{Paused: true} })))
	about("QwatchWastedPolls", "info a/orders", 130, []int{30}, consume(func(int) work { return work{Received: 1, Started: 1, Processed: 1, Empty: 480} }))
	all := []*scenario.Scenario{}
	late := func(name string, minutes int, share float64, fires []string, silent ...int) {
		s := story("QwatchTimeInQueueBudgetBurn "+name, minutes)
		s.Watch(consumed("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, until(60, fine, func(m int) view {
			return view{Count: 4000 + float64(m%10), Visible: 32, Age: 600, Status: "ok"}
		}))
		s.Consume(consumed("1"), "c1", false, with(60, func(w *work) { w.Late = share * w.Started; w.Waits = w.Late }))
		for _, m := range silent {
			s.Only(m, "QwatchTimeInQueueBudgetBurn")
		}
		s.Only(minutes, "QwatchTimeInQueueBudgetBurn", fires...)
		all = append(all, s)
	}
	const burn = "QwatchTimeInQueueBudgetBurn "
	late("burns fast", 120, 0.5, []string{burn + "critical a/orders window=fast", burn + "warning a/orders window=slow"}, 59, 65)
	late("burns slowly, for long", 330, 0.08, []string{burn + "info a/orders window=trend", burn + "warning a/orders window=day", burn + "warning a/orders window=slow"}, 59, 80)
	for _, wait := range []bool{false, true} {
		s := story("QwatchTimeInQueueHigh fires", 60)
		if !wait {
			s.Name = "QwatchTimeInQueueHigh is silent when nothing waits"
		}
		s.Watch(consumed("1"), scenario.Settings{Objective: 300}, func(m int) view {
			if wait && m >= 20 {
				return view{Count: 2000, Visible: 32, Age: 400, Status: "ok"}
			}
			return view{Count: 9, Status: "ok"}
		})
		s.Consume(consumed("1"), "c1", false, with(20, func(w *work) { w.Waits = 10 }))
		s.Only(19, "QwatchTimeInQueueHigh")
		if s.Only(28, "QwatchTimeInQueueHigh"); wait {
			s.Only(60, "QwatchTimeInQueueHigh", "QwatchTimeInQueueHigh warning a/orders")
		} else {
			s.Only(60, "QwatchTimeInQueueHigh")
		}
		all = append(all, s)
	}
	about("QwatchHeadLateBudgetBurn", "critical a/orders window=fast", 90, []int{19, 21}, func(s *scenario.Scenario) {
		s.Watch(orders("1"), scenario.Settings{Objective: 300, Ratio: 0.99}, until(20, fine, func(m int) view {
			return view{Count: 900, Visible: 32, Age: 600, Status: "ok"}
		}))
	})
	s := story("QwatchFailureBudgetBurn fires", 120)
	consume(with(60, func(w *work) { w.Failed, w.Retried, w.Processed = 50, 50, 50 }))(s)
	s.Only(59, "QwatchFailureBudgetBurn")
	s.Only(120, "QwatchFailureBudgetBurn", "QwatchFailureBudgetBurn critical a/orders window=fast", "QwatchFailureBudgetBurn warning a/orders window=slow")
	all = append(all, s)
	return all
}

// costs are two accounts, of which one has become twice as dear within a week. A minute of it is an hour.
func costs() *scenario.Scenario {
	const week = 7 * 24
	s := scenario.New("QwatchCostHigh fires", week+24)
	s.Step = "1h"
	s.Process("", "watcher:9780", scenario.Always)
	for _, account := range []string{"a", "b"} {
		labels := []string{"account", account, "instance", "watcher:9780", "job", "qwatch"}
		s.Set("qwatch_storage_estimated_monthly_cost", labels, func(h int) float64 {
			if account == "a" && h >= week+2 {
				return 210
			}
			return 100
		})
	}
	s.Only(week+1, "QwatchCostHigh")
	s.Only(week+2, "QwatchCostHigh")
	s.Only(week+24, "QwatchCostHigh", "QwatchCostHigh info account=a")
	return s
}

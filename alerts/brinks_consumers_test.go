package alerts_test

import "github.com/qwatch/qwatch/alerts/scenario"

// does is a play of a consumer whose work a level changes.
func does(change func(w *work, x float64)) func(*brinkFleet, func(int) float64) {
	return func(f *brinkFleet, x func(int) float64) {
		f.work(func(m int) work {
			w := working(m)
			change(&w, x(m))
			return w
		})
	}
}

func brinksOfPoison() []brink {
	flaps := map[kind]string{flapping: oneIsEnough}
	return []brink{
		{
			alert: "QwatchPoisonMessages", over: 1, excused: flaps,
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{}, func(m int) view { v := fine(m); v.Poison = x(m); return v })
			},
		},
		{
			alert: "QwatchPoisonGrowing", near: 0.3, over: 0.7, // a minute
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{}, func(m int) view {
					v := fine(m)
					for i := range m {
						v.Poison += x(i)
					}
					v.Poison = float64(int(v.Poison))
					return v
				})
			},
		},
		{
			alert: "QwatchMessagesDeadLettered", over: 1,
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{}, func(m int) view {
					v := fine(m)
					if x(m) == 0 {
						v.Poison = 1 + float64(m/10)
					}
					return v
				})
				does(func(w *work, _ float64) { w.DeadLettered = 0.1 })(f, x)
			},
		},
		{alert: "QwatchUnreadableMessages", near: 0.25, over: 0.6, play: does(func(w *work, x float64) { w.Unreadable = x })},
		{alert: "QwatchDeadLetterFailing", over: 1, excused: flaps, play: does(func(w *work, x float64) { w.CopyFailed = x })},
		{alert: "QwatchDeadLetterRatioHigh", near: 4, over: 7, play: does(func(w *work, x float64) { w.DeadLettered = x })},
	}
}

func brinksOfConsumers() []brink {
	flaps := map[kind]string{flapping: oneIsEnough}
	return []brink{
		{alert: "QwatchBreakerOpen", over: 1, pulse: 1, play: does(func(w *work, x float64) { w.Breaker = x > 0 })},
		{
			alert: "QwatchHandlerHung", near: 580, over: 700,
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{HandlerLimit: 600}, fine)
				does(func(w *work, x float64) { w.Oldest = x })(f, x)
			},
		},
		{alert: "QwatchFailureRatioHigh", near: 9, over: 13, play: does(func(w *work, x float64) { w.Failed, w.Retried = x, x })},
		{alert: "QwatchLeaseRenewalsFailing", over: 1, excused: flaps, play: does(func(w *work, x float64) { w.RenewalsLost = x })},
		{alert: "QwatchPopReceiptConflicts", near: 0.15, over: 0.4, play: does(func(w *work, x float64) { w.Conflicts = x })},
		{alert: "QwatchRedeliveryHigh", near: 23, over: 32, play: does(func(w *work, x float64) { w.Redelivered, w.Retried = x, x })},
		{alert: "QwatchRedeliveriesUnaccounted", window: "consumer", near: 9, over: 13, play: does(func(w *work, x float64) { w.Redelivered = x })},
		{
			alert: "QwatchRedeliveriesUnaccounted", window: "watcher", near: 2, over: 3,
			play: func(f *brinkFleet, x func(int) float64) {
				f.unknown()
				f.watch(scenario.Settings{}, func(m int) view { v := fine(m); v.Attempts = x(m); return v })
			},
		},
		{alert: "QwatchReceiveFailing", near: 22, over: 35, play: does(func(w *work, x float64) { w.Errors = x })},
		{
			alert: "QwatchConsumersSaturated", near: 14.5, over: 16, // of 16 handlers
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{}, func(m int) view { return view{Count: 100 * float64(m), Visible: 32, Age: 500, Status: "ok"} })
				does(func(w *work, x float64) { w.Active = x })(f, x)
			},
		},
		{
			alert: "QwatchProcessorPaused", over: 1, pulse: 60, minutes: 110, excused: map[kind]string{paused: tellsOfIt},
			play: does(func(w *work, x float64) {
				if x > 0 {
					*w = work{Paused: true}
				}
			}),
		},
		{
			alert: "QwatchWastedPolls", near: 1300, over: 3000, minutes: 110, // that find nothing, for forty that do
			play: does(func(w *work, x float64) { *w = work{Received: 40, Started: 40, Processed: 40, Empty: x} }),
		},
	}
}

func brinksOfBurn() []brink {
	settings := scenario.Settings{Objective: 300, Ratio: 0.99}
	late := func(f *brinkFleet, x func(int) float64) {
		f.watch(settings, func(m int) view { return view{Count: 4000 + float64(m%10), Visible: 32, Age: 600, Status: "ok"} })
		does(func(w *work, x float64) { w.Late, w.Waits = x, x })(f, x)
	}
	fails := does(func(w *work, x float64) { w.Failed, w.Retried, w.Processed = x, x, 100-x })
	return []brink{
		{alert: "QwatchTimeInQueueBudgetBurn", window: "fast", near: 13, over: 25, play: late},
		{alert: "QwatchTimeInQueueBudgetBurn", window: "slow", near: 5, over: 9, play: late},
		{alert: "QwatchTimeInQueueBudgetBurn", window: "day", near: 2.5, over: 5, minutes: 110, play: late},
		{alert: "QwatchTimeInQueueBudgetBurn", window: "trend", near: 0.8, over: 2, minutes: 240, play: late},
		{alert: "QwatchFailureBudgetBurn", window: "fast", near: 13, over: 25, play: fails},
		{alert: "QwatchFailureBudgetBurn", window: "slow", near: 5, over: 9, play: fails},
		{
			alert: "QwatchHeadLateBudgetBurn", window: "fast", near: 290, over: 400, every: 10,
			play: func(f *brinkFleet, x func(int) float64) {
				f.unknown()
				f.watch(settings, func(m int) view { return view{Count: 900, Visible: 32, Age: x(m), Status: "ok"} })
			},
		},
		{
			alert: "QwatchTimeInQueueHigh", near: 4, over: 8,
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{Objective: 300}, func(int) view { return view{Count: 2000, Visible: 32, Age: 400, Status: "ok"} })
				does(func(w *work, x float64) { w.Waits = x })(f, x)
			},
		},
	}
}

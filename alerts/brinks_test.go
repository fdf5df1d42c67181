package alerts_test

import (
	"math"

	"github.com/qwatch/qwatch/alerts/scenario"
)

// Why kinds are not played.
const (
	oneIsEnough = "one is enough, on purpose, so there is nothing short of it to flap around"
	tellsOfIt   = "it is what the alert tells"
)

// brinks are those of every alert.
func brinks() []brink {
	all := append(brinksOfItself(), brinksOfAccounts()...)
	all = append(all, brinksOfQueues()...)
	all = append(all, brinksOfPoison()...)
	all = append(all, brinksOfConsumers()...)
	all = append(all, brinksOfBurn()...)
	for i := range all {
		if all[i].minutes == 0 {
			all[i].minutes = 75
		}
		if all[i].every == 0 {
			all[i].every = 4
		}
	}
	return all
}

// states is a play of a gauge of the watcher that is value where the level is over, and usual elsewhere.
func states(name string, labels []string, usual, value float64) func(*brinkFleet, func(int) float64) {
	return func(f *brinkFleet, x func(int) float64) {
		f.tell(name, labels, func(m, _ int) float64 { return usual + (value-usual)*x(m) })
	}
}

func brinksOfItself() []brink {
	return []brink{
		{
			alert: "QwatchAbsent", over: 1, pulse: 3, excused: map[kind]string{absent: tellsOfIt},
			play: func(f *brinkFleet, x func(int) float64) { f.process(func(m int) bool { return x(m) > 0 }) },
		},
		{
			alert: "QwatchRestarting", near: 3, over: 6, // within an hour
			play: func(f *brinkFleet, x func(int) float64) {
				starts, last := 0.0, 0.0
				f.tell("process_start_time_seconds", nil, func(m, _ int) float64 {
					if m == 0 {
						starts, last = 0, 0
					}
					if starts += x(m) / 60; math.Floor(starts+1e-9) > last {
						last = math.Floor(starts + 1e-9)
					}
					return 60 * last
				})
			},
		},
		{
			alert: "QwatchLoopStuck", over: 1, pulse: 5,
			play: states("qwatch_health_check_status", []string{"probe", "live", "check", "collector"}, 1, 0),
		},
		{alert: "QwatchConfigReloadFailed", over: 1, pulse: 10, play: states("qwatch_config_last_reload_successful", nil, 1, 0)},
		{
			alert: "QwatchLeaderMissing", over: 1, pulse: 3,
			play: func(f *brinkFleet, x func(int) float64) {
				f.tell("qwatch_leader", nil, func(m, replica int) float64 {
					if replica > 0 {
						return 0
					}
					return 1 - x(m)
				})
			},
		},
		{
			alert: "QwatchShardMissing", over: 1, pulse: 5,
			play: func(f *brinkFleet, x func(int) float64) {
				f.tell("qwatch_shards", nil, func(int, int) float64 { return 3 })
				f.tell("qwatch_shards_alive", nil, func(m, _ int) float64 { return 3 - x(m) })
			},
		},
		{
			alert: "QwatchCanaryFailing", near: 0.2, over: 0.6,
			play: func(f *brinkFleet, x func(int) float64) { f.count("qwatch_canary_failures_total", nil, x) },
		},
	}
}

func brinksOfAccounts() []brink {
	account := []string{"account", "a"}
	expires := func(seconds float64) func(*brinkFleet, func(int) float64) {
		return func(f *brinkFleet, x func(int) float64) {
			f.tell("qwatch_credential_expiry_timestamp_seconds", account, func(m, _ int) float64 { return float64(60*m) + seconds + 600*(1-x(m)) })
		}
	}
	return []brink{
		{
			alert: "QwatchAccountUnreachable", over: 1, pulse: 1,
			play: func(f *brinkFleet, x func(int) float64) {
				f.watch(scenario.Settings{}, func(m int) view { v := fine(m); v.Fails = x(m) > 0; return v })
			},
		},
		{
			alert: "QwatchStorageThrottled", near: 5, over: 9, // a minute
			play: func(f *brinkFleet, x func(int) float64) {
				const requests = "qwatch_storage_request_duration_seconds_count"
				f.count(requests, append([]string{"operation", "peek", "result", "ok"}, account...), always(600.0))
				f.count(requests, append([]string{"operation", "peek", "result", "throttled"}, account...), x)
			},
		},
		{alert: "QwatchCredentialExpiring", window: "week", over: 2, play: expires(7 * 86400)},
		{alert: "QwatchCredentialExpiring", window: "day", over: 2, play: expires(86400)},
		{alert: "QwatchClockSkew", near: 115, over: 130, play: states("qwatch_clock_skew_seconds", account, 0, 1)},
		{
			alert: "QwatchDiscoveryFailing", near: 3500, over: 3700,
			play: func(f *brinkFleet, x func(int) float64) {
				f.tell("qwatch_discovery_last_success_timestamp_seconds", account, func(m, _ int) float64 { return float64(60*m) - x(m) })
			},
		},
		{alert: "QwatchDiscoveryTruncated", over: 1, pulse: 15, play: states("qwatch_discovery_queues_dropped", account, 0, 12)},
		{
			alert: "QwatchCostHigh", near: 190, over: 220, minutes: brinkHours, after: 7 * 24,
			play: func(f *brinkFleet, x func(int) float64) {
				f.tell("qwatch_storage_estimated_monthly_cost", account, func(h, _ int) float64 {
					cost := 100.0
					if h >= 7*24 {
						cost = x(h)
					}
					return cost / float64(len(f.instances("")))
				})
			},
		},
	}
}

func brinksOfQueues() []brink {
	sees := func(settings scenario.Settings, change func(v *view, m int, x float64)) func(*brinkFleet, func(int) float64) {
		return func(f *brinkFleet, x func(int) float64) {
			f.watch(settings, func(m int) view {
				v := fine(m)
				change(&v, m, x(m))
				return v
			})
		}
	}
	gone := func(v *view, _ int, x float64) { v.Gone = x > 0 }
	silenced := []kind{noTraffic, paused, watchOnly}
	return []brink{
		{alert: "QwatchQueueMissing", over: 1, pulse: 4, play: sees(scenario.Settings{}, func(v *view, _ int, x float64) { v.Deleted = x > 0 })},
		{
			alert: "QwatchDiscoveredQueueDeleted", over: 1, pulse: 2, excused: map[kind]string{absent: tellsOfIt},
			play: func(f *brinkFleet, x func(int) float64) {
				f.tell("qwatch_discovery_last_success_timestamp_seconds", []string{"account", "a"}, func(m, _ int) float64 { return float64(60 * m) })
				sees(scenario.Settings{}, gone)(f, x)
			},
		},
		{
			alert: "QwatchQueuePollFailing", over: 1, pulse: 9,
			play: func(f *brinkFleet, x func(int) float64) {
				sees(scenario.Settings{}, func(v *view, _ int, x float64) { v.Fails = x > 0 })(f, x)
				for _, other := range []string{"b", "c", "d"} {
					f.beside(other, scenario.Settings{}, fine)
				}
			},
		},
		{alert: "QwatchQueuePollStale", over: 1, pulse: 9, play: sees(scenario.Settings{}, func(v *view, _ int, x float64) { v.NoPoll = x > 0 })},
		{alert: "QwatchQueueSeriesVanished", over: 1, pulse: 10, excused: map[kind]string{absent: tellsOfIt}, play: sees(scenario.Settings{}, gone)},
		{
			alert: "QwatchConsumerStalled", over: 1, pulse: 7, even: silenced,
			play: func(f *brinkFleet, x func(int) float64) {
				sees(scenario.Settings{}, func(v *view, _ int, x float64) {
					if x > 0 {
						*v = view{Count: 9, Visible: 9, Status: "ok"}
						if f.kind == watchOnly { // which the watcher finds where there is no consumer of qwatch's
							v.Status = "stalled"
						}
					}
				})(f, x)
				f.work(func(m int) work {
					if x(m) > 0 {
						return idling(m)
					}
					return working(m)
				})
			},
		},
		{
			alert: "QwatchMessagesRetriedInVain", over: 1, pulse: 18, even: []kind{noTraffic, paused},
			play: func(f *brinkFleet, x func(int) float64) {
				f.unknown()
				sees(scenario.Settings{}, func(v *view, m int, x float64) {
					if x > 0 {
						*v = view{Count: 9, Status: "hidden", Attempts: float64(m % 3)}
					}
				})(f, x)
			},
		},
		{
			alert: "QwatchHeadOfQueueStuck", near: 290, over: 400, even: silenced,
			play: sees(scenario.Settings{Objective: 300}, func(v *view, _ int, x float64) { *v = view{Count: 9, Visible: 9, Head: x, Age: x, Status: "ok"} }),
		},
		{
			alert: "QwatchBacklogPredictedLate", near: 280, over: 340, // seconds
			play: sees(scenario.Settings{Objective: 300}, func(v *view, _ int, x float64) {
				*v = view{Count: x * 100 / 60, Visible: 32, Age: 200, Status: "ok"}
			}),
		},
		{
			alert: "QwatchBacklogGrowing", over: 1, pulse: 10, even: []kind{noTraffic, paused},
			play: sees(scenario.Settings{}, func(v *view, m int, x float64) {
				if x > 0 {
					*v = view{Count: 100 * float64(m), Visible: 32, Age: 500, Status: "falling_behind"}
				}
			}),
		},
		{
			alert: "QwatchMessagesExpiringSoon", window: "day", over: 2,
			play: sees(scenario.Settings{}, func(v *view, _ int, x float64) { v.Poison, v.PoisonLoss = 1, 86400+1000*(1-x) }),
		},
		{
			alert: "QwatchMessagesExpiringSoon", window: "soon", over: 2, even: []kind{noTraffic},
			play: sees(scenario.Settings{}, func(v *view, _ int, x float64) { v.Loss = 7200 + 1000*(1-x) }),
		},
		{
			alert: "QwatchScalingSignalStale", near: 170, over: 200,
			play: states("qwatch_scaling_signal_age_seconds", []string{"account", "a", "queue_name", "orders"}, 0, 1),
		},
	}
}

package alerts_test

import (
	"github.com/qwatch/qwatch/alerts/scenario"
)

// handovers are queues that another replica watches from one minute to the next, and back: it knows nothing of them
// for three polls, and not that one is stalled until patience has passed. No alert may end, begin or begin anew.
func handovers() []*scenario.Scenario {
	s := story("queues go from one replica to another and back", 150)
	queues := []struct {
		name, status string
		view         view
	}{
		{"stuck", "stalled", view{Count: 5, Visible: 5, Age: 7200, Head: 7200}},
		{"hiding", "hidden", view{Count: 40, Visible: 2, Age: 30, Attempts: 3}},
		{"poisoned", "ok", view{Count: 20, Visible: 10, Age: 5, Poison: 7}},
		{"fine", "ok", view{Count: 20, Visible: 10, Age: 5}},
		{"idle", "idle", view{}},
	}
	for _, q := range queues {
		for i, there := range []func(m int) (since int, ok bool){
			func(m int) (int, bool) { return m, m < 60 || m >= 90 },
			func(m int) (int, bool) { return m - 60, m >= 60 && m < 90 },
		} {
			id := orders("1")
			id.Queue, id.Instance = q.name, []string{"watcher-1:9780", "watcher-2:9780"}[i]
			s.Watch(id, scenario.Settings{}, func(m int) view {
				since, ok := there(m)
				if i == 0 && m >= 90 {
					since = m - 90
				}
				v := q.view
				v.Gone, v.Status = !ok, q.status
				if since < 3 || q.status != "ok" && q.status != "idle" && since < 12 {
					v.Status = "unknown"
				}
				return v
			})
		}
	}
	for m := 30; m < 150; m++ {
		s.Fires(
			m, "QwatchConsumerStalled critical a/stuck", "QwatchPoisonMessages warning a/poisoned",
			"QwatchMessagesRetriedInVain critical a/hiding", "QwatchRedeliveriesUnaccounted warning a/hiding window=watcher",
		)
	}
	return []*scenario.Scenario{s}
}

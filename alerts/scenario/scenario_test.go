package scenario_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/alerts/scenario"
)

func values(of ...float64) func(int) float64 {
	return func(m int) float64 {
		if m < len(of) {
			return of[m]
		}
		return of[len(of)-1]
	}
}

func TestPromtool(t *testing.T) {
	t.Parallel()
	gone := scenario.Absent()
	s := scenario.New("an odd one", 5)
	s.Set("up", []string{"job", "b", "cluster", ""}, values(1))
	s.Set("up", []string{"job", "a", "instance", `x"y`}, values(gone, 2, gone, gone, 3, 3.5))
	s.Silent(1)
	s.Only(4, "Qwatch.+", "QwatchOdd critical a/orders window=fast", "QwatchAbsent warning cluster=west")
	const count = `count by (alertname, severity, cluster, account, queue_name, window) (ALERTS{alertstate="firing"`
	want := scenario.Test{
		Name: "an odd one", Interval: "1m",
		Input: []scenario.Input{
			{Series: `up{instance="x\"y",job="a"}`, Values: "_x1 2 stale _x1 3 3.5"},
			{Series: `up{job="b"}`, Values: "1x5"},
		},
		Queries: []scenario.Query{
			{Expr: count + "})", At: "1m"},
			{Expr: count + `,alertname=~"Qwatch.+"})`, At: "4m", Samples: []scenario.Sample{
				{Labels: `{account="a",alertname="QwatchOdd",queue_name="orders",severity="critical",window="fast"}`, Value: 1},
				{Labels: `{alertname="QwatchAbsent",cluster="west",severity="warning"}`, Value: 1},
			}},
		},
	}
	if diff := cmp.Diff(want, s.Promtool()); diff != "" {
		t.Errorf("test of promtool (-want +got):\n%s", diff)
	}
}

// A consumer's counters begin anew with the process, but go on when a scrape is missed, and the watcher keeps numbers for three failed polls.
func TestSeriesFollowWhatIsExported(t *testing.T) {
	t.Parallel()
	s := scenario.New("an odd one", 7)
	q := scenario.ID{Account: "a", Queue: "orders", Tier: "1"}
	s.Watch(q, scenario.Settings{}, func(m int) scenario.View { return scenario.View{Count: float64(m), Fails: m >= 2} })
	s.Consume(q, "c1", false, func(m int) scenario.Work {
		return scenario.Work{Processed: 2, Restart: m == 3, Unseen: m == 4, Gone: m == 6}
	})
	got := map[string]string{}
	for _, in := range s.Promtool().Input {
		got[in.Series] = in.Values
	}
	for series, want := range map[string]string{
		`queue_up{account="a",instance="watcher:9780",job="qwatch",queue_kind="main",queue_name="orders"}`:                          "1x1 0x5",
		`queue_approximate_messages{account="a",instance="watcher:9780",job="qwatch",queue_kind="main",queue_name="orders"}`:        "0 1x3 stale _x2",
		`queue_status{account="a",instance="watcher:9780",job="qwatch",queue_kind="main",queue_name="orders",status="unreachable"}`: "0x1 1x5",
		`queue_messages_processed_total{account="a",instance="c1",job="qwatch",queue_name="orders"}`:                                "2 4 6 2 stale 6 stale 2",
		`queue_processor_max_handlers{account="a",instance="c1",job="qwatch",queue_name="orders"}`:                                  "16x3 stale 16 stale 16",
	} {
		if got[series] != want {
			t.Errorf("%s is %q, want %q", series, got[series], want)
		}
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	from, s := scenario.New("a part", 1), scenario.New("the whole", 1)
	from.Set("queue_up", nil, values(1, 1))
	from.Set("queue_exists", nil, values(1, 1))
	s.Set("queue_up", []string{"account", "a"}, values(0, 0))
	s.Queries = []scenario.Query{{Expr: "queue_up", At: "1m"}}
	s.Take(from, func(name string) bool { return name == "queue_up" })
	want := scenario.Test{
		Name: "the whole", Interval: "1m",
		Input:   []scenario.Input{{Series: `queue_up{account="a"}`, Values: "0x1"}, {Series: "queue_up{}", Values: "1x1"}},
		Queries: s.Queries,
	}
	if diff := cmp.Diff(want, s.Promtool()); diff != "" {
		t.Errorf("test of promtool (-want +got):\n%s", diff)
	}
}

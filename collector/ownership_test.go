package collector_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// describe sets a queue's metadata. The server must not check signatures.
func describe(t testing.TB, s *storage, name string, metadata map[string]string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.Endpoint(queuetest.AccountName)+"/"+name+"?comp=metadata", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-ms-version", "2024-08-04")
	for k, v := range metadata {
		r.Header.Set("x-ms-meta-"+k, v)
	}
	resp, err := s.Do(r)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("set metadata: %v, %+v", err, resp)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// C12: the nearest wins.
func TestOwnership(t *testing.T) {
	t.Parallel()
	full := collector.Ownership{Team: "payments", Tier: 1, Objective: time.Minute, ObjectiveRatio: 0.9}
	patterns := collector.Ownership{Team: "platform", Tier: 3, Objective: time.Hour, ObjectiveRatio: 0.5}
	for name, tt := range map[string]struct {
		own, fallback collector.Ownership
		metadata      map[string]string
		want          collector.Ownership
		faults        []string
	}{
		"nobody says anything":    {},
		"the target says it all":  {own: full, fallback: patterns, metadata: map[string]string{"qwatch_team": "others", "qwatch_tier": "2", "qwatch_objective": "9m"}, want: full},
		"metadata beats patterns": {fallback: patterns, metadata: map[string]string{"qwatch_team": "others", "qwatch_tier": "2", "qwatch_objective": "9m"}, want: collector.Ownership{Team: "others", Tier: 2, Objective: 9 * time.Minute, ObjectiveRatio: 0.5}},
		"patterns alone":          {fallback: patterns, want: patterns},
		"each for itself": {
			own: collector.Ownership{Tier: 2}, fallback: patterns, metadata: map[string]string{"qwatch_objective": "2d12h"},
			want: collector.Ownership{Team: "platform", Tier: 2, Objective: 60 * time.Hour, ObjectiveRatio: 0.5},
		},
		"an objective has a ratio": {
			metadata: map[string]string{"qwatch_objective": " 90s "},
			want:     collector.Ownership{Objective: 90 * time.Second, ObjectiveRatio: 0.99},
		},
		"what is not valid is passed over": {
			fallback: patterns,
			metadata: map[string]string{"qwatch_team": "<script>", "qwatch_tier": "0", "qwatch_objective": "soon", "team": "x"},
			want:     patterns,
			faults: []string{
				"metadata qwatch_team is not the name of a team: up to 63 letters, digits, spaces and any of ._/@-",
				"metadata qwatch_tier is not a tier: 1, 2 or 3",
				"metadata qwatch_objective is not a duration from 1s to 30d, such as 5m",
			},
		},
		"what is too long is passed over": {
			metadata: map[string]string{"qwatch_team": strings.Repeat("x", 64), "qwatch_tier": "11", "qwatch_objective": "31d"},
			faults: []string{
				"metadata qwatch_team is not the name of a team: up to 63 letters, digits, spaces and any of ._/@-",
				"metadata qwatch_tier is not a tier: 1, 2 or 3",
				"metadata qwatch_objective is not a duration from 1s to 30d, such as 5m",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{NoAuth: true})
				q := create(t, s.acct, "orders")
				describe(t, s, "orders", tt.metadata)
				c := run(t, collector.Config{Targets: []collector.Target{{
					Queue: q, Team: tt.own.Team, Tier: tt.own.Tier, Objective: tt.own.Objective, ObjectiveRatio: tt.own.ObjectiveRatio,
					Fallback: tt.fallback,
				}}})
				synctest.Wait()
				for _, got := range c.Queue("acct", "orders") {
					if diff := cmp.Diff(tt.want, collector.Ownership{Team: got.Team, Tier: got.Tier, Objective: got.Objective, ObjectiveRatio: got.ObjectiveRatio}); diff != "" {
						t.Errorf("%v (-want +got):\n%s", got.Kind, diff)
					}
					if got.Kind == collector.KindMain {
						if diff := cmp.Diff(tt.faults, got.MetadataFaults); diff != "" {
							t.Errorf("faults (-want +got):\n%s", diff)
						}
					}
				}
				tier := ""
				if tt.want.Tier > 0 {
					tier = fmt.Sprint(tt.want.Tier)
				}
				infos := 0
				for name, x := range samples(t, c) {
					switch {
					case strings.HasPrefix(name, "queue_info{"):
						if infos++; !strings.Contains(name, fmt.Sprintf(`team=%q,tier=%q`, tt.want.Team, tier)) {
							t.Errorf("%s", name)
						}
					case strings.HasPrefix(name, "queue_time_in_queue_objective_seconds") && x != tt.want.Objective.Seconds():
						t.Errorf("%s is %v", name, x)
					}
				}
				if infos != 2 {
					t.Errorf("%d series of queue_info", infos)
				}
			})
		})
	}
}

// Metadata is followed, though no faster than series should come and go.
func TestOwnershipFollowsMetadata(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{NoAuth: true})
		q := create(t, s.acct, "orders")
		var log bytes.Buffer
		c, err := collector.New(collector.Config{Targets: targets(q), IdleInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, c)
		team := func() string { return c.Queue("acct", "orders")[1].Team }
		time.Sleep(5 * time.Minute)
		describe(t, s, "orders", map[string]string{"qwatch_team": "payments"})
		time.Sleep(time.Minute)
		if got := team(); got != "payments" {
			t.Errorf("a minute later the team is %q", got)
		}
		teams := map[string]bool{}
		for i := range 120 { // a new one each minute
			describe(t, s, "orders", map[string]string{"qwatch_team": fmt.Sprintf("team-%d", i), "qwatch_tier": "none"})
			time.Sleep(time.Minute)
			teams[team()] = true
		}
		if n := len(teams); n < 10 || n > 13 {
			t.Errorf("%d teams in two hours", n)
		}
		describe(t, s, "orders", nil)
		time.Sleep(11 * time.Minute)
		if got := team(); got != "" {
			t.Errorf("without metadata the team is %q", got)
		}
		stop()
		if n := strings.Count(log.String(), "metadata of the queue is passed over"); n != 1 {
			t.Errorf("%d lines about the same fault:\n%s", n, log.String())
		}
	})
}

// Discovery knows the metadata from the listing, so that the first series have the right labels.
func TestOwnershipOfAQueueThatWasFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{NoAuth: true})
		create(t, s.acct, "orders")
		createAll(t, s.acct, "gone-poison")
		describe(t, s, "orders", map[string]string{"qwatch_team": "payments"})
		describe(t, s, "gone-poison", map[string]string{"qwatch_team": "nobody"})
		s.Inject(queuetest.Fault{Operation: queuetest.OpProperties, Hang: true})
		c := run(t, collector.Config{Discovery: []collector.Discovery{{Account: s.acct}}})
		time.Sleep(time.Second)
		got := map[string]string{}
		for _, q := range c.Snapshot().Queues {
			got[q.PhysicalName] = q.Team
		}
		if diff := cmp.Diff(map[string]string{"orders": "payments", "orders-poison": "payments", "gone-poison": "nobody"}, got); diff != "" {
			t.Errorf("teams (-want +got):\n%s", diff)
		}
		again := account(t, s.Server, "acct", queuetest.AccountName)
		if err := c.SetTargets([]collector.Target{{Queue: open(t, again, "other", queue.Config{}), Fallback: collector.Ownership{Tier: -1}}}); err == nil {
			t.Error("a bad fallback was taken")
		}
	})
}

func FuzzOwnership(f *testing.F) {
	f.Add("payments", "1", "5m")
	f.Add("", "", "")
	f.Add("a\x00b", "-1", "1d1d")
	f.Add("é", " 2 ", "0.5d")
	f.Add("x", "9999999999999999999999", "2540400h10m10.000000000s")
	f.Fuzz(func(t *testing.T, team, tier, objective string) {
		o, faults := collector.OwnershipOf(map[string]string{"qwatch_team": team, "qwatch_tier": tier, "qwatch_objective": objective})
		if len(o.Team) > 63 || o.Tier < 0 || o.Tier > 3 || o.Objective != 0 && (o.Objective < time.Second || o.Objective > 30*24*time.Hour) {
			t.Errorf("%+v", o)
		}
		if strings.ContainsFunc(o.Team, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Errorf("team %q", o.Team)
		}
		said := 0
		for _, there := range []bool{o.Team != "", o.Tier != 0, o.Objective != 0} {
			if there {
				said++
			}
		}
		if said+len(faults) != 3 {
			t.Errorf("%+v and faults %q", o, faults)
		}
	})
}

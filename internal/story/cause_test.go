package story_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func die(t *testing.T, r *rig, account, name, reason string, n int) {
	t.Helper()
	hook := r.Hook(account, name, nil)
	for i := range n {
		m := &processor.Message{Message: &queue.Message{ID: fmt.Sprint(i)}}
		hook.DeadLettered(t.Context(), m, poison.CategoryHandler, reason, nil, time.Time{}, 0)
	}
}

func TestOneCauseIsFoundForManyQueues(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fleet func(t *testing.T, r *rig)
		kind  story.CauseKind
		level story.Level
		title string
		count int
		parts []string // of the evidence and what is next
	}{
		"an account that throttles": {
			fleet: func(_ *testing.T, r *rig) {
				for i := range 3 {
					r.states = append(r.states, state("a", fmt.Sprint("q", i), failing(queue.ResultThrottled, "read properties of a/q: 503 ServerBusy")))
				}
				r.states = append(r.states, state("a", "q9", nil))
			},
			kind: story.CauseThrottled, level: story.LevelBad, title: "Account a is throttled", count: 3,
			parts: []string{"3 of 4 queues of a", "503 ServerBusy", "5 m ago", "a/q0, a/q1, a/q2", "requestsPerSecond"},
		},
		"a credential that is refused, main and poison queue alike": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", failing(queue.ResultAuth, "403 AuthenticationFailed")), dead("a", "q", 1, collector.PoisonUnknown)}
				failing(queue.ResultAuth, "403 AuthenticationFailed")(&r.states[1])
				r.states[1].Status = 0
			},
			kind: story.CauseAuth, level: story.LevelBad, title: "Account a refuses the credential", count: 1,
			parts: []string{"1 of 1 queue of a", "403 AuthenticationFailed", "qwatch queue show a/q", "Storage Queue Data Reader"},
		},
		"consumers that cannot receive, though the watch still can": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil), state("a", "r", nil)}
				r.procs = []processor.Status{{Account: "a", Queue: "q", State: processor.StateRunning, ReceiveFailures: 4, LastError: "auth"}}
			},
			kind: story.CauseAuth, level: story.LevelBad, title: "Account a refuses the credential", count: 1, parts: []string{"4 requests in a row failed to receive from a/q"},
		},
		"an account out of reach": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", failing(queue.ResultNetwork, "no such host"))}
			},
			kind: story.CauseUnreachable, level: story.LevelBad, title: "Account a is out of reach (network)", count: 1, parts: []string{"no such host", "qwatch doctor a"},
		},
		"a handler endpoint that is down for two consumers": {
			fleet: func(_ *testing.T, r *rig) {
				for _, q := range []string{"q", "r"} {
					r.states = append(r.states, state("a", q, stalled(time.Minute))) // for that very reason
					r.settings["a/"+q] = story.Settings{Handler: "http://orders.example:80"}
					r.procs = append(r.procs, processor.Status{Account: "a", Queue: q, State: processor.StateRunning, BreakerOpen: true, BreakerAge: 3 * time.Minute})
				}
			},
			kind: story.CauseHandler, level: story.LevelBad, title: "Handler http://orders.example:80 is down", count: 2,
			parts: []string{"2 consumers stopped receiving", "so for 3 m", "curl", "a/q, a/r"},
		},
		"queues that stopped together": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", stalled(20*time.Minute)), state("a", "r", stalled(14*time.Minute)), state("a", "s", nil)}
			},
			kind: story.CauseStalled, level: story.LevelBad, title: "2 queues of a stopped moving together", count: 2,
			parts: []string{"of 2 queues: nobody takes its messages", "qwatch why a/q"},
		},
		"one that stopped long before is another matter": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", stalled(5*time.Hour)), state("a", "r", nil)}
			},
			kind: story.CauseStalled, level: story.LevelBad, title: "a/q is stalled", count: 1, parts: []string{"nobody takes its messages"},
		},
		"messages that die for one reason, whatever number it names": {
			fleet: func(t *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil), state("b", "q", nil)}
				die(t, r, "a", "q", "no customer 4711", 3)
				die(t, r, "a", "q", "no customer 4712", 3)
				die(t, r, "b", "q", "no customer 9", 6)
			},
			kind: story.CauseDying, level: story.LevelBad, title: "Messages of 2 queues die for one reason", count: 2,
			parts: []string{"6 messages of q: handler: no customer", "qwatch poison list "},
		},
		"messages of one queue that die for several reasons": {
			fleet: func(t *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil), dead("a", "q", 12, collector.PoisonGrowing)}
				die(t, r, "a", "q", "no customer", 5)
				die(t, r, "a", "q", "no such card", 7)
			},
			kind: story.CauseDying, level: story.LevelBad, title: "Messages of a/q are dead-lettered", count: 1,
			parts: []string{"7 messages of q: handler: no such card\n5 messages of q: handler: no customer\nfirst seen"},
		},
		"a poison queue that grows by somebody else's doing": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil), dead("a", "q", 7, collector.PoisonGrowing)}
			},
			kind: story.CauseGrowing, level: story.LevelWarn, title: "The poison queue of a/q gains messages", count: 1, parts: []string{"so for 1 h"},
		},
		"missing queues": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) {
					s.Up, s.Exists, s.Reason, s.Status, s.Rule = collector.No, collector.No, queue.ResultNotFound, collector.StatusMissing, collector.RuleNotFound
				})}
			},
			kind: story.CauseMissing, level: story.LevelBad, title: "1 queue of a is missing", count: 1, parts: []string{"create it"},
		},
		"a paused consumer, and who paused it": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) { s.Status, s.Rule = collector.StatusPaused, collector.RulePaused })}
				r.Steered("a", "q", true, "ann")
				time.Sleep(time.Minute)
			},
			kind: story.CausePaused, level: story.LevelWarn, title: "1 consumer is paused", count: 1, parts: []string{"q was paused by ann 1 m ago"},
		},
		"a queue that falls behind": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) {
					s.Status, s.Rule = collector.StatusFallingBehind, collector.RuleGrowingWait
				})}
			},
			kind: story.CauseBehind, level: story.LevelWarn, title: "1 queue of a falls behind", count: 1, parts: []string{"add consumers"},
		},
		"a clock that is off": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil)}
				r.accounts = []collector.AccountState{{Name: "a", Queues: 1, Answered: true, Skew: -8 * time.Minute}}
			},
			kind: story.CauseClock, level: story.LevelWarn, title: "The clock is off, seen from account a", count: 1, parts: []string{"8 m off", "15 m"},
		},
		"a listing that fails": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", nil)}
				r.accounts = []collector.AccountState{{Name: "a", Answered: true, Discovery: &collector.DiscoveryState{Queues: 5, Failing: queue.ResultAuth}}}
			},
			kind: story.CauseListing, level: story.LevelWarn, title: "The queues of a cannot be listed (auth)", count: 5, parts: []string{"new queues are not found"},
		},
		"polls that stay away": {
			fleet: func(_ *testing.T, r *rig) {
				r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) {
					s.Status, s.Rule = collector.StatusUnreachable, collector.RulePollsStayAway
				})}
			},
			kind: story.CausePolls, level: story.LevelBad, title: "qwatch does not get round to 1 queue", count: 1, parts: []string{"three intervals"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				tt.fleet(t, r)
				causes := r.Fleet().Causes
				if len(causes) != 1 {
					t.Fatalf("%d causes: %+v", len(causes), causes)
				}
				c := causes[0]
				if c.Kind != tt.kind || c.Level != tt.level || c.Title != tt.title || c.Affected != tt.count {
					t.Errorf("%s %s %q, %d affected; want %s %s %q, %d", c.Kind, c.Level, c.Title, c.Affected, tt.kind, tt.level, tt.title, tt.count)
				}
				var text strings.Builder
				text.WriteString(strings.Join(c.Evidence, "\n"))
				for _, n := range c.Next {
					text.WriteString("\n" + n.Text + "\n" + n.Command)
				}
				for _, part := range tt.parts {
					if !strings.Contains(text.String(), part) {
						t.Errorf("it does not say %q:\n%s", part, text.String())
					}
				}
			})
		})
	}
}

func TestNothingIsWrongWithAHealthyFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.states = []collector.QueueState{state("a", "q", nil), dead("a", "q", 3, collector.PoisonHolding)}
		r.procs = []processor.Status{{Account: "a", Queue: "q", State: processor.StateRunning, ReceiveFailures: 2, LastError: "timeout"}}
		die(t, r, "a", "q", "boom", 4)
		if c := r.Fleet().Causes; len(c) != 0 {
			t.Errorf("causes: %+v", c)
		}
		die(t, r, "a", "q", "boom", 1)
		time.Sleep(2 * time.Second)
		if c := r.Fleet().Causes; len(c) != 1 {
			t.Errorf("the fifth that died of it: %+v", c)
		}
		time.Sleep(16 * time.Minute)
		if c := r.Fleet().Causes; len(c) != 0 {
			t.Errorf("a quarter of an hour later: %+v", c)
		}
	})
}

func TestTheWorstComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		behind := func(s *collector.QueueState) { s.Status = collector.StatusFallingBehind }
		r.states = []collector.QueueState{
			state("a", "calm", nil), state("a", "behind", behind),
			state("a", "stalled", stalled(time.Minute)), state("a", "tierone", func(s *collector.QueueState) { stalled(2 * time.Hour)(s); s.Tier = 1 }),
			state("a", "deep", func(s *collector.QueueState) { behind(s); s.Peek.OldestAge = time.Hour }),
		}
		var got []string
		f := r.Fleet()
		for _, row := range f.Rows {
			got = append(got, row.Queue)
		}
		if want := "tierone stalled deep behind calm"; strings.Join(got, " ") != want {
			t.Errorf("rows: %v, want %s", got, want)
		}
		if f.Totals.Queues != 5 || f.Totals.Messages != 5 || f.Totals.OldestSeconds != 3600 || f.Totals.Statuses["stalled"] != 2 {
			t.Errorf("totals: %+v", f.Totals)
		}
		if again := r.Fleet(); again != f {
			t.Error("a view that is a moment old was made anew")
		}
		time.Sleep(2 * time.Second)
		if again := r.Fleet(); again == f {
			t.Error("a view is served for longer than a second")
		}
	})
}

func TestWhatExpiresByMorningIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		lost := func(in time.Duration) func(*collector.QueueState) {
			return func(s *collector.QueueState) { s.Loss = collector.Forecast{Known: true, In: in} }
		}
		poisoned := dead("a", "q", 7, collector.PoisonHolding)
		lost(2 * time.Hour)(&poisoned)
		r.states = []collector.QueueState{state("a", "q", lost(11*time.Hour)), poisoned, state("a", "r", lost(13*time.Hour))}
		e := r.Fleet().Expiring
		if len(e) != 2 || !e[0].Poison || e[0].InSeconds != 7200 || e[0].Messages.Value != 7 || e[1].Poison || e[1].Queue != "q" {
			t.Errorf("expiring: %+v", e)
		}
	})
}

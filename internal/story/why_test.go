package story_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

func TestAQueuesStoryNamesTheLikelyCause(t *testing.T) {
	t.Parallel()
	judged := func(status collector.Status, rule collector.Rule, more ...func(*collector.QueueState)) collector.QueueState {
		return state("a", "q", func(s *collector.QueueState) {
			s.Status, s.Rule = status, rule
			for _, f := range more {
				f(s)
			}
		})
	}
	running := func(handlers int) []processor.Status {
		return []processor.Status{{Account: "a", Queue: "q", State: processor.StateRunning, Handlers: handlers, MaxHandlers: 4, OldestHandler: 20 * time.Minute}}
	}
	for name, tt := range map[string]struct {
		fleet    func(r *rig)
		headline string
		level    story.Level
		title    string
		parts    []string
	}{
		"nothing is wrong": {
			fleet:    func(r *rig) { r.states = []collector.QueueState{judged(collector.StatusOK, collector.RuleProgress)} },
			headline: "a/q has been ok for 1 h", level: story.LevelGood, title: "Nothing is wrong with it",
			parts: []string{"1 message is on the queue, the oldest visible one for 1 m", "no consumer of it runs in this process"},
		},
		"nobody takes messages": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusStalled, collector.RuleUntouched)}
			},
			headline: "a/q has been stalled for 1 h", level: story.LevelBad, title: "Nobody takes messages: its consumer is gone, or cannot receive",
			parts: []string{"qwatch queue peek a/q --max 5", "no message was seen to be taken"},
		},
		"every handler is stuck": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusStalled, collector.RuleUntouched)}
				r.procs = running(4)
			},
			headline: "a/q has been stalled for 1 h", level: story.LevelBad, title: "Nobody takes messages: every handler here is busy, perhaps stuck",
			parts: []string{"4 of 4 handlers at work, one for 20 m"},
		},
		"the same messages again and again": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusStalled, collector.RuleRedelivered, func(s *collector.QueueState) { s.Peek.MaxDequeueCount = 14 })}
			},
			headline: "a/q has been stalled for 1 h", level: story.LevelBad, title: "Messages are taken again and again, and none is finished",
			parts: []string{"delivered 14 times", "qwatch tune a/q"},
		},
		"more comes than goes": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusFallingBehind, collector.RuleGrowingWait)}
			},
			headline: "a/q has been falling behind for 1 h", level: story.LevelWarn, title: "More messages come than are handled", parts: []string{"add consumers"},
		},
		"retries hide everything": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusHidden, collector.RuleRetries, func(s *collector.QueueState) {
					s.Peek.Visible, s.Count.Messages = 0, 12
				})}
			},
			headline: "All messages of a/q have been hidden for 1 h", level: story.LevelWarn, title: "All messages wait for their next attempt: handlers fail", parts: []string{"12 messages are hidden"},
		},
		"a failing account is named before all else": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{state("a", "q", failing(queue.ResultThrottled, "503 ServerBusy"))}
			},
			headline: "a/q has been unreachable for 2 m", level: story.LevelBad, title: "Account a is throttled", parts: []string{"503 ServerBusy"},
		},
		"messages wait longer than promised": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusOK, collector.RuleProgress, func(s *collector.QueueState) {
					s.Objective, s.Peek.OldestAge = time.Minute, 10*time.Minute
				})}
			},
			headline: "a/q has been ok for 1 h", level: story.LevelWarn, title: "Messages wait for longer than the objective", parts: []string{"10 m, and the objective is 1 m"},
		},
		"messages die": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusOK, collector.RuleProgress), dead("a", "q", 3, collector.PoisonGrowing)}
			},
			headline: "a/q has been ok for 1 h; its poison queue gains messages", level: story.LevelBad, title: "Messages are dead-lettered right now",
			parts: []string{"3 messages lie there", "qwatch poison list a/q", "qwatch poison replay a/q --dry-run"},
		},
		"messages will be lost": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusOK, collector.RuleProgress, func(s *collector.QueueState) { s.Loss = collector.Forecast{Known: true, In: time.Hour} })}
			},
			headline: "a/q has been ok for 1 h", level: story.LevelBad, title: "Messages will be lost: the first message expires in 1 h", parts: []string{"leaves no trace"},
		},
		"it is too early to tell": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusUnknown, collector.RuleUndecided)}
			},
			headline: "It is too early to say how a/q is", level: story.LevelUnknown, title: "Too little was seen so far to say why messages wait", parts: []string{"looked at 9 times"},
		},
		"it is early, and nothing waits": {
			fleet: func(r *rig) {
				r.states = []collector.QueueState{judged(collector.StatusUnknown, collector.RuleTooFew, func(s *collector.QueueState) {
					s.Count.Messages, s.Peek.Visible, s.Peek.OldestAge = 0, 0, 0
				})}
			},
			headline: "Nothing waits on a/q, and it is too early to say more", level: story.LevelGood, title: "Nothing waits on it", parts: []string{"looked at 9 times", "0 messages are on the queue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				tt.fleet(r)
				s, ok := r.Why(story.Name{Account: "a", Queue: "q"})
				if !ok || len(s.Findings) == 0 {
					t.Fatalf("no story, or nothing in it: %+v", s)
				}
				f := s.Findings[0]
				if s.Headline != tt.headline || f.Level != tt.level || f.Title != tt.title {
					t.Errorf("%q: %s %q\nwant %q: %s %q", s.Headline, f.Level, f.Title, tt.headline, tt.level, tt.title)
				}
				var text strings.Builder
				text.WriteString(strings.Join(f.Evidence, "\n"))
				for _, n := range f.Next {
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
	if _, ok := newRig().Why(story.Name{Account: "a", Queue: "nosuch"}); ok {
		t.Error("a queue that is not watched has a story")
	}
}

// TestACommandCannotBeSmuggledIn: names are what a configuration says, and commands are there to be copied.
func TestACommandCannotBeSmuggledIn(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"orders/orders": "orders/orders", "my account/q": "'my account/q'", "a$(id)/q": "'a$(id)/q'", "it's/q": `'it'\''s/q'`, "": "''", "a;b/q": "'a;b/q'",
	} {
		if got := story.Quote(in); got != want {
			t.Errorf("%q is quoted as %s, want %s", in, got, want)
		}
	}
}

// TestAStorySurvivesJSON: qwatch why reads what a running qwatch wrote, also while the status is about to change.
func TestAStorySurvivesJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n, visible := int64(7), 5
	want := story.Story{
		At: at, Headline: "a/q has been ok for 1 h", Findings: []story.Finding{}, Clusters: []story.Cluster{}, Events: []story.Event{}, FleetCauses: []story.Cause{},
		Rates: &story.Rates{InPerSecond: 2, OutPerSecond: 1, OverSeconds: 60}, Trend: [][4]int64{{at.Unix(), 7, 60, -1}},
		Evidence: &collector.Evidence{
			Rule: collector.RuleProgress, Since: at, Candidate: collector.StatusStalled, CandidateSamples: 2,
			Samples: []collector.Sample{{At: at, Polls: 1, Messages: &n, Visible: &visible}, {At: at, Polls: 3, Failed: queue.ResultTimeout}},
		},
	}
	text, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	if part := `"candidate":"stalled"`; !strings.Contains(string(text), part) {
		t.Errorf("the story lacks %s: %s", part, text)
	}
	var got story.Story
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

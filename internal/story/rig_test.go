package story_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// rig is a fleet that a test makes up.
type rig struct {
	*story.Recorder

	mu       sync.Mutex // held by steps, and by whoever looks
	states   []collector.QueueState
	accounts []collector.AccountState
	procs    []processor.Status
	settings map[string]story.Settings
}

func newRig() *rig { return newRigEvery(10 * time.Second) }

func newRigEvery(interval time.Duration) *rig {
	r := &rig{settings: map[string]story.Settings{}}
	r.Recorder = story.New(story.Config{
		Snapshot: func() *collector.Snapshot {
			r.mu.Lock()
			defer r.mu.Unlock()
			return &collector.Snapshot{At: time.Now(), Queues: slices.Clone(r.states), Accounts: r.accounts}
		},
		Queue: func(account, queue string) (out []collector.QueueState) {
			for _, s := range r.states {
				if s.Account == account && s.Queue == queue {
					out = append(out, s)
				}
			}
			return out
		},
		Processors: func() []processor.Status {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.procs)
		},
		Settings: func(account, queue string) (story.Settings, bool) {
			s, ok := r.settings[account+"/"+queue]
			return s, ok
		},
		Interval: interval,
	})
	return r
}

// state is a queue that was just read: one message, visible for a minute.
func state(account, name string, change func(*collector.QueueState)) collector.QueueState {
	now := time.Now()
	s := collector.QueueState{
		Account: account, Queue: name, PhysicalName: name, Kind: collector.KindMain, Mode: collector.ModeWatch, Up: collector.Yes, Exists: collector.Yes,
		LastPoll: now, LastSuccess: now, Polls: 9, Interval: time.Minute, StaleAfter: 3 * time.Minute,
		Count:  collector.Count{Known: true, Messages: 1, At: now},
		Peek:   collector.Peek{Known: true, At: now, Visible: 1, OldestAge: time.Minute},
		Status: collector.StatusOK, Rule: collector.RuleProgress, Since: now.Add(-time.Hour),
	}
	if change != nil {
		change(&s)
	}
	return s
}

// dead is its poison queue.
func dead(account, name string, n int64, status collector.PoisonStatus) collector.QueueState {
	return state(account, name, func(s *collector.QueueState) {
		s.Kind, s.PhysicalName, s.Status, s.Poison, s.Rule = collector.KindPoison, name+"-poison", 0, status, collector.RuleHolding
		s.Count.Messages = n
	})
}

func failing(reason queue.Result, text string) func(*collector.QueueState) {
	return func(s *collector.QueueState) {
		s.Up, s.Reason, s.Error = collector.No, reason, text
		s.Status, s.Rule, s.Since, s.LastSuccess = collector.StatusUnreachable, collector.RulePollsFail, time.Now().Add(-2*time.Minute), time.Now().Add(-5*time.Minute)
	}
}

func stalled(ago time.Duration) func(*collector.QueueState) {
	return func(s *collector.QueueState) {
		s.Status, s.Rule, s.Since = collector.StatusStalled, collector.RuleUntouched, time.Now().Add(-ago)
	}
}

// running looks at the fleet for a while, changing it in between.
func (r *rig) running(t *testing.T, steps ...func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	for _, step := range steps {
		r.mu.Lock()
		step()
		r.mu.Unlock()
		time.Sleep(11 * time.Second)
		synctest.Wait()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

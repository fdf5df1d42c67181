package story_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
)

var aq = story.Name{Account: "a", Queue: "q"}

// told is the timeline of a queue, the oldest first.
func told(r *rig, n story.Name) []string {
	var out []string
	for _, e := range r.Events(n, 1000) {
		text := e.Text
		if e.By != "" {
			text += " by " + e.By
		}
		out = append(out, text)
	}
	slices.Reverse(out)
	return out
}

func TestTheTimelineTellsChangesAndNoNoise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		set := func(s collector.Status, p collector.PoisonStatus) func() {
			return func() {
				r.states = []collector.QueueState{state("a", "q", func(q *collector.QueueState) { q.Status = s }), dead("a", "q", 1, p)}
			}
		}
		proc := func(p processor.Status) func() {
			return func() { p.Account, p.Queue = "a", "q"; r.procs = []processor.Status{p} }
		}
		set(collector.StatusUnknown, collector.PoisonUnknown)()
		r.running(t,
			set(collector.StatusOK, collector.PoisonEmpty), // as it should be: not told
			set(collector.StatusIdle, collector.PoisonEmpty),
			set(collector.StatusOK, collector.PoisonGrowing),
			set(collector.StatusStalled, collector.PoisonHolding),
			set(collector.StatusOK, collector.PoisonEmpty),
			proc(processor.Status{State: processor.StateRunning}),
			proc(processor.Status{State: processor.StatePaused}), // nobody said who
			set(collector.StatusPaused, collector.PoisonEmpty),
			proc(processor.Status{State: processor.StateRunning}),
			func() { r.Steered("a", "q", true, "ann"); proc(processor.Status{State: processor.StatePaused})() },
			proc(processor.Status{State: processor.StatePaused, BreakerOpen: true}),
			func() { r.Note(story.Event{Kind: story.EventReload, Text: "configuration reloaded"}) },
			func() {
				r.Note(story.Event{Kind: story.EventReplay, Account: "a", Queue: "other", Text: "not this one's"})
			},
		)
		want := []string{
			"qwatch started; what happened before is not known here",
			"poison queue gains messages",
			"status stalled", "poison queue gains no more, and holds messages",
			"status ok", "poison queue is empty",
			"consumer paused", "consumer resumed", "consumer paused by ann",
			"handlers fail as a whole: receiving stopped, but for probes",
			"configuration reloaded",
		}
		if diff := cmp.Diff(want, told(r, aq)); diff != "" {
			t.Errorf("the timeline (-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRigEvery(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for n := range int64(2 * 1440) { // two days
			r.mu.Lock()
			r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) { s.Count.Messages = n % 100 })}
			r.mu.Unlock()
			time.Sleep(time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		points := r.Trend(aq)
		if len(points) > 90+96 || len(points) < 150 {
			t.Errorf("%d points are kept", len(points))
		}
		if first := time.Since(points[0].At); first < 20*time.Hour || first > 25*time.Hour {
			t.Errorf("the oldest is from %v ago", first)
		}
		if !slices.IsSortedFunc(points, func(a, b story.Point) int { return a.At.Compare(b.At) }) {
			t.Error("points are out of order")
		}
		for i, p := range points[:90] { // a quarter of an hour is remembered by its peak, which is near 15 where the count begins anew
			if p.Messages < 12 {
				t.Errorf("point %d has %d messages: no peak", i, p.Messages)
			}
		}
		spark := r.Sparks([]story.Name{aq, {Account: "a", Queue: "nosuch"}}, 30)
		if len(spark[0]) != 30 || spark[1] != nil {
			t.Errorf("sparks of %d and %v", len(spark[0]), spark[1])
		}

		for i := range 30_000 {
			r.Note(story.Event{Account: "a", Queue: "q", Text: fmt.Sprint(i)})
		}
		all := r.Events(story.Name{}, 100_000)
		if len(all) != 20_000 || all[0].Text != "29999" || all[len(all)-1].Text != "10000" {
			t.Errorf("%d events, from %s to %s", len(all), all[len(all)-1].Text, all[0].Text)
		}
		r.Note(story.Event{Text: strings.Repeat("é", 10_000)})
		if got := r.Events(story.Name{}, 1)[0].Text; len(got) > 510 {
			t.Errorf("an event has %d bytes", len(got))
		}
	})
}

func TestAQueueThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.states = []collector.QueueState{state("a", "q", nil)}
		r.running(t, func() {}, func() { r.states = nil }, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {}, func() {})
		if p := r.Trend(aq); p != nil {
			t.Errorf("%d points of a queue that is gone", len(p))
		}
	})
}

func TestWhatIsNotKnownLeavesAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.states = []collector.QueueState{state("a", "q", func(s *collector.QueueState) { s.Count.Known, s.Peek.Known = false, false })}
		r.running(t, func() { r.states = append(r.states, dead("a", "q", 5, collector.PoisonHolding)) })
		p := r.Trend(aq)
		if last := p[len(p)-1]; last.Messages != -1 || last.Oldest != -1 || last.Poison != 5 || p[0].Poison != -1 {
			t.Errorf("points: %+v", p)
		}
	})
}

func TestReasonsOfOneShapeAreOneCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		die(t, r, "a", "q", `customer 17 not found`, 2)
		time.Sleep(time.Minute)
		die(t, r, "a", "q", `customer 18 not found`, 1)
		die(t, r, "a", "q", `order "x" of 3abf2a20-6506-43e7-aa3b-fbb05a0636c2 is void`, 1)
		die(t, r, "a", "q", `order "y" of 0b5181c5-09f8-48ce-a119-f3e40b34d3e7 is void`, 1)
		c := r.Clusters(aq, 10)
		if len(c) != 2 || c[0].Messages+c[1].Messages != 5 {
			t.Fatalf("clusters: %+v", c)
		}
		i := slices.IndexFunc(c, func(c story.Cluster) bool { return c.Messages == 3 })
		if i < 0 || c[i].Reason != "customer 18 not found" || c[i].Last.Sub(c[i].Since) != time.Minute {
			t.Errorf("clusters: %+v", c)
		}
		for i := range 200 { // somebody's reasons are all different
			die(t, r, "a", "q", strings.Repeat("x", i+1)+" failed", 1)
		}
		if n := len(r.Clusters(story.Name{}, 1000)); n != 50 {
			t.Errorf("%d clusters are kept", n)
		}
	})
}

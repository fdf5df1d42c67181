package web

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/internal/story"
)

// TestWhatCameToNothingIsNoEvent: the timeline has what happened to the queue, and what went wrong.
func TestWhatCameToNothingIsNoEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := story.New(story.Config{Snapshot: func() *collector.Snapshot { return &collector.Snapshot{} }})
		told := 0
		tell := alsoTold(s, func(Action) { told++ })
		all := []Action{
			{Operation: "replay"},
			{Operation: "import"},
			{Operation: "delete"},
			{Operation: "purge"},
			{Operation: "export"},
			{Operation: "replay", Messages: 1, MessageID: "one"},
			{Operation: "replay", Messages: 2},
			{Operation: "import", Messages: 1},
			{Operation: "replay", Error: "no answer in time"},
			{Operation: "clear"},
			{Operation: "export", Error: "the client went away", Left: true},
			{Operation: "export", Messages: 3, Error: "the client went away", Left: true},
			{Operation: "export", Messages: 3, Error: "the client went away", Left: true},
			{Operation: "export", Error: "the client went away", Left: true},
			{Operation: "export", Messages: 3, Error: "the client went away", Left: true},
			{Operation: "export", Messages: 3},
			{Operation: "export", Messages: 3},
			{Operation: "replay", Messages: 5},
			{Operation: "export", Messages: 3},
		}
		for _, a := range all {
			a.Account, a.Queue, a.Operator = "acct", "orders", "ann"
			tell(a)
		}
		var got []string
		for _, e := range s.Events(story.Name{Account: "acct", Queue: "orders"}, 100) {
			got = append(got, e.Text)
		}
		slices.Sort(got)
		want := []string{
			"3 messages exported from the poison queue", "3 messages exported from the poison queue (2 times)", "3 messages exported from the poison queue, and ended early (3 times)", "5 messages replayed",
			"0 messages replayed, and ended early", "1 message imported into the poison queue", "2 messages replayed",
			"queue cleared, about 0 messages",
		}
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if told != len(all) {
			t.Errorf("others were told of %d, want all %d", told, len(all))
		}
	})
}

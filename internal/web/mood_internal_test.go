package web

import (
	"testing"

	"github.com/qwatch/qwatch/internal/story"
)

// The page's first line says no more than is known.
func TestTheFirstLineOfThePage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		totals story.Totals
		causes int
		title  string
		mood   string
	}{
		"nothing is watched":              {story.Totals{}, 0, "Nothing is watched", "waiting"},
		"all is well":                     {story.Totals{Queues: 3, Statuses: map[string]int{"ok": 3}}, 0, "Nothing is wrong with 3 queues", "calm"},
		"what lies there is told":         {story.Totals{Queues: 1, Statuses: map[string]int{"ok": 1}, Poison: 1}, 0, "Nothing is wrong with 1 queue; 1 message is dead-lettered", "calm"},
		"what is not known is not well":   {story.Totals{Queues: 9, Statuses: map[string]int{"ok": 2, "unknown": 7}, Poison: 40}, 0, "Nothing wrong was seen; it is too early to say how 7 queues are; 40 messages are dead-lettered", "waiting"},
		"a cause comes before all others": {story.Totals{Queues: 9, Statuses: map[string]int{"unknown": 7}}, 1, "One thing wants attention", "troubled"},
	} {
		t.Run(name, func(t *testing.T) {
			v := fleetView{Totals: tt.totals, Causes: make([]story.Cause, tt.causes)}
			if title, mood := causesTitle(v), mood(v); title != tt.title || mood != tt.mood {
				t.Errorf("%q, %s; want %q, %s", title, mood, tt.title, tt.mood)
			}
		})
	}
}

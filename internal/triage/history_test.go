package triage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/qwatch/qwatch/internal/triage"
	"github.com/qwatch/qwatch/poison"
)

// The failure records are asked of the messages that are named, when their history is wanted; what they cannot tell
// keeps nothing back, and a table that hangs only for so long.
func TestTheHistoryOfWhatIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		history bool
		records func(context.Context, string) ([]triage.Earlier, error)
		want    int
		failure string
	}{
		"wanted":     {true, func(context.Context, string) ([]triage.Earlier, error) { return make([]triage.Earlier, 2), nil }, 2, ""},
		"not wanted": {false, func(context.Context, string) ([]triage.Earlier, error) { return make([]triage.Earlier, 2), nil }, 0, ""},
		"no records": {true, nil, 0, ""},
		"a part is known": {true, func(context.Context, string) ([]triage.Earlier, error) {
			return make([]triage.Earlier, 1), errors.New("403")
		}, 1, "403"},
		"the table hangs":  {true, func(ctx context.Context, _ string) ([]triage.Earlier, error) { <-ctx.Done(); return nil, ctx.Err() }, 0, context.DeadlineExceeded.Error()},
		"it was never one": {true, func(context.Context, string) ([]triage.Earlier, error) { return nil, nil }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.poison(r.orders, 3)
				l, err := poison.List(r.Context(), r.orders)
				if err != nil {
					t.Fatal(err)
				}
				id, began := l.Entries[1].MessageID, time.Now()
				var got []*triage.Entry
				err = triage.Run(r.Context(), triage.Queue{Queue: r.orders, History: tc.records},
					triage.Command{Operation: triage.List, IDs: []string{id}, History: tc.history}, triage.Hooks{}, func(e triage.Event) error {
						if e.Entry != nil {
							got = append(got, e.Entry)
						}
						return nil
					})
				if err != nil || len(got) != 1 || got[0].MessageID != id || len(got[0].History) != tc.want || got[0].HistoryError != tc.failure || time.Since(began) > 10*time.Second {
					t.Errorf("after %v: %+v, %v", time.Since(began), got, err)
				}
			})
		})
	}
	for name, c := range map[string]triage.Command{
		"of everything":          {Operation: triage.List, History: true},
		"of too many":            {Operation: triage.List, History: true, IDs: make([]string, triage.MaxHistories+1)},
		"of what is replayed":    {Operation: triage.Replay, History: true, IDs: []string{"x"}},
		"of what a filter finds": {Operation: triage.List, History: true, Reason: "x"},
	} {
		if c.Check() == nil {
			t.Errorf("%s: no fault", name)
		}
	}
}

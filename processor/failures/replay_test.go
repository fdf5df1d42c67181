package failures_test

import (
	"testing"
	"time"

	"github.com/qwatch/qwatch/processor/failures"
	"github.com/qwatch/qwatch/processor/internal/table/tabletest"
)

// A replayed message that fails again leads back to what is recorded of it before.
func TestReplayedMessageIsLinkedToItsHistory(t *testing.T) {
	t.Parallel()
	stored(t, func(t *testing.T, _ *tabletest.Service, s *failures.TablesStore) {
		f := full()
		if err := s.Record(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
		for range 2 { // it may be repeated
			if err := s.Replayed(t.Context(), f.Queue, f.MessageID, "second", at); err != nil {
				t.Fatal(err)
			}
		}
		again := full()
		again.MessageID = "second"
		if err := s.Record(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		got := load(t, s, again)
		if got.ReplayOf != f.MessageID || !got.ReplayedAt.Equal(at) || len(got.Attempts) != len(again.Attempts) || got.Reason != again.Reason {
			t.Errorf("%+v", got)
		}
		if first := load(t, s, f); first.ReplayOf != "" {
			t.Errorf("the first is a replay of %q", first.ReplayOf)
		}
		listed := 0
		for _, err := range s.List(t.Context(), failures.ListOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			listed++
		}
		if listed != 2 {
			t.Errorf("%d listed, want 2", listed)
		}
		if err := s.Delete(t.Context(), f.Queue, "second"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(t.Context(), f.Queue, "second"); err == nil {
			t.Error("it is still there")
		}
	})
}

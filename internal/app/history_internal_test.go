package app

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/poison"
	"github.com/qwatch/qwatch/processor/failures"
)

// recorded are the failures of a store that only loads.
type recorded struct {
	failures.Store

	known map[string]failures.Failure
	fails map[string]error
}

// Load implements failures.Store.
func (r recorded) Load(_ context.Context, _, id string) (failures.Failure, error) {
	if err := r.fails[id]; err != nil {
		return failures.Failure{}, err
	}
	f, ok := r.known[id]
	if !ok {
		return failures.Failure{}, failures.ErrNotFound
	}
	return f, nil
}

func TestAHistoryGoesAsFarBackAsTheRecordsDo(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	replay := func(of, reason string) failures.Failure {
		return failures.Failure{Category: poison.CategoryHandler, Reason: reason, ReplayOf: of, ReplayedAt: at}
	}
	endless := map[string]failures.Failure{}
	for i := range 100 {
		endless[strconv.Itoa(i)] = replay(strconv.Itoa(i+1), "r")
	}
	gone := errors.New("no table")
	for name, tt := range map[string]struct {
		known map[string]failures.Failure
		fails map[string]error
		want  []string // id and reason
		err   error
	}{
		"nothing is known":               {nil, nil, nil, nil},
		"it was never replayed":          {map[string]failures.Failure{"0": {Reason: "now"}}, nil, nil, nil},
		"once":                           {map[string]failures.Failure{"0": replay("1", "now"), "1": {Reason: "before"}}, nil, []string{"1 before"}, nil},
		"twice":                          {map[string]failures.Failure{"0": replay("1", ""), "1": replay("2", "b"), "2": {Reason: "a"}}, nil, []string{"1 b", "2 a"}, nil},
		"the first's record was deleted": {map[string]failures.Failure{"0": replay("1", "")}, nil, []string{"1 "}, nil},
		"the table is away":              {nil, map[string]error{"0": gone}, nil, gone},
		"it goes away":                   {map[string]failures.Failure{"0": replay("1", "")}, map[string]error{"1": gone}, []string{"1 "}, gone},
		"a record of itself":             {map[string]failures.Failure{"0": replay("0", "x")}, nil, nil, nil},
	} {
		got, err := history(t.Context(), recorded{known: tt.known, fails: tt.fails}, "orders", "0")
		var told []string
		for _, h := range got {
			if told = append(told, h.MessageID+" "+h.Reason); !h.ReplayedAt.Equal(at) {
				t.Errorf("%s: %+v", name, h)
			}
		}
		if d := cmp.Diff(tt.want, told); d != "" || !errors.Is(err, tt.err) {
			t.Errorf("%s: %s%v", name, d, err)
		}
	}
	for name, known := range map[string]map[string]failures.Failure{
		"endless":     endless,
		"in a circle": {"0": replay("1", ""), "1": replay("0", "")},
	} {
		if got, err := history(t.Context(), recorded{known: known}, "orders", "0"); err != nil || len(got) != maxReplays+1 {
			t.Errorf("%s: %d, %v", name, len(got), err)
		}
	}
}

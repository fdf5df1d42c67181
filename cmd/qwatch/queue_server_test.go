package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/qwatch/qwatch/internal/app"
	"github.com/qwatch/qwatch/queue"
)

func TestWhatAServerKnowsBecomesADepth(t *testing.T) {
	t.Parallel()
	three := &watchedNumber{Value: 3}
	up := &watchedState{Up: new(true), Exists: new(true), Messages: three}
	poison := func(s watchedState) *watchedState {
		s.Name = "orders-poison"
		return &s
	}
	for name, tt := range map[string]struct {
		main, poison *watchedState
		want         app.Depth
		err          string
	}{
		"both are there": {
			up, poison(*up),
			app.Depth{Status: app.DepthOK, ApproximateMessages: new(int64(3)), PoisonQueue: "orders-poison", PoisonMessages: new(int64(3))},
			"",
		},
		"nothing was polled yet": {
			&watchedState{}, poison(watchedState{}),
			app.Depth{Status: depthUnknown, PoisonQueue: "orders-poison"},
			"it was not polled yet",
		},
		"nothing is known": {nil, nil, app.Depth{Status: depthUnknown}, "it was not polled yet"},
		"the main queue is missing": {
			&watchedState{Up: new(false), Exists: new(false)}, nil,
			app.Depth{Status: app.DepthMissing},
			queue.ErrQueueNotFound.Error(),
		},
		"the main queue cannot be reached": {
			&watchedState{Up: new(false), Error: "no route"}, poison(*up),
			app.Depth{Status: app.DepthUnreachable, Error: "no route", PoisonQueue: "orders-poison", PoisonMessages: new(int64(3))},
			"no route",
		},
		"only the poison queue was left behind": {
			nil, poison(*up),
			app.Depth{Status: app.DepthOK, PoisonQueue: "orders-poison", PoisonMessages: new(int64(3))},
			"",
		},
		"and was not polled yet": {
			nil, poison(watchedState{}),
			app.Depth{Status: depthUnknown, PoisonQueue: "orders-poison"},
			"it was not polled yet",
		},
		"and cannot be reached": {
			nil, poison(watchedState{Up: new(false), Error: "no route"}),
			app.Depth{Status: app.DepthUnreachable, Error: "no route", PoisonQueue: "orders-poison"},
			"no route",
		},
		"and is gone since": {
			nil, poison(watchedState{Up: new(true), Exists: new(false)}),
			app.Depth{Status: app.DepthOK, PoisonQueue: "orders-poison", PoisonMessages: new(int64(0))},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := watchedQueue{Account: "acct", Queue: "orders", Main: tt.main, Poison: tt.poison}.depth()
			tt.want.Account, tt.want.Queue = "acct", "orders"
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(app.Depth{})); diff != "" {
				t.Errorf("depth (-want +got):\n%s", diff)
			}
			if err == nil {
				err = errors.New("")
			}
			if err.Error() != tt.err {
				t.Errorf("error %q, want %q", err, tt.err)
			}
		})
	}
}

package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/qwatch/qwatch/queue"
)

// The visibility timeouts to rehearse with.
const (
	MinLease = time.Second
	MaxLease = 30 * time.Second
)

// CheckLease says why a visibility timeout cannot be rehearsed with; 0 is the default.
func CheckLease(d time.Duration) error {
	if d != 0 && (d < MinLease || d > MaxLease || d%time.Second != 0) {
		return fmt.Errorf("lease %v must be whole seconds from %v to %v", d, MinLease, MaxLease)
	}
	return nil
}

// Event is one thing that a rehearsal tells, also to those far away: one of its fields beside Account is set.
type Event struct {
	Account string   `json:"account,omitempty"` // what it is about; "" for the rehearsal as a whole
	Begun   int      `json:"begun,omitempty"`   // so many checks of the account begin
	Outcome *Outcome `json:"outcome,omitempty"` // a check is over
	Notice  string   `json:"notice,omitempty"`  // what happened besides
	Error   string   `json:"error,omitempty"`   // why an account could not be rehearsed on, or was not cleaned up
	Over    bool     `json:"over,omitempty"`    // the end of it all
}

// Rehearse runs everything on one account after the other, and tells it to sink, one event at a time: each
// outcome when it is there, in no order. An error of sink, and the context's end, end it; every temporary queue
// is removed before it returns. An account that cannot be rehearsed on is told, and does not keep the next from
// its turn. The error is sink's or the context's.
func Rehearse(ctx context.Context, accounts []*queue.Account, o Options, sink func(Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	tell := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if context.Cause(ctx) != nil && e.Error == "" && e.Notice == "" {
			return // what a check says that was cut off is not news
		}
		if err := sink(e); err != nil {
			cancel(err)
		}
	}
	for _, a := range accounts {
		if ctx.Err() != nil {
			break
		}
		o := o
		o.Notice = func(s string) { tell(Event{Account: a.Name(), Notice: s}) }
		o.Over = func(out Outcome) { tell(Event{Account: a.Name(), Outcome: &out}) }
		tell(Event{Account: a.Name(), Begun: len(checks())})
		_, err := Run(ctx, a, o)
		if err != nil && (ctx.Err() == nil || errors.Is(err, errLeft)) {
			tell(Event{Account: a.Name(), Error: err.Error()})
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	tell(Event{Over: true})
	return context.Cause(ctx)
}

// Sort puts outcomes in the order of Checks, account by account in the order they came.
func Sort(outcomes []Outcome) {
	accounts, order := map[string]int{}, map[string]int{}
	for _, o := range outcomes {
		if _, seen := accounts[o.Account]; !seen {
			accounts[o.Account] = len(accounts)
		}
	}
	for i, c := range checks() {
		order[c.name] = i - len(checks()) // what only a later version knows comes last
	}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(accounts[a.Account], accounts[b.Account]), cmp.Compare(order[a.Check], order[b.Check]))
	})
}

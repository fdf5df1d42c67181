package verify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A service that hangs, wherever it does, holds nobody up for longer than is said; the outcomes say so.
func TestARehearsalIsBoundedInTime(t *testing.T) {
	for _, op := range []queuetest.Operation{queuetest.OpList, queuetest.OpCreate, queuetest.OpSend, queuetest.OpReceive, queuetest.OpDelete, queuetest.OpProperties} {
		t.Run(string(op), func(t *testing.T) {
			rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
				remove := srv.Inject(queuetest.Fault{Operation: op, Delay: 24 * time.Hour})
				defer remove()
				began, told, failed := time.Now(), 0, 0
				err := Rehearse(t.Context(), []*queue.Account{acct}, Options{}, func(e Event) error {
					switch {
					case e.Error != "":
						failed = len(checks())
					case e.Outcome != nil:
						if told++; !e.Outcome.OK {
							failed++
						}
					}
					return nil
				})
				if took := time.Since(began); err != nil || took > Longest || failed == 0 {
					t.Errorf("after %v: %d told, %d failed, %v", took, told, failed, err)
				}
				remove()
				time.Sleep(25 * time.Hour) // what hangs is let go
			})
		})
	}
}

// Who listens can end it; its queues are removed then as well, and the next account has no turn.
func TestWhoListensEndsARehearsal(t *testing.T) {
	rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
		enough := errors.New("enough")
		accounts := 0
		err := Rehearse(t.Context(), []*queue.Account{acct, acct}, Options{}, func(e Event) error {
			if e.Begun > 0 {
				accounts++
			}
			if e.Outcome != nil {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || accounts != 1 {
			t.Errorf("%d accounts, %v", accounts, err)
		}
		if left := srv.Queues(queuetest.AccountName); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// An account that cannot be rehearsed on does not keep the next from its turn, and what cannot be removed is told, of one
// that is interrupted too.
func TestARehearsalTellsWhatItCannotDo(t *testing.T) {
	rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
		defer srv.Inject(queuetest.Fault{Operation: queuetest.OpList, Times: 1, Status: 403, Code: "AuthorizationFailure"})()
		var told []string
		over, outcomes := false, 0
		err := Rehearse(t.Context(), []*queue.Account{acct, acct}, Options{}, func(e Event) error {
			if e.Error != "" {
				told = append(told, e.Error)
			}
			if e.Outcome != nil {
				outcomes++
			}
			over = e.Over
			return nil
		})
		if err != nil || !over || outcomes != len(Checks()) || len(told) != 1 || !strings.Contains(told[0], "list queues") {
			t.Errorf("%d outcomes, told %q, over %v, %v", outcomes, told, over, err)
		}

		defer srv.Inject(queuetest.Fault{Operation: queuetest.OpDeleteQueue, Status: 403, Code: "AuthorizationFailure"})()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		told = nil
		err = Rehearse(ctx, []*queue.Account{acct}, Options{}, func(e Event) error {
			if e.Error != "" {
				told = append(told, e.Error)
			}
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || len(told) != 1 || !strings.Contains(told[0], "remove a temporary queue") {
			t.Errorf("told %q, %v", told, err)
		}
	})
}

func TestOutcomesAreSorted(t *testing.T) {
	t.Parallel()
	first, last := Checks()[0][0], Checks()[8][0]
	all := []Outcome{{Account: "b", Check: last}, {Account: "a", Check: "of a later version"}, {Account: "b", Check: first}, {Account: "a", Check: last}, {Account: "a", Check: first}}
	Sort(all)
	var got []string
	for _, o := range all {
		got = append(got, o.Account+" "+o.Check)
	}
	want := "b " + first + ", b " + last + ", a " + first + ", a " + last + ", a of a later version"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s, want %s", s, want)
	}
}

package verify

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

func rig(t *testing.T, run func(t *testing.T, srv *queuetest.Server, acct *queue.Account)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := queuetest.New(queuetest.Options{})
		acct, err := queue.NewAccount(queue.AccountConfig{Name: "acct", ConnectionString: queue.Secret(srv.ConnectionString()), Transport: srv})
		if err != nil {
			t.Fatal(err)
		}
		defer acct.Close()
		run(t, srv, acct)
	})
}

func TestEveryCheckPassesOnAServiceThatWorks(t *testing.T) {
	rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
		outcomes, err := Run(t.Context(), acct, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(outcomes) != len(Checks()) {
			t.Errorf("%d outcomes of %d checks", len(outcomes), len(Checks()))
		}
		for _, o := range outcomes {
			if !o.OK || o.Saw == "" || o.Error != "" {
				t.Errorf("%+v", o)
			}
		}
		if left := srv.Queues(queuetest.AccountName); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// Each fault of the service fails the checks that are about it.
func TestChecksFailWhereTheServiceDoes(t *testing.T) {
	for name, tc := range map[string]struct {
		fault queuetest.Fault
		fails []string
	}{
		"leases cannot be renewed": {queuetest.Fault{Operation: queuetest.OpUpdate, Status: 403, Code: "AuthorizationFailure"}, []string{"renewal", "crash during a renewal"}},
		"messages cannot be deleted": {
			queuetest.Fault{Operation: queuetest.OpDelete, Status: 403, Code: "AuthorizationFailure"},
			[]string{"redelivery", "renewal", "quarantine", "observability", "crash before the work", "crash after the commit", "crash during a renewal", "two consumers, one key", "unfinished work"},
		},
		"messages cannot be sent": {
			queuetest.Fault{Operation: queuetest.OpSend, Status: 403, Code: "AuthorizationFailure"},
			[]string{"redelivery", "renewal", "quarantine", "observability", "crash before the work", "crash after the commit", "crash during a renewal", "two consumers, one key", "unfinished work"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
				defer srv.Inject(tc.fault)()
				outcomes, err := Run(t.Context(), acct, Options{})
				if err != nil {
					t.Fatal(err)
				}
				failed := map[string]bool{}
				for _, o := range outcomes {
					failed[o.Check] = !o.OK
				}
				for _, c := range tc.fails {
					if !failed[c] {
						t.Errorf("%s passed", c)
					}
				}
				if left := srv.Queues(queuetest.AccountName); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		})
	}
}

func TestARunThatIsInterruptedRemovesItsQueues(t *testing.T) {
	rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := Run(ctx, acct, Options{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if left := srv.Queues(queuetest.AccountName); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

func TestLeftoversOfKilledRunsAreRemoved(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	name := func(ago time.Duration, host, pid string) string {
		tmp := temporary{name: prefix + base36(now.Add(-ago).Unix()) + "-" + host + "-" + pid + "-abcdef"}
		return tmp.name + "-3"
	}
	running := func(pid int) bool { return pid != 42 && pid != os.Getpid() }
	here, _ := place("web", "boot", "pid:[4026531836]")
	other, _ := place("web", "boot", "pid:[4026532200]")
	if _, known := place("web", "boot", ""); known || leftBehind(name(time.Minute, here, base36(42)), now, "", running) {
		t.Error("a process is looked up in a place that is not known")
	}
	if old < Longest {
		t.Errorf("a run may take %v, and is over for others after %v", Longest, old)
	}
	for what, tc := range map[string]struct {
		name string
		want bool
	}{
		"of a process that is there":          {name(time.Minute, here, base36(43)), false},
		"of this process":                     {name(time.Minute, here, base36(int64(os.Getpid()))), false},
		"of this process, old":                {name(time.Hour, here, base36(int64(os.Getpid()))), true},
		"of an earlier version":               {prefix + base36(now.Unix()) + "-abc123-" + base36(42) + "-3", false},
		"of a container of the same name":     {name(time.Minute, other, base36(42)), false},
		"of a process that is gone":           {name(time.Minute, here, base36(42)), true},
		"its poison queue":                    {name(time.Minute, here, base36(42)) + "-poison", true},
		"of another machine, young":           {name(time.Minute, "ffffffffffff", base36(42)), false},
		"of another machine, old":             {name(time.Hour, "ffffffffffff", base36(42)), true},
		"a queue of somebody's":               {"orders", false},
		"a queue of somebody's, alike":        {"qwatch-verify-results", false},
		"a queue of somebody's, alike, dated": {"qwatch-verify-2020-01-01-copy", false},
	} {
		if got := leftBehind(tc.name, now, here, running); got != tc.want {
			t.Errorf("%s: %s is left behind: %v", what, tc.name, got)
		}
	}
	rig(t, func(t *testing.T, srv *queuetest.Server, acct *queue.Account) {
		if n := newTemporary(acct).name; len(n)+len("-99-poison") > 63 || n == newTemporary(acct).name {
			t.Errorf("%s leaves no room, or is another run's as well", n)
		}
		old := prefix + base36(acct.Now().Add(-time.Hour).Unix()) + "-ffffff-1-0"
		for _, n := range []string{old, old + "-poison", "orders"} {
			q, err := acct.Queue(n, queue.Config{NoPoison: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var said []string
		if _, err := Run(t.Context(), acct, Options{Notice: func(s string) { said = append(said, s) }}); err != nil {
			t.Fatal(err)
		}
		if left := srv.Queues(queuetest.AccountName); len(left) != 1 || left[0] != "orders" || len(said) != 2 || !strings.Contains(said[0], old) {
			t.Errorf("left %q, said %q", left, said)
		}
	})
	if !alive(os.Getpid()) {
		t.Error("this process is not alive")
	}
}

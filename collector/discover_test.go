package collector_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// A listing that fails, at its first page or a later one, keeps what is known.
func TestDiscoveryFailure(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]queuetest.Fault{
		"refused":                {Operation: queuetest.OpList, Status: 403, Code: "AuthorizationPermissionMismatch"},
		"fails at a second page": {Operation: queuetest.OpList, Status: 500, Skip: 1},
		"hangs":                  {Operation: queuetest.OpList, Hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{NoAuth: true})
				for i := range 5001 {
					createAll(t, s.acct, fmt.Sprintf("q-%04d", i))
				}
				var log bytes.Buffer
				c, err := collector.New(collector.Config{
					Interval: 6 * time.Hour, RequestsPerSecond: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Discovery: []collector.Discovery{{Account: s.acct, Interval: 5 * time.Minute, MaxQueues: 10_000}},
				})
				if err != nil {
					t.Fatal(err)
				}
				stop := start(t, c)
				time.Sleep(2 * time.Second)
				success := func() float64 {
					return samples(t, c)[`qwatch_discovery_last_success_timestamp_seconds{account="acct"}`]
				}
				first := success()
				fault.Match = func(queuetest.Op) bool { return true }
				off := s.Inject(fault)
				remove(t, s.acct, "q-0000")
				createAll(t, s.acct, "q-9999")
				time.Sleep(time.Hour)
				if n := only(c.Snapshot(), collector.KindMain); len(n) != 5001 || success() != first {
					t.Errorf("%d queues are watched after failures; last success %v, at first %v", len(n), success(), first)
				}
				if d := c.Snapshot().Accounts[0].Discovery; d.Failing == "" {
					t.Errorf("the snapshot says %+v", d)
				}
				off()
				time.Sleep(2 * time.Minute)
				got := only(c.Snapshot(), collector.KindMain)
				if _, gone := got["q-0000"]; gone || len(got) != 5001 || success() <= first {
					t.Errorf("%d queues are watched after recovery, the deleted one among them: %t", len(got), gone)
				}
				stop()
				if n := strings.Count(log.String(), "cannot be listed"); n != 1 {
					t.Errorf("%d lines about one incident:\n%s", n, log.String())
				}
				if !strings.Contains(log.String(), "can be listed again") {
					t.Errorf("the end of the incident is not told:\n%s", log.String())
				}
			})
		})
	}
}

// A queue that cannot be watched is left out and told of once; the others are watched.
func TestDiscoveryLeavesOutWhatCannotBeWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		createAll(t, s.acct, "good", "bad", "worse", "wrong")
		var log bytes.Buffer
		c, err := collector.New(collector.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Discovery: []collector.Discovery{{Account: s.acct, Interval: time.Minute, Target: func(name string) (collector.Target, error) {
				tier := 1
				switch name {
				case "bad":
					return collector.Target{}, errors.New("no such settings")
				case "worse":
					tier = -1
				case "wrong":
					name = "good"
				}
				q, err := s.acct.Queue(name, queue.Config{NoPoison: true})
				return collector.Target{Queue: q, Tier: tier}, err
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, c)
		time.Sleep(10 * time.Minute)
		createAll(t, s.acct, "better") // the fleet is made anew
		time.Sleep(10 * time.Minute)
		stop()
		if diff := cmp.Diff([]string{"better main", "good main"}, watchedQueues(c)); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "cannot be watched"); n != 3 {
			t.Errorf("%d lines about three queues:\n%s", n, log.String())
		}
	})
}

// A reload applies new globs to what is known at once, and keeps the counts of queues that stay.
func TestSetFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		createAll(t, s.acct, "aaa", "bbb", "ccc")
		c := run(t, collector.Config{Discovery: []collector.Discovery{{Account: s.acct}}})
		time.Sleep(20 * time.Minute)
		had := about(t, c, "bbb", "main")[polls]
		again := account(t, s.Server, "acct", queuetest.AccountName)
		set := func(targets []collector.Target, d ...collector.Discovery) {
			t.Helper()
			if err := c.SetFleet(targets, d); err != nil {
				t.Fatal(err)
			}
		}
		off := s.Inject(queuetest.Fault{Operation: queuetest.OpList, Hang: true})
		set(nil, collector.Discovery{Account: again, Include: []string{"b*", "c*"}})
		if diff := cmp.Diff([]string{"bbb main", "bbb poison", "ccc main", "ccc poison"}, watchedQueues(c)); diff != "" {
			t.Errorf("with other globs (-want +got):\n%s", diff)
		}
		if n := about(t, c, "bbb", "main")[polls]; n != had {
			t.Errorf("a queue that stays had %v polls and has %v", had, n)
		}
		off()
		createAll(t, s.acct, "bbc")
		set(targets(open(t, again, "ccc", queue.Config{NoPoison: true})), collector.Discovery{Account: again, Include: []string{"b*"}})
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"bbb main", "bbb poison", "bbc main", "bbc poison", "ccc main"}, watchedQueues(c)); diff != "" {
			t.Errorf("listed anew at once (-want +got):\n%s", diff)
		}
		for _, bad := range [][]collector.Discovery{
			{{}},
			{{Account: again, Include: []string{"["}}},
			{{Account: again}, {Account: again}},
			{{Account: account(t, s.Server, "acct", queuetest.AccountName)}}, // not the one of the targets
		} {
			if err := c.SetFleet(targets(open(t, again, "ccc", queue.Config{})), bad); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
		if diff := cmp.Diff([]string{"bbb main", "bbb poison", "bbc main", "bbc poison", "ccc main"}, watchedQueues(c)); diff != "" {
			t.Errorf("after faults (-want +got):\n%s", diff)
		}
		set(nil)
		if got := samples(t, c); len(got) != 0 {
			t.Errorf("without anything to watch there is %v", got)
		}
		s.ResetCounts()
		time.Sleep(time.Hour)
		if n := s.Requests(queuetest.Op{}); n != 0 {
			t.Errorf("%d requests for nothing", n)
		}
	})
}

// Discovery in another account changes nothing for this one, and an account with nothing but discovery counts as contacted once it is listed.
func TestDiscoveryAndContact(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault queuetest.Fault
		want  time.Duration
	}{
		"listed":  {queuetest.Fault{Skip: 1 << 30}, 0},
		"refused": {queuetest.Fault{Status: 403}, 0},
		"hangs":   {queuetest.Fault{Hang: true}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStorage(t, queuetest.Options{})
				s.Inject(tt.fault)
				start := time.Now()
				c := run(t, collector.Config{Discovery: []collector.Discovery{{Account: s.acct}}})
				<-c.Contacted()
				if got := time.Since(start); got != tt.want {
					t.Errorf("contacted after %v, want %v", got, tt.want)
				}
				if a := c.Snapshot().Accounts; len(a) != 1 || a[0].Name != "acct" || a[0].Queues != 0 {
					t.Errorf("accounts %+v", a)
				}
			})
		})
	}
}

func TestDiscoveryFaults(t *testing.T) {
	t.Parallel()
	s := newStorage(t, queuetest.Options{})
	_, err := collector.New(collector.Config{Discovery: []collector.Discovery{
		{},
		{Account: s.acct, Include: []string{"[", "ok*"}, Exclude: []string{"[a-"}, Interval: time.Millisecond, MaxQueues: -1},
		{Account: s.acct},
	}})
	want := []string{
		"collector: discovery 0 has no account",
		`discovery of acct: glob "[": syntax error in pattern`,
		`glob "[a-": syntax error in pattern`,
		"interval 1ms is shorter than 1s",
		"-1 queues at most are too few",
		"discovery of acct is given twice",
	}
	if diff := cmp.Diff(want, slices.Collect(strings.SplitSeq(fmt.Sprint(err), "\n"))); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

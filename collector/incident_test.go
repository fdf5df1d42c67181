package collector_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

// said returns the log's lines of that level by what they say, and how often.
func said(log, level string) map[string]int {
	out := map[string]int{}
	for line := range strings.Lines(log) {
		_, rest, ok := strings.Cut(line, "level="+level+" msg=\"")
		if !ok {
			continue
		}
		message, _, _ := strings.Cut(rest, "\"")
		out[message]++
	}
	return out
}

// Polls that fail now and then, each for a moment only, are one incident for as long as they do.
func TestPollsThatFailNowAndThenAreOneIncident(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		var qs []*queue.Queue
		for i := range 20 {
			qs = append(qs, create(t, s.acct, fmt.Sprintf("q-%d", i)))
		}
		var log lockedBuffer
		c, err := collector.New(collector.Config{
			Targets: targets(qs...), Interval: 30 * time.Second, IdleInterval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, c)
		time.Sleep(5 * time.Minute)
		for range 60 { // one poll every 50 s
			s.Inject(queuetest.Fault{Status: 403, Code: "AuthorizationFailure", Times: 1})
			time.Sleep(50 * time.Second)
		}
		if diff := cmp.Diff(map[string]int{}, said(log.String(), "INFO")); diff != "" {
			t.Errorf("while they fail (-want +got):\n%s", diff)
		}
		time.Sleep(5 * time.Minute)
		s.Inject(queuetest.Fault{Status: 403, Code: "AuthorizationFailure", Times: 1})
		time.Sleep(5 * time.Minute)
		stop()
		if diff := cmp.Diff(map[string]int{"polls fail": 2}, said(log.String(), "WARN")); diff != "" {
			t.Errorf("warnings (-want +got):\n%s\n%s", diff, log.String())
		}
		if diff := cmp.Diff(map[string]int{"polls no longer fail for this reason": 2}, said(log.String(), "INFO")); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		for _, want := range []string{"failures=60\n", "failures=1\n"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no line has %q:\n%s", want, log.String())
			}
		}
	})
}

// Queues that were found and are deleted are told of together, by the listing that lacks them.
func TestFoundQueuesThatGoAreToldOfTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStorage(t, queuetest.Options{})
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprintf("q-%02d", i))
		}
		createAll(t, s.acct, names...)
		var log bytes.Buffer
		c, err := collector.New(collector.Config{
			Targets: targets(open(t, s.acct, "q-00", queue.Config{})), // somebody named this one
			Logger:  slog.New(slog.NewTextHandler(&log, nil)), Interval: 10 * time.Second, IdleInterval: -1,
			Discovery: []collector.Discovery{{Account: s.acct, Interval: 5 * time.Minute}},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, c)
		time.Sleep(time.Minute)
		remove(t, s.acct, names[:30]...)
		time.Sleep(10 * time.Minute)
		stop()
		want := map[string]int{"queue is missing": 1, "queues that had been found are gone": 1}
		if diff := cmp.Diff(want, said(log.String(), "WARN")); diff != "" {
			t.Errorf("warnings (-want +got):\n%s\n%s", diff, log.String())
		}
		if want := `account=acct queues=29 names="q-01, q-02, q-03, q-04, q-05, …"`; !strings.Contains(log.String(), want) {
			t.Errorf("no line has %s:\n%s", want, log.String())
		}
	})
}

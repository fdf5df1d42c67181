package story_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/story"
	"github.com/qwatch/qwatch/processor"
	"github.com/qwatch/qwatch/queue"
)

// handle has a handler work on message id at an attempt.
func handle(t *testing.T, r *rig, id string, attempt int, took time.Duration, fails bool) {
	t.Helper()
	h := r.Middleware("a", "q")(processor.HandlerFunc(func(context.Context, *processor.Message) error {
		time.Sleep(took)
		if fails {
			return errors.New("not now")
		}
		return nil
	}))
	err := h.Handle(t.Context(), &processor.Message{Message: &queue.Message{ID: id, DequeueCount: attempt}})
	if (err != nil) != fails {
		t.Fatalf("the handler's error became %v", err)
	}
}

// recovering has a message fail until an attempt, the attempts being apart by delay.
func recovering(t *testing.T, r *rig, id string, succeeds int, delay time.Duration) {
	t.Helper()
	for n := 1; n <= succeeds; n++ {
		handle(t, r, id, n, 50*time.Millisecond, n < succeeds)
		if n < succeeds {
			time.Sleep(delay)
		}
	}
}

func TestAdviceRestsOnWhatWasMeasured(t *testing.T) {
	t.Parallel()
	usual := story.Settings{VisibilityTimeout: 30 * time.Second, Renew: true, MaxDequeueCount: 5, RetryInitial: 5 * time.Second, HandlerTimeout: 30 * time.Second}
	with := func(change func(*story.Settings)) story.Settings { s := usual; change(&s); return s }
	quick := func(t *testing.T, r *rig) {
		for i := range 300 {
			handle(t, r, fmt.Sprint(i), 1, 100*time.Millisecond, false)
		}
	}
	for name, tt := range map[string]struct {
		settings story.Settings
		work     func(t *testing.T, r *rig)
		setting  string
		verdict  story.Verdict
		advised  string
		why      string
	}{
		"too few calls to say anything": {usual, func(t *testing.T, r *rig) { handle(t, r, "x", 1, time.Second, false) }, "visibilityTimeout", story.VerdictTooFew, "", "seen so far: 1; it takes 200 handler calls"},
		"a lease that fits":             {usual, quick, "visibilityTimeout", story.VerdictKeep, "30s", "99 of 100 handlers end within 100 ms"},
		"a lease that is renewed all the time": {usual, func(t *testing.T, r *rig) {
			for i := range 300 {
				handle(t, r, fmt.Sprint(i), 1, 50*time.Second, false)
			}
		}, "visibilityTimeout", story.VerdictRaise, "2m", "twice that"},
		"a lease so long that a crash costs an hour": {with(func(s *story.Settings) { s.VisibilityTimeout = time.Hour }), quick, "visibilityTimeout", story.VerdictLower, "30s", "delivered again after 30 s"},
		"a lease that is never renewed":              {with(func(s *story.Settings) { s.Renew = false }), quick, "visibilityTimeout", story.VerdictRaise, "45s", "must outlast every handler"},

		"a delay that is too short": {usual, func(t *testing.T, r *rig) {
			for i := range 40 {
				recovering(t, r, fmt.Sprint(i), 4, 40*time.Second)
			}
		}, "retry.initial", story.VerdictRaise, "3m", "0 % of the messages that recover do so at the second attempt"},
		"a delay that does": {usual, func(t *testing.T, r *rig) {
			for i := range 40 {
				recovering(t, r, fmt.Sprint(i), 2, 5*time.Second)
			}
		}, "retry.initial", story.VerdictKeep, "5s", "100 % of the messages"},
		"a delay that is longer than it need be": {with(func(s *story.Settings) { s.RetryInitial = 10 * time.Minute }), func(t *testing.T, r *rig) {
			for i := range 40 {
				recovering(t, r, fmt.Sprint(i), 2, 10*time.Minute)
			}
		}, "retry.initial", story.VerdictLower, "5m", "cannot be seen, hence half"},
		"nothing that recovered": {usual, quick, "retry.initial", story.VerdictTooFew, "", "it takes 30 messages that failed here and succeeded later"},

		"nothing that failed": {usual, quick, "maxDequeueCount", story.VerdictTooFew, "", "it takes 20 second and later attempts"},
		"messages that still succeed at the last attempt": {usual, func(t *testing.T, r *rig) {
			quick(t, r)
			for i := range 40 {
				recovering(t, r, fmt.Sprint("r", i), 5, time.Second)
			}
		}, "maxDequeueCount", story.VerdictRaise, "7", "100 % of the messages that come to the last attempt succeed in it (40 of 40)"},
		"attempts in vain": {with(func(s *story.Settings) { s.MaxDequeueCount = 20 }), func(t *testing.T, r *rig) {
			quick(t, r)
			for i := range 40 {
				recovering(t, r, fmt.Sprint("r", i), 2, time.Second)
			}
			for n := range 20 {
				handle(t, r, "poison", n+1, time.Millisecond, true)
			}
		}, "maxDequeueCount", story.VerdictLower, "4", "of 18 later attempts 18 were in vain"},
		"a count that fits": {usual, func(t *testing.T, r *rig) {
			quick(t, r)
			for i := range 40 {
				recovering(t, r, fmt.Sprint("r", i), 3, time.Second)
			}
		}, "maxDequeueCount", story.VerdictKeep, "5", "999 of 1,000 messages that succeed do so by attempt 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.settings["a/q"] = tt.settings
				tt.work(t, r)
				a, ok := r.Tune(aq)
				if !ok {
					t.Fatal("no advice")
				}
				for _, rec := range a.Settings {
					if rec.Setting != tt.setting {
						continue
					}
					if rec.Verdict != tt.verdict || rec.Advised != tt.advised || !strings.Contains(rec.Why, tt.why) {
						t.Errorf("%s to %q: %s\nwant %s to %q, with %q", rec.Verdict, rec.Advised, rec.Why, tt.verdict, tt.advised, tt.why)
					}
					return
				}
				t.Fatalf("no advice about %s: %+v", tt.setting, a.Settings)
			})
		})
	}
}

func TestWhoConsumesNothingGetsNoAdvice(t *testing.T) {
	t.Parallel()
	if a, ok := newRig().Tune(aq); ok {
		t.Errorf("advice: %+v", a)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 20 * time.Millisecond: "20 ms", time.Microsecond: "1 ms", -time.Hour: "0 s", 59 * time.Second: "59 s", time.Minute: "1 m", 3723 * time.Second: "1 h 2 m", 27 * time.Hour: "1 d 3 h",
	} {
		if got := story.Duration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{45*time.Minute + 6*time.Second: "45 m", 9*time.Minute + 20*time.Second: "9 m 20 s", 30 * time.Second: "30 s", 500 * time.Hour: "20 d"} {
		if got := story.Short(d); got != want {
			t.Errorf("%v is written %q in short, want %q", d, got, want)
		}
	}
	for want, got := range map[string]string{
		"1 message": story.Count(1, "message"), "1,234,567 messages": story.Count(1234567, "message"), "2 entries": story.Count(2, "entry"), "-1,000": story.Digits(-1000), "2 keys": story.Count(2, "key"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

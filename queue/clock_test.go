package queue

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// exchange lets the clock see an answer: the service is ahead by skew, and each way takes half of rtt.
func (c *clock) exchange(skew, rtt time.Duration) {
	begin := time.Now()
	time.Sleep(rtt / 2)
	date := time.Now().Add(skew).Truncate(time.Second)
	time.Sleep(rtt / 2)
	c.observe(date, begin, time.Now())
}

func newClock() (*clock, *strings.Builder) {
	var b strings.Builder
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return &clock{log: slog.New(h)}, &b
}

func (c *clock) estimate() time.Duration { return time.Duration(c.skew.Load()) }

func TestClockErrorShrinks(t *testing.T) {
	for _, skew := range []time.Duration{0, 300 * time.Millisecond, 7 * time.Second, -90 * time.Second, 17 * time.Minute, -40 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newClock()
			random := rand.New(rand.NewPCG(1, 2))
			if c.seen.Load() {
				t.Fatal("a skew is known before the first answer")
			}
			const rtt = 40 * time.Millisecond
			c.exchange(skew, rtt)
			if e := abs(c.estimate() - skew); e > time.Second+rtt {
				t.Errorf("skew %v: the first estimate is %v off", skew, e)
			}
			for range 200 {
				time.Sleep(time.Duration(random.Int64N(int64(5 * time.Second))))
				c.exchange(skew, rtt)
			}
			// 0 is reported where it cannot be excluded.
			if e := abs(c.estimate() - skew); e > 100*time.Millisecond {
				t.Errorf("skew %v: after 200 answers the estimate is %v off", skew, e)
			}
			if e := abs(c.now().Sub(time.Now().Add(skew))); e > 100*time.Millisecond {
				t.Errorf("skew %v: now is %v off", skew, e)
			}
		})
	}
}

func TestClockPassesOverNonsense(t *testing.T) {
	nonsense := map[string]time.Time{
		"the epoch":   time.Unix(0, 0),
		"year 1":      {},
		"year 9999":   time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		"a month off": time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC),
	}
	for name, date := range nonsense {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, log := newClock()
				for range 5 {
					c.exchange(20*time.Second, 0)
					time.Sleep(700 * time.Millisecond)
				}
				c.observe(date, time.Now(), time.Now())
				if e := abs(c.estimate() - 20*time.Second); e > time.Second {
					t.Errorf("one such Date puts the estimate %v off", e)
				}
				c.exchange(20*time.Second, 0)
				c.observe(date, time.Now(), time.Now())
				if e := abs(c.estimate() - 20*time.Second); e > time.Second {
					t.Errorf("a second one, not in a row, puts it %v off", e)
				}
				if log.Len() > 0 {
					t.Errorf("logged %s", log)
				}
			})
		})
		t.Run(name+", as the very first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newClock()
				c.observe(date, time.Now(), time.Now())
				c.exchange(20*time.Second, 0)
				if e := abs(c.estimate() - 20*time.Second); e > time.Second {
					t.Errorf("the next answer does not mend it: %v off", e)
				}
			})
		})
	}
}

func TestClockFollowsAClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClock()
		for range 10 {
			c.exchange(2*time.Minute, 10*time.Millisecond)
			time.Sleep(time.Second)
		}
		c.exchange(0, 10*time.Millisecond)
		c.exchange(0, 10*time.Millisecond)
		if got := c.estimate(); got != 0 {
			t.Errorf("after two answers of the mended clock the estimate is %v", got)
		}
	})
}

func TestClockAllowsForDriftAndManyFrontEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClock()
		random := rand.New(rand.NewPCG(3, 4))
		skew := 10 * time.Second
		for range 24 * 60 {
			skew += 3 * time.Millisecond // 50 µs a second
			jitter := time.Duration(random.Int64N(int64(400*time.Millisecond))) - 200*time.Millisecond
			c.exchange(skew+jitter, 30*time.Millisecond)
			time.Sleep(time.Minute)
			if e := abs(c.estimate() - skew); e > 1300*time.Millisecond {
				t.Fatalf("the estimate is %v off", e)
			}
			if c.bounds.lo > c.bounds.hi {
				t.Fatalf("bounds %v", c.bounds)
			}
		}
	})
}

func TestClockStaysExactWhileItDrifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClock()
		random := rand.New(rand.NewPCG(5, 6))
		skew, last := 10*time.Second, time.Now()
		for i := range 2000 {
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second))))
			skew += time.Since(last) / 20_000 // 50 µs a second
			last = time.Now()
			c.exchange(skew, 30*time.Millisecond)
			if e := abs(c.estimate() - skew); i > 100 && e > 250*time.Millisecond {
				t.Fatalf("after %d answers the estimate is %v off", i, e)
			}
		}
	})
}

func TestClockWarnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newClock()
		say := func(skew time.Duration, want string) {
			t.Helper()
			for range 5 {
				c.exchange(skew, 0)
				time.Sleep(time.Second)
			}
			if got := log.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != strings.Count(want, "level") {
				t.Errorf("skew %v: logged %q, want %q", skew, got, want)
			}
			log.Reset()
		}
		say(0, "")
		say(299*time.Second, "")
		say(-10*time.Minute, `level=WARN msg="clock differs from the storage service's; past 15 minutes requests signed with a key are refused" skew_seconds=-`)
		say(-12*time.Minute, "")
		say(-295*time.Second, "")
		say(2*time.Second, `level=INFO msg="clock agrees with the storage service's again" skew_seconds=`)
		say(10*time.Minute, `level=WARN msg="clock differs from the storage service's; past 15 minutes requests signed with a key are refused" skew_seconds=`)
	})
}

package app_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qwatch/qwatch/internal/metric"
)

// lines counts the samples of the exposition that the formula is about, and those of them that belong to consumers.
func (r *rig) lines() (all, consumers, checks int) {
	r.t.Helper()
	owner := map[string]metric.Scope{}
	for _, d := range metric.Catalogue() {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			owner[d.Name+suffix] = d.Scope
		}
	}
	_, body := r.get("http://main/metrics")
	for line := range strings.Lines(body) {
		name, _, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		scope, ok := owner[name]
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"), strings.HasPrefix(name, "promhttp_"):
		case !ok:
			r.t.Errorf("%s is not in the catalogue", name)
		default:
			all++
			if scope == metric.PerConsumer {
				consumers++
			}
			if scope == metric.PerCheck {
				checks++
			}
		}
	}
	return all, consumers, checks
}

// T4: what a process really exports stays within the formula of docs/metrics.md, and grows with the
// configuration alone: messages, failures and time add nothing.
func TestSeriesStayWithinTheFormula(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		small := consuming(consumed("first", 1), "{name: second}")
		r := start(t, small, nil)
		check := func(size metric.Size) {
			t.Helper()
			all, consumers, checks := r.lines()
			size.Checks = checks
			if most := metric.Series(size); all > most || all < most/2 {
				t.Errorf("%d series with %+v, want %d at the most, and half of that at least", all, size, most)
			}
			if want := metric.Series(metric.Size{Consumers: size.Consumers}) - metric.Series(metric.Size{}); consumers != want {
				t.Errorf("%d series of %d consumers, want %d", consumers, size.Consumers, want)
			}
		}
		settle(time.Minute)
		check(metric.Size{Queues: 2, Consumers: 1, Accounts: 1})
		for range 40 {
			r.send("first", "refused by nobody, for the handler cannot be reached")
			r.send("second", "waits")
		}
		settle(10 * time.Minute)
		check(metric.Size{Queues: 2, Consumers: 1, Accounts: 1})

		queues := []string{consumed("first", 1), "{name: second}"}
		for _, name := range []string{"third", "fourth", "fifth"} {
			queues = append(queues, consumed(name, 1))
		}
		r.reload(consuming(queues...))
		settle(time.Minute)
		check(metric.Size{Queues: 5, Consumers: 4, Accounts: 1})
		r.reload(consuming(queues...) + "watch: {series: compact}\n")
		settle(time.Minute)
		check(metric.Size{Queues: 5, Consumers: 4, Accounts: 1, Compact: true})

		// And back: what was counted of consumers that are gone counts for a while, what is watched at once not.
		r.reload(small)
		settle(time.Minute)
		check(metric.Size{Queues: 2, Consumers: 4, Accounts: 1})
		settle(10 * time.Minute)
		check(metric.Size{Queues: 2, Consumers: 1, Accounts: 1})

		// So do accounts.
		r.reload(small + strings.TrimPrefix(strings.ReplaceAll(consuming(consumed("third", 1)), "acct", "other"), "accounts:\n"))
		settle(time.Minute)
		check(metric.Size{Queues: 3, Consumers: 2, Accounts: 2})
		r.want("http://main/metrics", 200, `qwatch_storage_request_duration_seconds_count{account="other",`)
		r.reload(small)
		settle(time.Minute)
		check(metric.Size{Queues: 2, Consumers: 2, Accounts: 2})
		r.want("http://main/metrics", 200, `qwatch_storage_request_duration_seconds_count{account="other",`)
		settle(10 * time.Minute)
		check(metric.Size{Queues: 2, Consumers: 1, Accounts: 1})
		r.lacks("http://main/metrics", `account="other"`)
		r.end()
	})
}

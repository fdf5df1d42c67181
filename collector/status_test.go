package collector_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/collector"
	"github.com/qwatch/qwatch/queue"
	"github.com/qwatch/qwatch/queue/queuetest"
)

const forever = 1000 * time.Hour

// expected is a phase that a history must have: the status, how it is found, and when it begins.
type expected struct {
	status      string
	rule        collector.Rule
	after, upTo time.Duration
}

// C5, C11: scripted histories, each with its verdicts from beginning to end. No status may come that
// is not listed, so that none flaps.
func TestStatus(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, tt := range map[string]struct {
		length time.Duration
		before func(*world) // happens before the watch begins
		script func(*world)
		want   []expected
	}{
		"an empty queue": {
			length: 2 * time.Hour,
			script: func(*world) {},
			want:   []expected{{"unknown", "too_few_samples", 0, 0}, {"idle", "empty", 1 * m, 4 * m}},
		},
		"a busy healthy queue that somebody else consumes": {
			length: time.Hour,
			script: func(w *world) {
				w.produce(5, 17*time.Second, forever)
				w.consume(16, 13*time.Second, 9*time.Second, 0, forever)
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}},
		},
		"a trickle": {
			length: 6 * time.Hour,
			script: func(w *world) {
				w.until(30 * m)
				w.produce(1, 23*m, forever)
				w.consume(4, 20*time.Second, 40*time.Second, 0, forever)
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"idle", "empty", 1 * m, 4 * m}},
		},
		"kept full by a fast producer, but moving": {
			length: time.Hour,
			script: func(w *world) {
				w.put(400, queue.SendOptions{})
				w.produce(6, 12*time.Second, forever)
				w.consume(6, 12*time.Second, 0, 0, forever)
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "progress", 1 * m, 4 * m}},
		},
		"nobody consumes, and messages keep coming": {
			length: 2 * time.Hour,
			script: func(w *world) { w.produce(3, 20*time.Second, forever) },
			want:   []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "not_overdue", 1 * m, 4 * m}, {"stalled", "untouched", 5 * m, 12 * m}},
		},
		"forgotten for hours before it was discovered": {
			length: 2 * time.Hour,
			before: func(w *world) {
				w.put(7, queue.SendOptions{})
				time.Sleep(5 * time.Hour)
			},
			script: func(*world) {},
			want:   []expected{{"unknown", "undecided", 0, 0}, {"stalled", "untouched", 5 * m, 7 * m}},
		},
		"nobody consumes, and messages expire": {
			length: 2 * time.Hour,
			script: func(w *world) {
				for w.pause(15 * time.Second) {
					w.put(1, queue.SendOptions{TimeToLive: 3 * m})
				}
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "not_overdue", 1 * m, 4 * m}, {"stalled", "untouched", 5 * m, 13 * m}},
		},
		"the consumer dies and comes back": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.produce(5, 11*time.Second, forever)
				w.consume(16, 7*time.Second, 6*time.Second, 0, 60*m)
				w.consume(64, 7*time.Second, 6*time.Second, 100*m, forever)
			},
			want: []expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "", 1 * m, 4 * m},
				{"stalled", "untouched", 65 * m, 73 * m},
				{"ok", "", 101 * m, 106 * m},
			},
		},
		"somebody looks into a stalled queue": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.put(50, queue.SendOptions{})
				w.until(90 * m)
				for _, m := range w.take(32, time.Minute) {
					if err := m.Abandon(w.ctx, 0); err != nil {
						w.t.Error(err)
					}
				}
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "not_overdue", 1 * m, 4 * m}, {"stalled", "untouched", 9 * m, 12 * m}},
		},
		"what handlers call is down, and long retries hide every message": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.put(20, queue.SendOptions{})
				w.beside(func() { // each failure hides for five minutes; what comes back is taken within a minute
					for w.pause(47 * time.Second) {
						w.take(32, 5*m)
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"hidden", "retries", 6 * m, 20 * m}},
		},
		"long retries, and new messages keep coming": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.produce(1, 45*time.Second, forever)
				w.consume(1, 30*time.Second, time.Second, 0, 60*m)
				w.beside(func() {
					w.until(60 * m)
					w.put(30, queue.SendOptions{})
					for w.pause(47 * time.Second) {
						w.take(32, 10*m)
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"hidden", "retries", 65 * m, 80 * m}},
		},
		"messages scheduled two hours ahead, handled on time": {
			length: 6 * time.Hour,
			script: func(w *world) {
				w.beside(func() {
					for w.pause(20 * time.Second) {
						w.put(1, queue.SendOptions{Delay: 2 * time.Hour})
					}
				})
				w.consume(16, 43*time.Second, time.Second, 0, forever)
			},
			// For the first two hours nothing becomes visible, and that is what it says.
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "in_flight", 1 * m, 4 * m}, {"hidden", "delays", 13 * m, 20 * m}, {"ok", "", 120 * m, 140 * m}},
		},
		"a crash loop of all consumers, ten messages": {
			length: time.Hour,
			script: func(w *world) {
				w.put(10, queue.SendOptions{})
				w.beside(func() {
					for w.pause(50 * time.Second) {
						w.take(10, 20*time.Second)
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"stalled", "redelivered", 5 * m, 9 * m}},
		},
		"a crash loop, deep queue": {
			length: time.Hour,
			script: func(w *world) {
				w.put(100, queue.SendOptions{})
				w.beside(func() {
					for w.pause(50 * time.Second) {
						w.take(16, 30*time.Second)
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "progress", 1 * m, 4 * m}, {"stalled", "redelivered", 6 * m, 15 * m}},
		},
		"a count that lags": {
			length: time.Hour,
			script: func(w *world) {
				w.put(300, queue.SendOptions{})
				w.produce(6, 12*time.Second, forever)
				w.consume(6, 12*time.Second, 0, 0, forever)
				w.beside(func() { // it is read anew every four minutes
					for w.pause(4 * m) {
						w.count.Store(int64(w.Len(queuetest.AccountName, "orders")))
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "progress", 1 * m, 4 * m}},
		},
		"the producer is faster than the consumer": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.produce(10, 10*time.Second, 90*m)
				w.consume(10, 10*time.Second, 0, 0, 30*m)
				w.consume(6, 10*time.Second, 0, 30*m, 90*m)
				w.consume(64, 10*time.Second, 0, 90*m, forever)
			},
			want: []expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "", 1 * m, 4 * m},
				{"falling_behind", "growing_wait", 34 * m, 50 * m},
				{"ok", "", 91 * m, 96 * m},
				{"idle", "empty", 98 * m, 130 * m},
			},
		},
		"a burst that is drained in eight minutes": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.until(60 * m)
				w.put(1000, queue.SendOptions{})
				w.consume(22, 10*time.Second, 0, 60*m, forever)
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"idle", "empty", 1 * m, 4 * m}, {"ok", "", 60 * m, 66 * m}, {"idle", "empty", 70 * m, 104 * m}},
		},
		"pods are replaced and release what they held": {
			length: 70 * time.Minute,
			script: func(w *world) {
				w.produce(20, 23*time.Second, forever)
				w.consume(100, 13*time.Second, 6*time.Second, 0, 40*m)
				w.beside(func() {
					w.until(40 * m)
					for _, m := range w.take(100, time.Minute) {
						if err := m.Abandon(w.ctx, 0); err != nil {
							w.t.Error(err)
						}
					}
				})
				w.consume(100, 13*time.Second, 6*time.Second, 42*m, forever)
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}},
		},
		"one handler, twelve minutes a message": {
			length: 4 * time.Hour,
			script: func(w *world) {
				w.put(40, queue.SendOptions{})
				w.consume(1, time.Second, 12*m, 0, forever)
			},
			// At first a full head gives no hint that somebody is at work; then it is known to be slow.
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"stalled", "untouched", 10 * m, 14 * m}, {"ok", "progress", 13 * m, 42 * m}},
		},
		"the watcher restarts": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.put(40, queue.SendOptions{})
				w.until(60 * m)
				w.unwatch()
				w.watch()
			},
			want: []expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "not_overdue", 1 * m, 4 * m},
				{"stalled", "untouched", 9 * m, 12 * m},
				{"unknown", "undecided", 60 * m, 61 * m},
				{"stalled", "untouched", 69 * m, 73 * m},
			},
		},
		"polls are missed now and then": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.produce(6, 11*time.Second, forever)
				w.consume(16, 7*time.Second, 3*time.Second, 0, 60*m)
				w.beside(func() {
					for w.pause(7 * m) {
						remove := w.Inject(queuetest.Fault{Operation: queuetest.OpProperties, Refuse: true})
						w.pause(90 * time.Second)
						remove()
					}
				})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "", 1 * m, 4 * m}, {"stalled", "untouched", 65 * m, 75 * m}},
		},
		"the account is out of reach for twenty minutes, twice": {
			length: 3 * time.Hour,
			script: func(w *world) {
				w.produce(6, 11*time.Second, forever)
				w.consume(16, 7*time.Second, 3*time.Second, 0, 60*m)
				for _, at := range []time.Duration{30 * m, 120 * m} {
					w.until(at)
					remove := w.Inject(queuetest.Fault{Operation: queuetest.OpProperties, Refuse: true})
					w.until(at + 20*m)
					remove()
				}
			},
			want: []expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "", 1 * m, 4 * m},
				{"unreachable", "polls_fail", 31 * m, 34 * m},
				{"ok", "", 50 * m, 51*m + 10*time.Second},
				{"stalled", "untouched", 65 * m, 75 * m},
				{"unreachable", "polls_fail", 121 * m, 124 * m},
				{"stalled", "untouched", 140 * m, 141*m + 10*time.Second},
			},
		},
		"the queue is deleted and comes back": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.put(5, queue.SendOptions{})
				w.until(30 * m)
				if err := w.q.Delete(w.ctx); err != nil {
					w.t.Error(err)
				}
				w.until(40 * m)
				if err := w.q.Create(w.ctx); err != nil {
					w.t.Error(err)
				}
			},
			want: []expected{
				{"unknown", "too_few_samples", 0, 0},
				{"ok", "not_overdue", 1 * m, 4 * m},
				{"stalled", "untouched", 5 * m, 7 * m},
				{"missing", "not_found", 30 * m, 31*m + 10*time.Second},
				{"unknown", "too_few_samples", 40 * m, 41*m + 10*time.Second},
				{"idle", "empty", 41 * m, 44 * m},
			},
		},
		"counts alone: nobody consumes": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.target.CountsOnly = true
				w.put(3, queue.SendOptions{})
				w.produce(1, 5*m, forever)
			},
			want: []expected{{"unknown", "undecided", 0, 0}, {"stalled", "count_never_falls", 30 * m, 32 * m}},
		},
		"counts alone: a healthy queue": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.target.CountsOnly = true
				w.produce(7, 20*time.Second, forever)
				w.consume(16, 30*time.Second, 10*time.Second, 0, forever)
			},
			// Which rule says so first depends on where a poll falls between a
			// put and a delete of the same second.
			want: []expected{{"unknown", "", 0, 0}, {"ok", "", 1 * m, 6 * m}},
		},
		"nobody is meant to consume": {
			length: 2 * time.Hour,
			script: func(w *world) {
				w.target.MonitorOnly = true
				w.put(50, queue.SendOptions{})
			},
			want: []expected{{"unknown", "too_few_samples", 0, 0}, {"ok", "monitor_only", 1 * m, 4 * m}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, play(t, collector.KindMain, tt.length, tt.before, tt.script), tt.want)
		})
	}
}

func check(t *testing.T, got []phase, want []expected) {
	t.Helper()
	var names, wantNames []string
	for _, p := range got {
		names = append(names, p.String())
	}
	for i, e := range want {
		if i >= len(got) {
			break
		}
		p := got[i]
		if p.status != e.status || e.rule != "" && p.rule != e.rule {
			t.Errorf("phase %d is %v, want %s (%s)", i, p, e.status, e.rule)
		}
		if p.from < e.after || p.from > e.upTo {
			t.Errorf("phase %d, %s, begins after %v, want %v to %v", i, p.status, p.from, e.after, e.upTo)
		}
	}
	if len(got) != len(want) {
		for _, e := range want {
			wantNames = append(wantNames, e.status)
		}
		t.Errorf("phases (-want +got):\n%s", cmp.Diff(wantNames, names))
	}
}

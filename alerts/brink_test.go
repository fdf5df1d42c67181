package alerts_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/alerts/scenario"
)

// A kind is something that happens to a fleet that is on the brink of an alert, and must not bring it about.
type kind string

// The kinds. The last is the control: what was on the brink goes over it, and the alert fires.
const (
	noTraffic   kind = "no traffic"
	absent      kind = "series absent"
	restart     kind = "consumer restart"
	twoReplicas kind = "two replicas"
	missed      kind = "one missed scrape"
	flapping    kind = "flapping value"
	paused      kind = "paused consumer"
	watchOnly   kind = "watch-only queue"
	goesOver    kind = "over the brink"
)

func kinds() []kind {
	return []kind{noTraffic, absent, restart, twoReplicas, missed, flapping, paused, watchOnly}
}

// A brink is how close to firing of an alert a fleet can be.
type brink struct {
	alert, window string
	// A level stands for what the alert is about: at near it never fires, at over it does once that has lasted.
	near, over float64
	// pulse is for what either is or is not: near is then over, for as many minutes, which are as many as can be
	// without firing.
	pulse int
	// every is in how many minutes a flapping value is over once. Default 4.
	every int
	// even are the kinds in which the level is over all the time, and the alert must be silent all the same.
	even []kind
	// minutes is how long it is played, and when it must have fired.
	minutes int
	// after is how much later than others the fleet comes to the brink.
	after int
	// excused are the kinds that are not played, and why.
	excused map[kind]string
	// play gives the fleet its series.
	play func(f *brinkFleet, x func(minute int) float64)
}

func (b brink) key() string {
	if b.window == "" {
		return b.alert
	}
	return b.alert + " " + b.window
}

// When what a kind is about happens.
const (
	brinkBegin  = 20 // the level begins to be over, where it does
	brinkChange = 40
	brinkHours  = 7*24 + 60 // of the one that is played by the hour
)

// level is the level by the minute.
func (b brink) level(k kind) func(int) float64 {
	over := k == goesOver || slices.Contains(b.even, k)
	return func(m int) float64 {
		since := m - brinkChange - b.after
		if k == goesOver || k == flapping {
			since = m - brinkBegin - b.after
		}
		switch {
		case over && since >= 0:
			return b.over
		case k == flapping && since >= 0 && b.pulse > 0 && since%(b.pulse+2) < b.pulse:
			return b.over
		case k == flapping && b.pulse == 0 && m%b.every == b.every-1:
			return b.over
		case k == flapping && b.pulse == 0:
			return b.near / 2
		case b.pulse > 0 && !over && since >= 0 && since < b.pulse:
			return b.over
		}
		return b.near
	}
}

// brinkFleet is a fleet of one queue in a cluster of its own, to which one kind of thing happens.
type brinkFleet struct {
	s       *scenario.Scenario
	kind    kind
	cluster string

	watched, consumed, foreign, processed bool
}

// there says whether a minute was scraped.
func (f *brinkFleet) there(m int) bool {
	return !(f.kind == absent && m >= brinkChange) && !(f.kind == missed && m == brinkChange+2)
}

// instances are as many as there are replicas.
func (f *brinkFleet) instances(name string) []string {
	if f.kind == twoReplicas {
		return []string{name + "-0:9780", name + "-1:9780"}
	}
	return []string{name + ":9780"}
}

func (f *brinkFleet) id(name string) scenario.ID {
	q := orders("1")
	q.Cluster, q.Queue = f.cluster, name
	if !f.foreign && f.kind != watchOnly {
		q.Mode = "consume"
	}
	return q
}

// watch gives the queue the series of the watcher.
func (f *brinkFleet) watch(settings scenario.Settings, v func(int) view) {
	f.watched = true
	settings.MonitorOnly = f.kind == watchOnly
	f.beside("orders", settings, func(m int) view {
		v := v(m)
		since := float64(m - brinkChange)
		switch {
		case f.kind == noTraffic && since >= 0:
			v.Count, v.Visible, v.Age, v.Head, v.Attempts, v.Loss, v.Status = 0, 0, 0, 0, 0, 0, ""
		case f.kind == paused && since >= 0:
			v.Count += 10 * since
			v.Visible, v.Age, v.Head, v.Status = 32, 60*since, 60*since, "paused"
		}
		return v
	})
}

// beside is watch for another queue of the account, to which nothing happens but what happens to the watcher.
func (f *brinkFleet) beside(name string, settings scenario.Settings, v func(int) view) {
	for _, instance := range f.instances("watcher") {
		q := f.id(name)
		q.Instance = instance
		f.s.Watch(q, settings, func(m int) view {
			v := v(m)
			v.Gone = v.Gone || !f.there(m)
			return v
		})
	}
}

// unknown says that consumers of the queue are not qwatch's. Where it is about a consumer there is one all the same.
func (f *brinkFleet) unknown() {
	f.foreign = f.kind != paused && f.kind != restart
}

// work gives the queue the series of its consumer; two replicas share the work.
func (f *brinkFleet) work(w func(int) work) {
	f.consumed = true
	if f.foreign || f.kind == watchOnly {
		return
	}
	instances := f.instances("consumer")
	for _, instance := range instances {
		f.s.Consume(f.id("orders"), instance, false, func(m int) work {
			w := w(m)
			switch since := m - brinkChange; {
			case f.kind == noTraffic && since >= 0:
				w = idling(m)
			case f.kind == paused && since >= 0:
				w = work{Paused: true}
			case f.kind == restart && (since == 0 || since == 1):
				w.Gone = true
			case f.kind == restart && since == 2:
				w.Restart = true
			}
			w.Gone = w.Gone || f.kind == absent && !f.there(m)
			w.Unseen = !f.there(m)
			if f.kind == twoReplicas {
				w = half(w)
			}
			return w
		})
		f.s.Set("process_start_time_seconds", []string{"cluster", f.cluster, "instance", instance, "job", "qwatch"}, func(m int) float64 {
			if !f.there(m) || f.kind == restart && (m == brinkChange || m == brinkChange+1) {
				return scenario.Absent()
			}
			if f.kind == restart && m > brinkChange {
				return 60 * (brinkChange + 2)
			}
			return 0
		})
	}
}

// half is half of the work.
func half(w work) work {
	for _, n := range []*float64{
		&w.Received, &w.Redelivered, &w.Started, &w.Late, &w.Processed, &w.Failed, &w.Retried, &w.DeadLettered, &w.Unreadable,
		&w.Released, &w.Empty, &w.Errors, &w.RenewalsLost, &w.Conflicts, &w.CopyFailed, &w.Waits,
	} {
		*n /= 2
	}
	return w
}

// tell gives each replica of the watcher a gauge.
func (f *brinkFleet) tell(name string, labels []string, value func(m, replica int) float64) {
	for replica, instance := range f.instances("watcher") {
		f.s.Set(name, append([]string{"cluster", f.cluster, "instance", instance, "job", "qwatch"}, labels...), func(m int) float64 {
			if !f.there(m) {
				return scenario.Absent()
			}
			return value(m, replica)
		})
	}
}

// count gives the replicas of the watcher a counter, which they share; rate is by the minute.
func (f *brinkFleet) count(name string, labels []string, rate func(int) float64) {
	for _, instance := range f.instances("watcher") {
		total := 0.0
		f.s.Set(name, append([]string{"cluster", f.cluster, "instance", instance, "job", "qwatch"}, labels...), func(m int) float64 {
			total += rate(m) / float64(len(f.instances("")))
			if !f.there(m) {
				return scenario.Absent()
			}
			return total
		})
	}
}

// process gives the replicas of the watcher their existence.
func (f *brinkFleet) process(gone func(int) bool) {
	f.processed = true
	for _, instance := range f.instances("watcher") {
		f.s.Process(f.cluster, instance, func(m int) bool { return f.there(m) && !gone(m) })
	}
}

// stand plays a kind at a brink, in a cluster of its own, and asks at the end whether the alert has ever fired. Of the
// fleet's series those stay that the alert reads.
func (b brink) stand(s *scenario.Scenario, k kind, reads map[string]bool) {
	f := &brinkFleet{s: scenario.New("", s.Minutes), kind: k, cluster: string(k) + ": " + b.key()}
	b.play(f, b.level(k))
	if !f.watched {
		f.watch(scenario.Settings{}, fine)
	}
	if !f.consumed {
		f.work(working)
	}
	if !f.processed {
		f.process(func(int) bool { return false })
	}
	s.Take(f.s, func(name string) bool { return reads[name] })
	end := strconv.Itoa(s.Minutes) + "m"
	if s.Step != "" {
		end = strconv.Itoa(s.Minutes) + s.Step[1:]
	}
	q := scenario.Query{
		Expr: fmt.Sprintf(`group(count_over_time(ALERTS{alertstate="firing",alertname=%q,window=%q,cluster=%q}[%s]))`, b.alert, b.window, f.cluster, end),
		At:   end,
	}
	if k == goesOver {
		q.Samples = []scenario.Sample{{Labels: "{}", Value: 1}}
	}
	s.Queries = append(s.Queries, q)
}

var promName = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

// readsOf are the names that each alert's expression, and those of what it reads that is recorded, have in them: more
// than the metrics it reads, and all of them.
func readsOf(rules alerts.Rules) map[string]map[string]bool {
	recorded := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded[r.Record] = r.Expr
			}
		}
	}
	all := map[string]map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			names := map[string]bool{}
			var look func(expr string)
			look = func(expr string) {
				for _, name := range promName.FindAllString(expr, -1) {
					if !names[name] {
						names[name] = true
						look(recorded[name])
					}
				}
			}
			look(r.Expr)
			all[brink{alert: r.Alert, window: r.Window}.key()] = names
		}
	}
	return all
}

// onTheBrink has the scenarios of every length, but for those by the hour, and what is played in all of them.
func onTheBrink(rules alerts.Rules) (all []*scenario.Scenario, hourly *scenario.Scenario, played map[string][]kind) {
	played = map[string][]kind{}
	reads := readsOf(rules)
	for _, minutes := range []int{75, 110, 240, brinkHours} {
		var s *scenario.Scenario
		for _, k := range append(kinds(), goesOver) {
			if s == nil || minutes == 75 { // the long ones are few
				s = scenario.New(fmt.Sprintf("on the brink: %s, %d minutes", k, minutes), minutes)
				if minutes != 75 {
					s.Name = fmt.Sprintf("on the brink: everything, %d minutes", minutes)
				}
				if all = append(all, s); minutes == brinkHours {
					s.Name, s.Step = "on the brink: everything, by the hour", "1h"
				}
			}
			for _, b := range brinks() {
				if b.minutes == minutes && b.excused[k] == "" {
					b.stand(s, k, reads[b.key()])
					played[b.key()] = append(played[b.key()], k)
				}
			}
		}
	}
	return all[:len(all)-1], all[len(all)-1], played
}

// TestEveryAlertIsSilentOnTheBrink holds the brinks and the alerts together: every alert is played in every kind of
// thing that may happen, or it is said why not; and each fires once it goes over.
func TestEveryAlertIsSilentOnTheBrink(t *testing.T) {
	t.Parallel()
	excused := map[string]map[kind]string{}
	for _, b := range brinks() {
		if excused[b.key()] != nil {
			t.Errorf("%s is there twice", b.key())
		}
		if excused[b.key()] = b.excused; b.excused == nil {
			excused[b.key()] = map[kind]string{}
		}
	}
	rules := generate(t, alerts.Config{})
	_, _, played := onTheBrink(rules)
	pairs, excuses := 0, 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			key := brink{alert: r.Alert, window: r.Window}.key()
			for _, k := range append(kinds(), goesOver) {
				pairs++
				why := excused[key][k]
				if why != "" {
					excuses++
				}
				if was := slices.Contains(played[key], k); was == (why != "") {
					t.Errorf("%s, %s: played %t, excused %q", key, k, was, why)
				}
			}
			delete(excused, key)
		}
	}
	for key := range excused {
		t.Errorf("%s is no alert", key)
	}
	t.Logf("%d pairs, of which %d are excused", pairs, excuses)
}

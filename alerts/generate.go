package alerts

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// group, record and alert are the catalogue's form of the rules: expressions are written with
// the short forms that expand explains.
type group struct {
	name    string
	records []record
	alerts  []alert
}

type record struct {
	name string
	expr string
	hold bool // see Rule.Hold; expr is about queues, by $q
}

type alert struct {
	name   string
	class  Class
	scope  Scope
	window string
	expr   string
	wait   string // "for"
	keep   string // "keep_firing_for"

	summary     string
	description string
}

type generator struct{ cfg Config }

func (g generator) interval() time.Duration { return g.cfg.scaledInterval() }

func (c Config) scaledInterval() time.Duration { return scale(c.Interval, c.Scale) }

func (g generator) record(r record) Rule {
	expr := g.expand(r.expr)
	if !r.hold {
		return Rule{Record: r.name, Expr: expr}
	}
	held := g.expand(heldQueues)
	return Rule{
		Record: r.name, Hold: true, Condition: expr, Held: held,
		Expr: g.expand("(\n" + indent(strings.TrimSpace(r.expr)) + "\n)\n" +
			"unless on ($q) max by ($q) (queue_up{queue_kind=\"main\"}) == 0\n" +
			"or on ($q) (\n  last_over_time(" + r.name + "[15m])\n  and on ($q) (\n" + indent(indent(strings.TrimSpace(heldQueues))) + "\n  )\n)"),
	}
}

// heldQueues are the queues that cannot be seen: the last poll failed, nobody polls them, or whoever does
// has only just begun. After an hour without any word of it, a queue is gone.
const heldQueues = `
group by ($q) (last_over_time(queue_up{queue_kind="main"}[1h]))
unless on ($q) max by ($q) (last_over_time(queue_exists{queue_kind="main"}[1h])) == 0
unless on ($q) (
  max by ($q) (queue_up{queue_kind="main"}) == 1
  unless on ($q) max by ($q) (queue_status{status="unknown"}) == 1
)
`

func (g generator) alert(a alert) Rule {
	rule := Rule{
		Alert: a.name, Class: a.class, Scope: a.scope, Window: a.window,
		For: g.duration(a.wait), KeepFiringFor: g.duration(a.keep),
		Expr:   g.owned(a),
		Labels: map[string]string{"severity": severityLabel(a.class, a.scope)},
		Annotations: map[string]string{
			"summary": a.summary, "description": a.description,
			"runbook_url": g.cfg.Runbooks + "/" + a.name + ".md",
		},
	}
	maps.Copy(rule.Labels, g.cfg.Labels)
	if a.window != "" {
		rule.Labels["window"] = a.window
	}
	if g.cfg.Grafana != "" {
		rule.Annotations["dashboard_url"] = g.cfg.Grafana + dashboardOf(a)
	}
	return rule
}

// owned brings tier and team to what the alert is about.
func (g generator) owned(a alert) string {
	expr := strings.TrimSpace(a.expr)
	switch a.scope {
	case Queue:
		expr = "(\n" + indent(expr) + "\n)\n* on ($q) group_left (tier, team) account_queue:queue_owner:info"
	case Account:
		expr = "(\n" + indent(expr) + "\n)\n* on ($a) group_left (tier) account:queue_owner:info"
	}
	return g.expand(expr)
}

func dashboardOf(a alert) string {
	switch a.scope {
	case Queue:
		return "/d/qwatch-queue?var-account={{ $labels.account | urlquery }}&var-queue_name={{ $labels.queue_name | urlquery }}"
	case Account:
		return "/d/qwatch-fleet?var-account={{ $labels.account | urlquery }}"
	default:
		return "/d/qwatch-self"
	}
}

var (
	windows    = regexp.MustCompile(`(\[|offset |\d[smhdw]:)(poll )?(\d+[smhdw])`)
	thresholds = regexp.MustCompile(`<(\d+[smhdw])>`)
	polls      = regexp.MustCompile(`<share of two polls in (\d+[smhdw])>`)
	evaluated  = regexp.MustCompile(`<evaluations in (\d+[smhdw])>`)
)

// expand writes the short forms out: $q is by whom a queue is told from others, $a an account;
// [7m] and "offset 1h" are durations to be scaled; [poll 7m] is at least three polls; <240s> is a
// threshold in seconds, to be scaled; <evaluations in 7m> is how many there surely are, two lost ones left out;
// <share of two polls in 7m> is more of [poll 7m] than one poll tells about, and less than two do.
func (g generator) expand(expr string) string {
	expr = strings.TrimSpace(expr)
	expr = strings.NewReplacer("$q", "cluster, account, queue_name", "$a", "cluster, account", "$budget", number(g.cfg.MonthlyBudget)).Replace(expr)
	expr = evaluated.ReplaceAllStringFunc(expr, func(s string) string {
		window := max(mustParse(evaluated.FindStringSubmatch(s)[1]), 3*g.cfg.PollInterval)
		return strconv.Itoa(max(1, int(window/g.cfg.Interval)-2))
	})
	expr = polls.ReplaceAllStringFunc(expr, func(s string) string {
		poll := max(g.cfg.PollInterval, time.Minute)
		window := max(mustParse(polls.FindStringSubmatch(s)[1]), 3*g.cfg.PollInterval)
		return number(math.Round(1500*float64(poll)/float64(window)) / 1000)
	})
	expr = thresholds.ReplaceAllStringFunc(expr, func(s string) string {
		return number(scale(mustParse(thresholds.FindStringSubmatch(s)[1]), g.cfg.Scale).Seconds())
	})
	return windows.ReplaceAllStringFunc(expr, func(s string) string {
		m := windows.FindStringSubmatch(s)
		d := mustParse(m[3])
		if m[2] != "" {
			d = max(d, 3*g.cfg.PollInterval)
		}
		return m[1] + promDuration(scale(d, g.cfg.Scale))
	})
}

func (g generator) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	return scale(mustParse(s), g.cfg.Scale)
}

// scale multiplies a duration, to whole milliseconds and one at least.
func scale(d time.Duration, by float64) time.Duration {
	if by == 1 || d == 0 {
		return d
	}
	return max(time.Millisecond, time.Duration(math.Round(float64(d)*by/float64(time.Millisecond)))*time.Millisecond)
}

func mustParse(s string) time.Duration {
	d, err := model.ParseDuration(s)
	if err != nil {
		panic(fmt.Sprintf("alerts: %v", err)) // a mistake in the catalogue
	}
	return time.Duration(d)
}

// promDuration is a duration as Prometheus spells it.
func promDuration(d time.Duration) string { return model.Duration(d).String() }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

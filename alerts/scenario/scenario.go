// Package scenario makes the series that a fleet of queues would have had, minute by minute, for tests of
// the rules: it knows which series the watcher and the consumers export, and when they are absent.
package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Absent is the value of a series in a minute without a sample.
func Absent() float64 { return math.NaN() }

// Scenario is a story: series over time, and the alerts that must and must not be heard.
type Scenario struct {
	Name    string
	Minutes int    // from 0 to Minutes
	Step    string // what a minute stands for, where it is not "1m"
	Expect  []Expectation
	Queries []Query // asked as they are, after what is expected

	series map[string][]float64
}

// New returns a scenario of some minutes.
func New(name string, minutes int) *Scenario {
	return &Scenario{Name: name, Minutes: minutes, series: map[string][]float64{}}
}

// Expectation is what fires at a minute: these alerts, and of those matching Of no other. An alert is written
// "Name severity account/queue", with the window or the cluster after it where there is one.
type Expectation struct {
	Minute int
	Of     string // a regular expression of alert names; "" for all
	Firing []string
}

// Fires expects exactly these alerts at a minute.
func (s *Scenario) Fires(minute int, alerts ...string) {
	s.Expect = append(s.Expect, Expectation{Minute: minute, Firing: alerts})
}

// Silent expects no alert at these minutes.
func (s *Scenario) Silent(minutes ...int) {
	for _, m := range minutes {
		s.Fires(m)
	}
}

// Only expects exactly these alerts at a minute, of those whose names match.
func (s *Scenario) Only(minute int, of string, alerts ...string) {
	s.Expect = append(s.Expect, Expectation{Minute: minute, Of: of, Firing: alerts})
}

// Set gives a series its values, by the minute. Labels are in pairs.
func (s *Scenario) Set(name string, labels []string, value func(minute int) float64) {
	key := series(name, labels)
	if _, twice := s.series[key]; twice {
		panic("scenario: " + key + " is set twice")
	}
	values := make([]float64, s.Minutes+1)
	for m := range values {
		values[m] = value(m)
	}
	s.series[key] = values
}

// Take adds those series of another scenario, of the same length, whose names are to be kept.
func (s *Scenario) Take(from *Scenario, keep func(name string) bool) {
	for key, values := range from.series {
		if name, _, _ := strings.Cut(key, "{"); !keep(name) {
			continue
		}
		if _, twice := s.series[key]; twice {
			panic("scenario: " + key + " is set twice")
		}
		s.series[key] = values
	}
}

// series is a series as PromQL writes it.
func series(name string, labels []string) string {
	pairs := make([]string, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		if labels[i+1] != "" {
			pairs = append(pairs, labels[i]+"="+strconv.Quote(labels[i+1]))
		}
	}
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// Each hands out the series with their values by the minute, in order.
func (s *Scenario) Each(yield func(series string, values []float64)) {
	for _, key := range slices.Sorted(maps.Keys(s.series)) {
		yield(key, s.series[key])
	}
}

// notation writes values as promtool reads them: what disappears is marked as stale, as Prometheus does.
func notation(values []float64) string {
	var out []string
	for i := 0; i < len(values); {
		n := 1
		for i+n < len(values) && same(values[i], values[i+n]) {
			n++
		}
		text := number(values[i])
		if math.IsNaN(values[i]) {
			text = "_"
			if i > 0 {
				out = append(out, "stale")
				i, n = i+1, n-1
				if n == 0 {
					continue
				}
			}
			out = append(out, text+"x"+strconv.Itoa(n))
			i += n
			continue
		}
		if n > 1 {
			text += "x" + strconv.Itoa(n-1)
		}
		out = append(out, text)
		i += n
	}
	return strings.Join(out, " ")
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Promtool returns the scenario as a test of `promtool test rules`.
func (s *Scenario) Promtool() Test {
	t := Test{Name: s.Name, Interval: "1m"}
	if s.Step != "" {
		t.Interval = s.Step
	}
	s.Each(func(key string, values []float64) {
		t.Input = append(t.Input, Input{Series: key, Values: notation(values)})
	})
	for _, e := range s.Expect {
		matcher := ""
		if e.Of != "" {
			matcher = fmt.Sprintf(",alertname=~%q", e.Of)
		}
		q := Query{
			Expr: `count by (alertname, severity, cluster, account, queue_name, window) (ALERTS{alertstate="firing"` + matcher + `})`,
			At:   strconv.Itoa(e.Minute) + t.Interval[1:],
		}
		for _, a := range e.Firing {
			q.Samples = append(q.Samples, Sample{Labels: alertLabels(a), Value: 1})
		}
		t.Queries = append(t.Queries, q)
	}
	t.Queries = append(t.Queries, s.Queries...)
	return t
}

// alertLabels reads an alert of an Expectation.
func alertLabels(a string) string {
	words := strings.Fields(a)
	labels := []string{"alertname", words[0], "severity", words[1]}
	for _, w := range words[2:] {
		switch name, value, ok := strings.Cut(w, "="); {
		case ok:
			labels = append(labels, name, value)
		default:
			account, queue, _ := strings.Cut(w, "/")
			labels = append(labels, "account", account, "queue_name", queue)
		}
	}
	return series("", labels)
}

// File is a file of `promtool test rules`.
type File struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	GroupEvalOrder     []string `yaml:"group_eval_order"`
	Tests              []Test   `yaml:"tests"`
}

// Test is a test of such a file.
type Test struct {
	Name     string  `yaml:"name"`
	Interval string  `yaml:"interval"`
	Input    []Input `yaml:"input_series"`
	Queries  []Query `yaml:"promql_expr_test"`
}

// Input is a series of a test.
type Input struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// Query is an expression of a test, and what it must return.
type Query struct {
	Expr    string   `yaml:"expr"`
	At      string   `yaml:"eval_time"`
	Samples []Sample `yaml:"exp_samples"`
}

// Sample is an element of a result.
type Sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// Package backtest evaluates alert rules over what a Prometheus has recorded, and tells when each would have
// fired, and about whom.
//
// The rules need not have been loaded there: what they record is written out in the queries. "for",
// "keep firing for" and the holding of what pages are applied here, step by step.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/internal/metric"
)

// Options say what to ask, and of whom.
type Options struct {
	// URL of the Prometheus, or of what speaks its query API. Required.
	URL string
	// Token returns the bearer token of a request. Nil: none is sent.
	Token func() (string, error)
	// Since is how long ago the past begins. Required.
	Since time.Duration
	// Until is the end of the past. Default: now.
	Until time.Time
	// Step between two evaluations. Default: the rules' interval up to a day, then 5m.
	Step time.Duration
	// Timeout of one query. Default 2m.
	Timeout time.Duration
	// Recorded says that the Prometheus has the recording rules, so that their series are asked for, which
	// costs it less. Default false.
	Recorded bool
	// Progress, when set, is told after each rule how many are done.
	Progress func(done, all int)
}

// OptionsError is what is wrong with Options.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return "backtest: " + e.Err.Error() }

// Unwrap returns the faults.
func (e *OptionsError) Unwrap() error { return e.Err }

// MaxSteps is how many evaluations a backtest makes of each rule at most.
const MaxSteps = 50_000

func (o Options) withDefaults(interval time.Duration) Options {
	if o.Until.IsZero() {
		o.Until = time.Now()
	}
	if o.Step == 0 {
		o.Step = interval
		if o.Since > 24*time.Hour {
			o.Step = max(o.Step, 5*time.Minute)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(o.Since <= 0, "the past must begin before now, not %v ago", o.Since)
	add(o.Step < time.Second, "the step %v is shorter than 1s", o.Step)
	add(o.Step > 0 && o.Since/max(o.Step, 1) > MaxSteps, "%v in steps of %v are more than %d evaluations; take a longer step", o.Since, o.Step, MaxSteps)
	return errors.Join(errs...)
}

// Firing is one time that an alert would have fired.
type Firing struct {
	Alert    string            `json:"alert"`
	Window   string            `json:"window,omitempty"`
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels"`
	Start    time.Time         `json:"start"`
	End      time.Time         `json:"end,omitzero"` // zero: it was still firing at the end
	Seconds  float64           `json:"seconds"`      // as far as it was seen
}

// About says about whom the alert is: a queue, an account, an instance.
func (f Firing) About() string {
	var parts []string
	for _, name := range []string{"cluster", "account", "queue_name", "instance", "check"} {
		if v := f.Labels[name]; v != "" {
			parts = append(parts, v)
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "/")
}

// Report is what a backtest found.
type Report struct {
	// Begin and End are the past that was evaluated: it begins when there were first metrics of qwatch.
	Begin, End time.Time
	Firings    []Firing // by start, alert and labels
}

// ErrNoMetrics says that the Prometheus has no metrics of qwatch in that time.
var ErrNoMetrics = errors.New("there are no metrics of qwatch in that time")

// Run evaluates the rules. What is wrong with the Options is an *OptionsError; ErrNoMetrics may be in the error's tree.
func Run(ctx context.Context, rules alerts.Rules, o Options) (Report, error) {
	var interval time.Duration
	for _, g := range rules.Groups {
		interval = max(interval, g.Interval)
	}
	o = o.withDefaults(interval)
	if err := o.validate(); err != nil {
		return Report{}, &OptionsError{err}
	}
	c, err := newClient(o)
	if err != nil {
		return Report{}, &OptionsError{err}
	}
	if !o.Recorded {
		if rules, err = rules.Standalone(); err != nil {
			return Report{}, fmt.Errorf("backtest: %w", err)
		}
	}
	var todo []alerts.Rule
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				todo = append(todo, r)
			}
		}
	}
	begin, end, err := watched(ctx, c, o)
	if err != nil {
		return Report{}, fmt.Errorf("backtest: %w", err)
	}
	var all []Firing
	for i, r := range todo {
		found, err := evaluate(ctx, c, r, begin, end, o.Step)
		if err != nil {
			return Report{}, fmt.Errorf("backtest: evaluate %s: %w", r.Alert, err)
		}
		all = append(all, found...)
		if o.Progress != nil {
			o.Progress(i+1, len(todo))
		}
	}
	slices.SortFunc(all, func(a, b Firing) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Alert, b.Alert), cmp.Compare(a.Window, b.Window), cmp.Compare(a.About(), b.About()))
	})
	return Report{Begin: begin, End: end, Firings: all}, nil
}

// chunkSteps is how many steps one query asks for.
const chunkSteps = 360

// chunks calls do with pieces of the past, oldest first, until it returns false.
func chunks(begin, end time.Time, step time.Duration, do func(from, to time.Time) (bool, error)) error {
	for from := begin; !from.After(end); from = from.Add(chunkSteps * step) {
		to := from.Add((chunkSteps - 1) * step)
		if to.After(end) {
			to = end
		}
		if more, err := do(from, to); err != nil || !more {
			return err
		}
	}
	return nil
}

// watched returns the part of the past from when there were metrics of qwatch. Before, it would only be missed.
func watched(ctx context.Context, c *client, o Options) (begin, end time.Time, err error) {
	end = o.Until.Truncate(time.Second)
	err = chunks(end.Add(-o.Since), end, o.Step, func(from, to time.Time) (bool, error) {
		seen, err := c.queryRange(ctx, "group("+metric.QwatchBuildInfo+")", from, to, o.Step)
		if err != nil || len(seen) == 0 {
			return true, err
		}
		for begin = from; len(present(seen, begin)) == 0 && begin.Before(to); {
			begin = begin.Add(o.Step)
		}
		return false, nil
	})
	if err == nil && begin.IsZero() {
		err = ErrNoMetrics
	}
	return begin, end, err
}

// evaluate finds the firings of one rule.
func evaluate(ctx context.Context, c *client, r alerts.Rule, begin, end time.Time, step time.Duration) ([]Firing, error) {
	t := newTracker(r)
	err := chunks(begin, end, step, func(from, to time.Time) (bool, error) {
		seen, err := c.queryRange(ctx, r.Expr, from, to, step)
		if err != nil {
			return false, err
		}
		var held []matrix
		if r.Hold && (len(seen) > 0 || t.busy()) {
			if held, err = c.queryRange(ctx, r.Held, from, to, step); err != nil {
				return false, err
			}
		}
		for at := from; !at.After(to); at = at.Add(step) {
			t.step(at, present(seen, at), present(held, at))
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return t.finish(end), nil
}

// present returns the series that have a value at a time, by their labels.
func present(all []matrix, at time.Time) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, m := range all {
		if m.has(at) {
			out[key(m.labels)] = m.labels
		}
	}
	return out
}

// key is a set of labels as a string.
func key(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(name + "=" + strconv.Quote(labels[name]) + ",")
	}
	return b.String()
}

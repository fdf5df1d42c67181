package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/alerts/backtest"
)

// backtestFlags are what `alerts backtest` is told.
type backtestFlags struct {
	prometheus, tokenFile, until string
	since, step, timeout         duration
	recorded                     bool
	monthlyBudget                float64
}

func (c *cli) alertsBacktestCommand() *cobra.Command {
	f := backtestFlags{since: duration(24 * time.Hour), timeout: duration(2 * time.Minute)}
	cmd := &cobra.Command{
		Use:   "backtest --prometheus URL",
		Short: "Tell when the alerts would have fired",
		Long: `Evaluate the alert rules over what a Prometheus has recorded, and tell how often each would
have fired, about whom and for how long.

Nothing need be loaded there: what the rules record is written out in the queries, which
costs the Prometheus more than the rules would. With --recorded the series of recording
rules that it has are used instead. Up to a day is evaluated minute by minute, more in
steps of five minutes; --step changes that.`,
		Example: `  qwatch alerts backtest -c qwatch.yaml --prometheus http://prometheus:9090 --since 7d
  qwatch alerts backtest -c qwatch.yaml --prometheus https://prometheus.example.com --bearer-token-file token -o json`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.alertsBacktest(cmd.Context(), f) },
	}
	c.configFlag(cmd)
	c.outputFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.prometheus, "prometheus", "", "`URL` of the Prometheus")
	flags.StringVar(&f.tokenFile, "bearer-token-file", "", "`file` with the token that is sent; read again for every request (default none)")
	flags.Var(&f.since, "since", "how long ago the past begins")
	flags.StringVar(&f.until, "until", "", "the end of the past, as `RFC3339` (default now)")
	flags.Var(&f.step, "step", "`duration` between two evaluations (default: 1m, or 5m for more than a day)")
	flags.Var(&f.timeout, "timeout", "how long to wait for one answer")
	flags.BoolVar(&f.recorded, "recorded", false, "use the series of recording rules that the Prometheus has")
	flags.Float64Var(&f.monthlyBudget, "monthly-budget", 0, "`amount`, as for alerts generate (default: only a cost that doubles is told)")
	return cmd
}

// backtestRow is one alert about one thing, as the table shows it.
type backtestRow struct {
	alert, severity, about string
	times                  int
	total, longest         time.Duration
	last                   backtest.Firing
}

func (c *cli) alertsBacktest(ctx context.Context, f backtestFlags) error {
	switch {
	case f.prometheus == "":
		return usagef("--prometheus is missing: the URL of the Prometheus to ask")
	case f.timeout <= 0:
		return usagef("--timeout %v must be above zero", time.Duration(f.timeout))
	}
	o := backtest.Options{
		URL: f.prometheus, Since: time.Duration(f.since), Step: time.Duration(f.step), Timeout: time.Duration(f.timeout), Recorded: f.recorded,
	}
	if f.until != "" {
		at, err := time.Parse(time.RFC3339, f.until)
		if err != nil {
			return usagef("--until %q is not a time like 2026-01-31T15:04:05Z", f.until)
		}
		o.Until = at
	}
	if f.tokenFile != "" {
		o.Token = func() (string, error) {
			text, err := os.ReadFile(f.tokenFile)
			if err != nil {
				return "", fmt.Errorf("read the token: %w", err)
			}
			token := strings.TrimSpace(string(text))
			if token == "" || strings.ContainsAny(token, " \r\n\t") {
				return "", fmt.Errorf("read the token: %s does not hold one token", f.tokenFile)
			}
			return token, nil
		}
	}
	if c.stderrTerminal {
		o.Progress = func(done, all int) {
			fmt.Fprintf(c.stderr, "\r%d of %d rules evaluated", done, all)
			if done == all {
				fmt.Fprintln(c.stderr)
			}
		}
	}
	cfg, _, err := c.loadConfig()
	if err != nil {
		return err
	}
	rules, err := alerts.Generate(alerts.Config{PollInterval: cfg.Watch.Interval, MonthlyBudget: f.monthlyBudget})
	if err != nil {
		return usageError{err}
	}
	report, err := backtest.Run(ctx, rules, o)
	if bad := (*backtest.OptionsError)(nil); errors.As(err, &bad) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := printList(c, report.Firings, backtestTable); err != nil {
		return err
	}
	past := report.End.Sub(report.Begin)
	if past < time.Duration(f.since) {
		fmt.Fprintf(c.stderr, "qwatch: the metrics of qwatch begin at %s\n", report.Begin.UTC().Format(time.RFC3339))
	}
	if c.output == formatTable {
		fired := map[string]bool{}
		for _, one := range report.Firings {
			fired[one.Alert] = true
		}
		fmt.Fprintf(c.stderr, "qwatch: %d of %d alerts would not have fired within %v\n", len(rules.Alerts())-len(fired), len(rules.Alerts()), past)
	}
	return nil
}

func backtestTable(firings []backtest.Firing) *table {
	t := newTable("no alert would have fired", "ALERT", "SEVERITY", "ABOUT", ">TIMES", ">TOTAL", ">LONGEST", "LAST")
	rows := map[string]*backtestRow{}
	for _, f := range firings {
		name := f.Alert
		if f.Window != "" {
			name += " (" + f.Window + ")"
		}
		k := name + "\x00" + f.Severity + "\x00" + f.About()
		r := rows[k]
		if r == nil {
			r = &backtestRow{alert: name, severity: f.Severity, about: f.About()}
			rows[k] = r
		}
		d := time.Duration(f.Seconds * float64(time.Second))
		r.times++
		r.total += d
		r.longest = max(r.longest, d)
		r.last = f
	}
	sorted := make([]*backtestRow, 0, len(rows))
	for _, r := range rows {
		sorted = append(sorted, r)
	}
	rank := map[string]int{alerts.Critical: 0, alerts.Warning: 1, alerts.Info: 2}
	slices.SortFunc(sorted, func(a, b *backtestRow) int {
		return cmp.Or(cmp.Compare(rank[a.severity], rank[b.severity]), cmp.Compare(a.alert, b.alert), cmp.Compare(a.about, b.about))
	})
	for _, r := range sorted {
		tones := map[string]tone{alerts.Critical: bad, alerts.Warning: warn}
		last := r.last.Start.UTC().Format("2006-01-02 15:04Z")
		if r.last.End.IsZero() {
			last += ", still firing"
		}
		t.add(r.alert, cell{r.severity, tones[r.severity]}, r.about, r.times, r.total, r.longest, last)
	}
	return t
}

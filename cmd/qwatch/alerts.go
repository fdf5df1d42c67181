package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/internal/config"
)

func (c *cli) alertsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "alerts",
		Short: "Generate alert rules, and try them on the past",
		Long: `Generate alert and recording rules from the configuration, and try them on what a
Prometheus has recorded. docs/alerts.md lists the alerts; each has a runbook.`,
	}, c.alertsGenerateCommand(), c.alertsBacktestCommand())
}

// The formats of rules.
const (
	rulesPrometheus     = "prometheus"
	rulesPrometheusRule = "prometheusrule"
	rulesGrafana        = "grafana"
	rulesAlertmanager   = "alertmanager"
	rulesAzure          = "azure"
)

func rulesFormats() []string {
	return []string{rulesPrometheus, rulesPrometheusRule, rulesGrafana, rulesAlertmanager, rulesAzure}
}

// alertsFlags are what `alerts generate` is told.
type alertsFlags struct {
	out, format            string
	labels, alertLabels    []string
	name, namespace        string
	datasource, folder     string
	runbooks, grafana      string
	interval               time.Duration
	monthlyBudget, scaling float64
}

func (c *cli) alertsGenerateCommand() *cobra.Command {
	var f alertsFlags
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write alert and recording rules",
		Long: `Write alert and recording rules for the fleet of a configuration file.

The rules do not name queues: thresholds and tiers are metrics, so one set serves any
fleet, and a reload moves it. Of the file only watch.interval matters to them.

  prometheus      a rule file, for Prometheus 2.42 or newer
  prometheusrule  an object for the Prometheus operator; with kube-prometheus-stack
                  add --label release=RELEASE, or it is not picked up
  grafana         a provisioning file of Grafana-managed rules; Prometheus must have the
                  recording rules of the prometheus format
  alertmanager    inhibit_rules, to be joined with those of Alertmanager
  azure           an ARM template for Azure Monitor managed Prometheus`,
		Example: `  qwatch alerts generate -c qwatch.yaml -o rules/qwatch.yml
  qwatch alerts generate -c qwatch.yaml --format prometheusrule --label release=monitoring | kubectl apply -f -`,
		Args: none,
		RunE: func(*cobra.Command, []string) error { return c.alertsGenerate(f) },
	}
	c.configFlag(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "output-file", "o", "-", "`file` to write, whose folder is made if need be; - is standard output")
	flags.StringVar(&f.format, "format", rulesPrometheus, "`format`: "+strings.Join(rulesFormats(), ", "))
	flags.StringArrayVar(&f.labels, "label", nil, "`name=value` label of the PrometheusRule object; repeat it for more")
	flags.StringArrayVar(&f.alertLabels, "alert-label", nil, "`name=value` label of every alert; repeat it for more")
	flags.StringVar(&f.name, "name", "qwatch", "`name` of the PrometheusRule object")
	flags.StringVar(&f.namespace, "namespace", "", "`namespace` of the PrometheusRule object (default none)")
	flags.StringVar(&f.datasource, "datasource", "prometheus", "`uid` of the Prometheus data source in Grafana")
	flags.StringVar(&f.folder, "folder", "qwatch", "`folder` of the rules in Grafana")
	flags.StringVar(&f.runbooks, "runbooks", alerts.DefaultRunbooks, "`URL` below which the runbooks are published")
	flags.StringVar(&f.grafana, "grafana", "", "`URL` of the Grafana that alerts link to (default none)")
	flags.DurationVar(&f.interval, "interval", time.Minute, "`duration` between two evaluations")
	flags.Float64Var(&f.monthlyBudget, "monthly-budget", 0, "`amount` that an account's storage requests may cost a month, in the currency of watch.pricePer10kTransactions (default: only a cost that doubles is told)")
	flags.Float64Var(&f.scaling, "scale", 1, "`factor` for every duration, for tests that want to see alerts fire soon")
	err := cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(rulesFormats(), cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // no such flag: a mistake in this file
	}
	return cmd
}

func (c *cli) alertsGenerate(f alertsFlags) error {
	labels, err := pairs("--label", f.labels)
	if err != nil {
		return err
	}
	alertLabels, err := pairs("--alert-label", f.alertLabels)
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(rulesFormats(), f.format):
		return usagef("--format %q is not one of %s", f.format, strings.Join(rulesFormats(), ", "))
	case len(labels) > 0 && f.format != rulesPrometheusRule:
		return usagef("--label is for --format %s; use --alert-label for labels of the alerts themselves", rulesPrometheusRule)
	case f.interval <= 0:
		return usagef("--interval %v must be above zero", f.interval)
	case f.scaling <= 0:
		return usagef("--scale %v must be above zero", f.scaling)
	}
	cfg, _, err := c.loadConfig()
	if err != nil {
		return err
	}
	rules, err := alerts.Generate(alerts.Config{
		PollInterval: cfg.Watch.Interval, Interval: f.interval, Runbooks: f.runbooks, Grafana: f.grafana,
		Labels: alertLabels, MonthlyBudget: f.monthlyBudget, Scale: f.scaling,
	})
	if err != nil {
		return usageError{err}
	}
	var b bytes.Buffer
	switch f.format {
	case rulesPrometheus:
		err = rules.WritePrometheus(&b)
	case rulesPrometheusRule:
		err = rules.WritePrometheusRule(&b, alerts.PrometheusRuleOptions{Name: f.name, Namespace: f.namespace, Labels: labels})
	case rulesGrafana:
		err = rules.WriteGrafana(&b, alerts.GrafanaOptions{Datasource: f.datasource, Folder: f.folder})
	case rulesAlertmanager:
		err = rules.WriteAlertmanager(&b)
	case rulesAzure:
		err = rules.WriteAzure(&b)
	}
	if err != nil {
		return err
	}
	c.adviseOnTiers(cfg)
	return c.save(f.out, b.Bytes())
}

// adviseOnTiers tells that nobody is paged about queues of no tier.
func (c *cli) adviseOnTiers(cfg *config.Config) {
	queues, untiered := 0, 0
	for _, a := range cfg.Accounts {
		for _, q := range a.Queues {
			queues++
			if q.Tier == 0 {
				untiered++
			}
		}
	}
	if queues > 0 && untiered == queues {
		c.warn("no queue has a tier, so no alert about one is critical; set tier: 1 for those that somebody should get up for")
	}
}

// pairs reads name=value.
func pairs(flag string, given []string) (map[string]string, error) {
	out := make(map[string]string, len(given))
	for _, s := range given {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q is not name=value", flag, s)
		}
		if _, twice := out[name]; twice {
			return nil, usagef("%s %s is given twice", flag, name)
		}
		out[name] = value
	}
	return out, nil
}

// save writes to a file, or to standard output when that is "-".
func (c *cli) save(file string, text []byte) error {
	if file == "-" {
		return c.write(text)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	return nil
}

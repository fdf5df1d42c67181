package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/internal/grafana"
)

// The environment that `dashboards push` reads.
const (
	envGrafanaURL   = "GRAFANA_URL"
	envGrafanaToken = "GRAFANA_TOKEN"
)

// dashboardsPush is what `dashboards push` was told.
type dashboardsPush struct {
	content                dashboardFlags
	url, tokenFile, caFile string
	folder, folderUID      string
	rules                  bool
	datasource, publicURL  string
	monthlyBudget          float64
	dryRun                 bool
	timeout                time.Duration
}

func (c *cli) dashboardsPushCommand() *cobra.Command {
	var p dashboardsPush
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Bring the dashboards to a Grafana, and the alert rules with them",
		Long: `Bring the dashboards to a Grafana by its HTTP API, into a folder that is made if need be.

What is right already is left alone, so pushing again changes nothing. What somebody
changed in Grafana is changed back; Grafana keeps the version before. --dry-run asks
and changes nothing.

With --rules the alert rules are pushed too, as Grafana-managed ones. They ask the
recording rules of "qwatch alerts generate", which Prometheus must have. A rule group is
replaced as a whole.

The token is that of a service account with the role Editor, from --token-file or
` + envGrafanaToken + `. It is sent to the URL alone and never shown.`,
		Example: `  GRAFANA_TOKEN=… qwatch dashboards push --url https://grafana.example.org --dry-run
  qwatch dashboards push --url https://grafana.example.org --token-file token --rules -c qwatch.yaml`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.dashboardsPush(cmd.Context(), p) },
	}
	f := cmd.Flags()
	f.StringVar(&p.url, "url", "", "Grafana's `URL` (default $"+envGrafanaURL+")")
	f.StringVar(&p.tokenFile, "token-file", "", "`file` with the token (default: $"+envGrafanaToken+" holds it)")
	f.StringVar(&p.caFile, "ca-file", "", "`file` with the certificates to trust, in PEM (default: the system's)")
	f.StringVar(&p.folder, "folder", dashboards.DefaultFolder, "`title` of the folder when it is made; one that is there keeps its own")
	f.StringVar(&p.folderUID, "folder-uid", dashboards.DefaultFolder, "`uid` of the folder")
	f.BoolVar(&p.rules, "rules", false, "push the alert rules too")
	f.StringVar(&p.datasource, "datasource", "", "`uid` of the Prometheus data source that the rules ask (default: Grafana's default or only one)")
	f.StringVar(&p.publicURL, "public-url", "", "`URL` at which people reach Grafana, for the links of alerts to dashboards (default: that of --url)")
	f.Float64Var(&p.monthlyBudget, "monthly-budget", 0, "`amount` that an account's storage requests may cost a month, for the rules (default: only a cost that doubles is told)")
	f.BoolVar(&p.dryRun, "dry-run", false, "only show what would be done")
	f.DurationVar(&p.timeout, "timeout", 30*time.Second, "how long a request may take")
	if err := errors.Join(cmd.MarkFlagFilename("token-file"), cmd.MarkFlagFilename("ca-file")); err != nil {
		panic(err) // no such flag: a mistake in this file
	}
	p.content.flags(cmd)
	c.configFlag(cmd)
	c.outputFlag(cmd)
	return cmd
}

func (c *cli) dashboardsPush(ctx context.Context, p dashboardsPush) error {
	client, err := c.openGrafana(p)
	if err != nil {
		return err
	}
	defer client.Close()
	plan := grafana.Plan{
		FolderUID: p.folderUID, FolderTitle: p.folder, Datasource: p.datasource, DryRun: p.dryRun,
		Message: "qwatch " + build().Version + ": dashboards push",
	}
	if err := (dashboards.Output{FolderUID: p.folderUID}).Validate(); err != nil {
		return usageError{err}
	}
	if plan.Dashboards, err = c.generateDashboards(p.content); err != nil {
		return err
	}
	if p.rules {
		if plan.Rules, err = c.pushedRules(p); err != nil {
			return err
		}
	}
	changes, failed := client.Push(ctx, plan)
	if err := printList(c, changes, changesTable); err != nil {
		return err
	}
	return failed
}

// openGrafana checks all that was said about Grafana, and makes no request.
func (c *cli) openGrafana(p dashboardsPush) (*grafana.Client, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, usagef(format, args...)) }
	if p.url = cmp.Or(p.url, c.getenv(envGrafanaURL)); p.url == "" {
		fault("say where Grafana is, with --url or %s", envGrafanaURL)
	}
	token := c.getenv(envGrafanaToken)
	if p.tokenFile != "" {
		text, err := os.ReadFile(p.tokenFile)
		if err != nil {
			fault("read the token: %w", err)
		}
		token = string(text)
	}
	if strings.TrimSpace(token) == "" {
		fault("the token is missing: put it in a file and name it with --token-file, or in %s", envGrafanaToken)
	}
	var ca []byte
	if p.caFile != "" {
		var err error
		if ca, err = os.ReadFile(p.caFile); err != nil {
			fault("read the CA: %w", err)
		}
	}
	if p.timeout <= 0 {
		fault("--timeout %v must be above zero", p.timeout)
	}
	if p.folder == "" || p.folder == "-" {
		fault("--folder %q: what is pushed needs a folder of its own; name one", p.folder)
	}
	if !p.rules && (p.datasource != "" || p.publicURL != "" || p.monthlyBudget != 0) {
		fault("--datasource, --public-url and --monthly-budget are for --rules")
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	client, err := grafana.New(grafana.Config{URL: p.url, Token: token, CA: ca, Timeout: p.timeout, Agent: "qwatch/" + build().Version})
	if err != nil {
		return nil, usageError{err}
	}
	if inClear(p.url) {
		c.warn("the token goes to " + p.url + " in clear: use https")
	}
	return client, nil
}

// inClear says that what is sent there can be read on the way.
func inClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

func (c *cli) pushedRules(p dashboardsPush) (*alerts.Rules, error) {
	cfg := alerts.Config{
		Runbooks: p.content.runbooks, MonthlyBudget: p.monthlyBudget,
		Grafana: cmp.Or(p.publicURL, p.url, c.getenv(envGrafanaURL)),
	}
	loaded, err := c.loadOptionalConfig()
	if err != nil {
		return nil, err
	}
	if loaded != nil {
		cfg.PollInterval = loaded.Watch.Interval
	}
	rules, err := alerts.Generate(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return &rules, nil
}

func changesTable(changes []grafana.Change) *table {
	t := newTable("", "WHAT", "UID", "ACTION", "DETAILS")
	for _, change := range changes {
		action := cell{text: string(change.Action)}
		switch {
		case change.Error != "":
			action = cell{action.text + " failed", bad}
		case !change.Done:
			action = cell{"would " + action.text, warn}
		case change.Action == grafana.Unchanged:
			action.tone = faint
		default:
			action = cell{strings.TrimSuffix(action.text, "e") + "ed", good}
		}
		t.add(change.Kind, change.UID, action, briefly(change.Details))
	}
	return t
}

// briefly is a list in one line; -o json has all of it.
func briefly(details []string) string {
	const shown = 3
	if len(details) > shown {
		return strings.Join(details[:shown], ", ") + ", and " + strconv.Itoa(len(details)-shown) + " more"
	}
	return strings.Join(details, ", ")
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/internal/config"
)

func (c *cli) dashboardsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dashboards",
		Short: "Generate Grafana dashboards, or push them",
		Long: `Generate Grafana dashboards, or push them to a Grafana.

There are five: the fleet, one queue, the consumers, the poison queues and qwatch itself.
They read the metrics of qwatch from any Prometheus, whatever the job is called.`,
	}, c.dashboardsGenerateCommand(), c.dashboardsPushCommand())
}

// dashboardFlags are what decides the content of the dashboards.
type dashboardFlags struct {
	page, runbooks string
}

func (f *dashboardFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.page, "page-url", "", "`URL` at which people reach qwatch's own page; every dashboard links to it")
	cmd.Flags().StringVar(&f.runbooks, "runbooks", alerts.DefaultRunbooks, "`URL` below which each alert's page is, as ALERT.md; \"\" links to none")
}

// generate makes the dashboards. The configuration decides too when one is named or there is the usual file.
func (c *cli) generateDashboards(f dashboardFlags) ([]dashboards.Dashboard, error) {
	cfg := dashboards.Config{PageURL: f.page, RunbookURL: f.runbooks}
	loaded, err := c.loadOptionalConfig()
	if err != nil {
		return nil, err
	}
	if loaded != nil {
		cfg.Compact = loaded.Watch.Series == config.SeriesCompact
	}
	all, err := dashboards.Generate(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return all, nil
}

// loadOptionalConfig reads the configuration file; nil when none is named and the usual one is not there.
func (c *cli) loadOptionalConfig() (*config.Config, error) {
	if c.config == "" && c.getenv("QWATCH_CONFIG") == "" {
		if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	cfg, _, err := c.loadConfig()
	return cfg, err
}

// dashboardsGenerate is what `dashboards generate` was told.
type dashboardsGenerate struct {
	content dashboardFlags
	folder  string // to write to
	format  string
	output  dashboards.Output
	labels  []string
}

func (c *cli) dashboardsGenerateCommand() *cobra.Command {
	var g dashboardsGenerate
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write the dashboards to a folder",
		Long: `Write the dashboards to a folder, in one of the shapes that Grafana or its tools take.

  classic       one JSON file a dashboard, to import by hand or by any tool
  resource      dashboard.grafana.app/v2 resources and their folder's, for Grafana 13
  configmap     one ConfigMap a dashboard, for the sidecar of Grafana's Helm chart
  provisioning  a tree to put below /etc/grafana/provisioning

The same configuration gives the same bytes. The configuration is read when -c or
QWATCH_CONFIG names one or qwatch.yaml is there: with watch.series compact, panels are
left out whose series there are not. Each file written is printed.`,
		Example: `  qwatch dashboards generate -o dashboards
  qwatch dashboards generate -o . --format configmap --namespace monitoring --label release=kube-prometheus-stack`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.dashboardsGenerate(cmd, g) },
	}
	f := cmd.Flags()
	f.StringVarP(&g.folder, "output", "o", "", "`folder` to write to; it is made if need be")
	f.StringVar(&g.format, "format", string(dashboards.FormatClassic), "`shape`: "+formatNames())
	f.StringVar(&g.output.Folder, "folder", dashboards.DefaultFolder, "`title` of the folder in Grafana; - puts them at the top")
	f.StringVar(&g.output.FolderUID, "folder-uid", "", "`uid` of the folder in Grafana (default \"qwatch\")")
	f.StringVar(&g.output.Namespace, "namespace", "", "`namespace` of the ConfigMaps (default: that of whoever applies them)")
	f.StringArrayVar(&g.labels, "label", nil, "`key=value` that every ConfigMap gets, besides "+dashboards.DefaultSidecarLabel+"; may be repeated")
	f.StringVar(&g.output.FolderAnnotation, "folder-annotation", dashboards.DefaultFolderAnnotation, "annotation `key` from which the sidecar learns the folder")
	f.StringVar(&g.output.Path, "path", dashboards.DefaultProvisioningPath, "`path` at which Grafana finds the provisioned files")
	err := errors.Join(cmd.MarkFlagDirname("output"), cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(strings.Split(formatNames(), ", "), cobra.ShellCompDirectiveNoFileComp)))
	if err != nil {
		panic(err) // no such flag: a mistake in this file
	}
	g.content.flags(cmd)
	c.configFlag(cmd)
	return cmd
}

func formatNames() string {
	names := []string{}
	for _, f := range dashboards.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// flagsOf tells which formats a flag is for.
func flagsOf() map[string][]dashboards.Format {
	configMap, provisioning := dashboards.FormatConfigMap, dashboards.FormatProvisioning
	return map[string][]dashboards.Format{
		"folder":            {dashboards.FormatResource, configMap, provisioning},
		"folder-uid":        {dashboards.FormatResource, provisioning},
		"namespace":         {configMap},
		"label":             {configMap},
		"folder-annotation": {configMap},
		"path":              {provisioning},
	}
}

func (c *cli) dashboardsGenerate(cmd *cobra.Command, g dashboardsGenerate) error {
	format := dashboards.Format(g.format)
	var faults []error
	if !slices.Contains(dashboards.Formats(), format) {
		faults = append(faults, usagef("--format %q: must be one of %s", g.format, formatNames()))
	} else {
		for name, of := range flagsOf() {
			if cmd.Flags().Changed(name) && !slices.Contains(of, format) {
				faults = append(faults, usagef("--%s does nothing with --format %s", name, format))
			}
		}
		slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	}
	if g.folder == "" {
		faults = append(faults, usagef("name the folder to write to with -o"))
	}
	g.output.Labels = map[string]string{}
	for _, l := range g.labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			faults = append(faults, usagef("--label %q: must be key=value", l))
		}
		g.output.Labels[key] = value
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	all, err := c.generateDashboards(g.content)
	if err != nil {
		return err
	}
	files, err := dashboards.Files(all, format, g.output)
	if err != nil {
		return usageError{err}
	}
	return c.writeFiles(g.folder, files)
}

// writeFiles writes files below a folder and prints their paths. One that is as it should be is left alone.
func (c *cli) writeFiles(folder string, files []dashboards.File) error {
	var printed bytes.Buffer
	for _, f := range files {
		path := filepath.Join(folder, filepath.FromSlash(f.Name))
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, f.Data) {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("make the folder of %s: %w", path, err)
			}
			if err := os.WriteFile(path, f.Data, 0o644); err != nil {
				return fmt.Errorf("write dashboards: %w", err)
			}
		}
		fmt.Fprintln(&printed, clean(path))
	}
	return c.write(printed.Bytes())
}

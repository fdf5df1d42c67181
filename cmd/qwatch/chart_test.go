package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateChart = flag.Bool("update-chart", false, "write the generated files of the Helm chart again")

//go:generate go test . -run TestChartFilesAreCurrent -update-chart

// The chart carries what the generators write: rules and dashboards for a configuration with the default interval.
func TestChartFilesAreCurrent(t *testing.T) {
	t.Parallel()
	const files = "../../deploy/helm/qwatch/files"
	dir := t.TempDir()
	config := filepath.Join(dir, "qwatch.yaml")
	text := "accounts: [{name: any, connectionString: UseDevelopmentStorage=true, queues: [{name: any, tier: 1}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	generate := func(args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		c := &cli{stdin: &bytes.Buffer{}, stdout: io.Discard, stderr: &stderr, getenv: func(string) string { return "" }}
		if status := c.main(context.Background(), args); status != exitDone {
			t.Fatalf("qwatch %q: exit status %d\n%s", args, status, stderr.Bytes())
		}
	}
	generate("alerts", "generate", "-c", config, "-o", filepath.Join(dir, "rules.yaml"))
	generate("dashboards", "generate", "-c", config, "-o", filepath.Join(dir, "dashboards"))
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if *updateChart {
		if err := os.RemoveAll(files); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(files, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	want, got := tree(t, dir), tree(t, files)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart's files are not what the generators write; run go test ./cmd/qwatch -run Chart -update-chart (-generated +chart):\n%.4000s", diff)
	}
	for name, data := range got {
		if len(data) > 200<<10 {
			t.Errorf("%s has %d bytes: an object of the chart must stay under 256 KiB", name, len(data))
		}
	}
}

// tree reads every file below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

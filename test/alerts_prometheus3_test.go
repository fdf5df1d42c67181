//go:build drill

package test_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// prometheus3 is the version of Prometheus 3 whose promtool the rules are held against as well.
const prometheus3 = "v0.316.0"

// promtool3 returns Prometheus 3's promtool, built once into the cache of peers: it takes minutes.
func promtool3(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(cache, "qwatch", "prometheus-"+prometheus3)
	program := filepath.Join(folder, "promtool")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	// Without the tag it links every cloud's service discovery.
	build := exec.CommandContext(ctx, "go", "install", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool@"+prometheus3)
	build.Dir = t.TempDir() // outside of this module
	build.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build promtool %s: %v\n%s", prometheus3, err, out)
	}
	return program
}

// TestDrillAlertsOnPrometheus3 is what the other tests of the alerts are, on Prometheus 3: its windows are open to
// the left, and it spells le otherwise.
func TestDrillAlertsOnPrometheus3(t *testing.T) {
	program := promtool3(t)
	run := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	run("check", "rules", "--lint=all", "--lint-fatal", filepath.Join(alertTests, "prometheus.yaml"))
	files, err := filepath.Glob(filepath.Join(alertTests, "*.test.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests in %s: %v", alertTests, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { run("test", "rules", file) })
	}
}

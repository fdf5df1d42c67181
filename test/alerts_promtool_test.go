package test_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/qwatch/qwatch/test/peer"
)

// alertTests is where package alerts keeps the rules and what promtool is to find in them.
const alertTests = "../alerts/testdata"

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	status, out := peer.Promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(alertTests, "prometheus.yaml"))
	if status != 0 {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// TestPromtoolAcceptsWhatTheCommandWrites is about the flags that change expressions and templates.
func TestPromtoolAcceptsWhatTheCommandWrites(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config, rules := filepath.Join(folder, "qwatch.yaml"), filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(config, []byte("accounts: [{name: a, connectionString: UseDevelopmentStorage=true, queues: [{name: orders}]}]\nwatch: {interval: 5m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{
		{"--grafana", "https://grafana.example.com", "--monthly-budget", "12.5", "--alert-label", "origin=qwatch"},
		{"--scale", "0.003", "--interval", "15s"},
	} {
		cmd := command(nil, append([]string{"alerts", "generate", "-c", config, "-o", rules}, flags...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", flags, err, out)
		}
		if status, out := peer.Promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", rules); status != 0 {
			t.Errorf("%q: status %d:\n%s", flags, status, out)
		}
	}
}

// TestAlertsTellTheStories runs the stories, and the tests of each alert, on Debian's promtool.
func TestAlertsTellTheStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(alertTests, "*.test.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests in %s: %v", alertTests, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			if status, out := peer.Promtool(t, "", "test", "rules", file); status != 0 {
				t.Errorf("status %d:\n%s", status, out)
			}
		})
	}
}

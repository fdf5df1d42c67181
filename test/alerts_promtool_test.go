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

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestRunbooksNameCommandsThatExist holds the commands of the runbooks against the program, flags as well.
func TestRunbooksNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("there are no runbooks: %v", err)
	}
	root := newCLI().rootCommand()
	found := 0
	for _, page := range append(pages, "../../docs/alerts.md", "../../docs/dashboards.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		// In the text, and as a line of what a terminal shows.
		for _, m := range regexp.MustCompile("`qwatch ([^`]+)`|(?m:^(?:\\$ )?qwatch ((?:alerts|dashboards) [^`|#\n]+))").FindAllStringSubmatch(string(text), -1) {
			m[1] += m[2]
			words := strings.Fields(m[1])
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() && len(rest) > 0 {
				t.Errorf("%s: there is no `qwatch %s`", page, m[1])
				continue
			}
			found++
			for _, word := range rest {
				if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(name, "-") && !hasFlag(cmd, name) {
					t.Errorf("%s: `qwatch %s`: %s has no flag %s", page, m[1], cmd.CommandPath(), name)
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("the runbooks name only %d commands", found)
	}
}

func hasFlag(cmd *cobra.Command, name string) bool {
	if long, ok := strings.CutPrefix(name, "--"); ok {
		return cmd.Flags().Lookup(long) != nil || cmd.InheritedFlags().Lookup(long) != nil
	}
	short := strings.TrimPrefix(name, "-")
	return len(short) == 1 && cmd.Flags().ShorthandLookup(short) != nil
}

// TestAlertsRefusesNoInterval is about 0, which the library takes for its default.
func TestAlertsRefusesNoInterval(t *testing.T) {
	t.Parallel()
	for _, interval := range []string{"0s", "-1m"} {
		c, out, errs := terminal("", nil)
		status := c.main(t.Context(), []string{"alerts", "generate", "--interval", interval})
		if status != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), "must be above zero") {
			t.Errorf("--interval %s: status %d: %s", interval, status, errs)
		}
	}
}

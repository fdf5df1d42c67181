package main

import (
	"strings"
	"testing"
)

// Help tells one default of a flag: that of the usage's words where zero means something else, else the value.
func TestHelpTellsOneDefaultOfEachFlag(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, cmd := range leaves(newCLI().rootCommand()) {
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			line = strings.TrimSpace(line)
			seen++
			if strings.Count(line, "(default") > 1 || strings.HasSuffix(line, "(default 0s)") {
				t.Errorf("%s: more than one default, or none that means anything: %s", cmd.CommandPath(), line)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d flags were looked at", seen)
	}
}

// A flag that is taken because others take it, and changes nothing, names no default.
func TestFlagsThatChangeNothingNameNoDefault(t *testing.T) {
	t.Parallel()
	for path, flags := range map[string][]string{"poison import": {"--all", "--yes"}, "poison purge": {"--all"}} {
		cmd, _, err := newCLI().rootCommand().Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range flags {
			found := false
			for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
				if strings.Contains(line, flag+" ") {
					found = true
					if strings.Contains(line, "(default") {
						t.Errorf("%s: %s", path, line)
					}
				}
			}
			if !found {
				t.Errorf("%s has no %s", path, flag)
			}
		}
	}
}

package queue

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of a queue name.
const (
	minName = 3
	maxName = 63
)

// CheckName checks a queue name by the service's rules: 3 to 63 lower-case letters, digits and
// hyphens, beginning and ending with a letter or digit, no two hyphens in a row.
func CheckName(name string) error {
	shown := clip(name, 80)
	lower := asciiLower(name)
	for _, r := range lower {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-') {
			return fmt.Errorf("queue name %q has the character %q: the service takes lower-case letters, digits and hyphens", shown, r)
		}
	}
	switch {
	case name == "":
		return errors.New("queue name is empty: give 3 to 63 lower-case letters, digits and hyphens")
	case name != lower:
		return fmt.Errorf("queue name %q has upper-case letters: the service takes lower case only, as in %q", shown, clip(lower, 80))
	case len(name) < minName || len(name) > maxName:
		return fmt.Errorf("queue name %q has %d characters: the service takes 3 to 63", shown, len(name))
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return fmt.Errorf("queue name %q begins or ends with a hyphen: it must begin and end with a letter or digit", shown)
	case strings.Contains(name, "--"):
		return fmt.Errorf("queue name %q has two hyphens in a row: the service takes single ones", shown)
	}
	return nil
}

// clip shortens a text for a message.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

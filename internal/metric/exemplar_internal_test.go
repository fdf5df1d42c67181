package metric

import (
	"strings"
	"testing"
)

func TestSampledTrace(t *testing.T) {
	t.Parallel()
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, tt := range map[string]struct{ header, want string }{
		"sampled":                             {"00-" + id + "-" + span + "-01", id},
		"sampled, with another flag":          {"00-" + id + "-" + span + "-03", id},
		"sampled, flags with a letter":        {"00-" + id + "-" + span + "-0b", id},
		"not sampled":                         {"00-" + id + "-" + span + "-00", ""},
		"not sampled, with another flag":      {"00-" + id + "-" + span + "-02", ""},
		"not sampled, flags with a letter":    {"00-" + id + "-" + span + "-0a", ""},
		"a later version":                     {"01-" + id + "-" + span + "-01", id},
		"a later version with more":           {"01-" + id + "-" + span + "-01-what-ever", id},
		"a later version with more, unparted": {"01-" + id + "-" + span + "-01x", ""},
		"this version with more":              {"00-" + id + "-" + span + "-01-more", ""},
		"the forbidden version":               {"ff-" + id + "-" + span + "-01", ""},
		"no trace":                            {"00-" + strings.Repeat("0", 32) + "-" + span + "-01", ""},
		"no span":                             {"00-" + id + "-" + strings.Repeat("0", 16) + "-01", ""},
		"upper case":                          {"00-" + strings.ToUpper(id) + "-" + span + "-01", ""},
		"letters beyond hex":                  {"00-" + strings.Replace(id, "f", "g", 1) + "-" + span + "-01", ""},
		"flags that are no number":            {"00-" + id + "-" + span + "-0x", ""},
		"other separators":                    {"00_" + id + "_" + span + "_01", ""},
		"too short":                           {"00-" + id + "-" + span + "-1", ""},
		"empty":                               {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sampledTrace(tt.header); got != tt.want {
				t.Errorf("sampledTrace(%q) = %q, want %q", tt.header, got, tt.want)
			}
		})
	}
}

func FuzzSampledTrace(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0f-more")
	f.Add("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
	f.Add("")
	f.Fuzz(func(t *testing.T, header string) {
		id := sampledTrace(header)
		if id == "" {
			return
		}
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
			t.Errorf("trace id %q of %q", id, header)
		}
		if !strings.Contains(header, "-"+id+"-") {
			t.Errorf("trace id %q is not in %q", id, header)
		}
	})
}

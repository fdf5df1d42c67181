package test_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/qwatch/qwatch/dashboards"
	"github.com/qwatch/qwatch/test/peer"
)

// TestDashboardResourcesAreWhatGrafanasTypesSay compiles every v2 resource against Grafana's own types.
func TestDashboardResourcesAreWhatGrafanasTypesSay(t *testing.T) {
	t.Parallel()
	all, err := dashboards.Generate(dashboards.Config{PageURL: "https://qwatch.example.org", RunbookURL: "https://runbooks.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, d := range all {
		text, err := d.Resource("qwatch")
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Spec json.RawMessage }
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		files[d.UID+".ts"] = "import type { Spec } from \"@grafana/schema/apis/dashboard.grafana.app/v2\";\nexport const dashboard: Spec = " + string(m.Spec) + ";\n"
	}
	// One that is wrong, and that the compiler must refuse.
	files["wrong.ts"] = strings.Replace(files[dashboards.UIDSelf+".ts"], `"cursorSync": "Crosshair"`, `"cursorSync": "Hairpin"`, 1)
	status, out := peer.TypeScript(t, files)
	faults := 0
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, "wrong.ts("):
			faults++
		case strings.Contains(line, "error TS"):
			t.Error(line)
		}
	}
	if status == 0 || faults != 1 {
		t.Errorf("status %d, and %d faults of a wrong dashboard were found:\n%s", status, faults, out)
	}
}

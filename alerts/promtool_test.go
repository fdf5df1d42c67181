package alerts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/qwatch/qwatch/alerts"
	"github.com/qwatch/qwatch/alerts/scenario"
)

// TestPromtoolFiles keeps the files that promtool runs: the stories, and what each alert must and must not
// tell. They are run on real PromQL by the module test.
func TestPromtoolFiles(t *testing.T) {
	t.Parallel()
	var groups []string
	rules := generate(t, alerts.Config{})
	for _, g := range rules.Groups {
		groups = append(groups, g.Name)
	}
	brink, hourly, _ := onTheBrink(rules)
	for name, scenarios := range map[string][]*scenario.Scenario{
		"stories": stories(), "alerts": firing(), "variations": variations(), "silent": silent(), "edges": edges(), "cost": {costs(), hourly}, "brink": brink,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := scenario.File{RuleFiles: []string{"prometheus.yaml"}, EvaluationInterval: "1m", GroupEvalOrder: groups}
			for _, s := range scenarios {
				if s.Step != "" {
					f.EvaluationInterval = s.Step
				}
				f.Tests = append(f.Tests, s.Promtool())
			}
			var b bytes.Buffer
			b.WriteString("# Written by go test ./alerts -update; do not edit.\n")
			enc := yaml.NewEncoder(&b)
			enc.SetIndent(2)
			if err := enc.Encode(f); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".test.yaml")
			if *update {
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s is not current; run go test ./alerts -update (-want +got):\n%s", file, diff)
			}
		})
	}
}

package chart_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestChartGolden(t *testing.T) {
	for name, values := range valueSets(t) {
		t.Run(name, func(t *testing.T) {
			got := render(t, values)
			if again := render(t, values); again != got {
				t.Error("rendered twice it differs: GitOps tools would see a change each time")
			}
			// Rules and dashboards are held to their generators elsewhere.
			shown := elide(t, got)
			golden := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(shown), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(shown, "\n")); diff != "" {
				t.Errorf("run with -update if it is meant (-golden +rendered):\n%s", diff)
			}
		})
	}
}

// elide leaves out the bulk of generated objects.
func elide(t testing.TB, rendered string) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects(t, rendered) {
		if o["kind"] == "PrometheusRule" {
			o["spec"] = "…"
		}
		if data, ok := o["data"].(map[string]any); ok {
			for k := range data {
				if strings.HasSuffix(k, ".json") {
					data[k] = "…"
				}
			}
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	return b.String()
}

// Every object is under 256 KiB, as an annotation of kubectl apply must hold it; and nothing is random or looked up.
func TestChartIsGitOpsFriendly(t *testing.T) {
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) >= 256<<10 {
				t.Errorf("%s: %s has %d bytes", name, kindAndName(o), len(text))
			}
		}
	}
	templates, err := filepath.Glob(chartDir + "/templates/*")
	if err != nil || len(templates) == 0 {
		t.Fatal("no templates", err)
	}
	for _, f := range templates {
		if data, err := os.ReadFile(f); err == nil {
			for _, word := range []string{"lookup", "randAlpha", "randNumeric", "genCA", "genSelfSigned", "uuidv4", "now", "Capabilities.APIVersions"} {
				if bytes.Contains(data, []byte(" "+word+" ")) || bytes.Contains(data, []byte("."+word)) {
					t.Errorf("%s uses %s", f, word)
				}
			}
		}
	}
}

// What KEDA scales has no replicas of its own, or each apply would set them back.
func TestChartLeavesReplicasToKEDA(t *testing.T) {
	scaled, checked := map[string]bool{}, 0
	all := objects(t, render(t, valueSets(t)["scaled"]))
	for _, o := range all {
		if o["kind"] == "ScaledObject" {
			scaled[o["spec"].(map[string]any)["scaleTargetRef"].(map[string]any)["name"].(string)] = true
		}
	}
	for _, o := range all {
		if o["kind"] != "Deployment" || !scaled[o["metadata"].(map[string]any)["name"].(string)] {
			continue
		}
		checked++
		if _, ok := o["spec"].(map[string]any)["replicas"]; ok {
			t.Errorf("%s has replicas", kindAndName(o))
		}
	}
	if checked == 0 {
		t.Error("no Deployment is scaled")
	}
}

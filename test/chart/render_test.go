package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/helm/qwatch"

// aGroup are values of a group g, scaled by drain on a queue with an objective.
const aGroup = `config:
  accounts: [{name: a, connectionString: "${A}", queues: [{name: orders, objective: {timeInQueue: 5m}}]}]
consumers:
  g:
    queues: [{account: a, name: orders, consumer: {handler: {http: {url: "http://h/"}}}}]
    scaling: {enabled: true}
`

var load = sync.OnceValues(func() (*chart.Chart, error) { return loader.LoadDir(chartDir) })

// helm renders the chart as `helm template` and GitOps tools do, without a cluster: the manifests in the order in which Helm
// installs them, hooks last, and the notes.
func helm(t testing.TB, release, values string, sets ...string) (manifests, notes string, err error) {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatalf("%v in the values:\n%s", err, values)
	}
	for _, set := range sets {
		if err := strvals.ParseInto(set, given); err != nil {
			t.Fatalf("--set %s: %v", set, err)
		}
	}
	with, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: release, Namespace: "queues", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", "", err
	}
	files, err := engine.Render(c, with)
	if err != nil {
		return "", "", err
	}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = text
			delete(files, name)
		}
	}
	return inOrder(t, files), notes, nil
}

func inOrder(t testing.TB, files map[string]string) string {
	t.Helper()
	hooks, objects, err := release.SortManifests(files, nil, release.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "---\n%s\n", o.Content)
	}
	for _, h := range hooks {
		fmt.Fprintf(&b, "---\n%s\n", h.Manifest)
	}
	return b.String()
}

// render renders values that are good.
func render(t testing.TB, values string) string {
	t.Helper()
	manifests, _, err := helm(t, "demo", values)
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// refused holds that values are refused with a message that has want in it, and returns the message; "" is for values that
// are not refused.
func refused(t testing.TB, want, values string, sets ...string) string {
	t.Helper()
	_, _, err := helm(t, "demo", values, sets...)
	said := ""
	if err != nil {
		said = err.Error()
	}
	if (err == nil) != (want == "") || !strings.Contains(said, want) {
		t.Errorf("accepted %v, want %q in:\n%s", err == nil, want, said)
	}
	return said
}

// valueSets are the golden value sets, by name.
func valueSets(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 6 {
		t.Fatalf("%d value sets, want at least six", len(files))
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = string(text)
	}
	return out
}

// objects splits what Helm rendered.
func objects(t testing.TB, rendered string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for doc := range strings.SplitSeq("\n"+rendered, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func kindAndName(o map[string]any) string {
	name, _ := o["metadata"].(map[string]any)["name"].(string)
	return fmt.Sprintf("%s/%s", o["kind"], name)
}

// only is the one object of a kind and name.
func only(t testing.TB, all []map[string]any, kind, name string) map[string]any {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(o map[string]any) bool { return kindAndName(o) != kind+"/"+name })
	if len(found) != 1 {
		t.Fatalf("%d of %s/%s", len(found), kind, name)
	}
	return found[0]
}

// at follows keys of maps and indices of lists.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				t.Fatalf("nothing at %v", path)
			}
			v = l[s]
		}
	}
	return v
}

// watched is the first queue of the watcher's configuration.
func watched(t testing.TB, all []map[string]any) any {
	t.Helper()
	var config map[string]any
	text, _ := at(t, only(t, all, "ConfigMap", "demo-qwatch"), "data", "qwatch.yaml").(string)
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	return at(t, config, "accounts", 0, "queues", 0)
}

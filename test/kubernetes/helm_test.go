//go:build drill

package kube_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const chart = "../../deploy/helm/qwatch"

// program returns a program that install.sh built.
func program(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "qwatch", "kubernetes", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("run `make e2e`, which builds it: %v", err)
	}
	return path
}

// helm runs Helm with an environment of its own and returns its output.
func helm(t testing.TB, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(program(t, "helm"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("helm %q: %v", args, err)
	}
	return out.String(), said.String(), err == nil
}

// valueSets are the golden value sets, by name.
func valueSets(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../chart/testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 6 {
		t.Fatalf("%d value sets, want at least six", len(files))
	}
	out := map[string]string{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	return out
}

// render renders the chart as GitOps tools do: without a cluster.
func render(t testing.TB, values string, more ...string) string {
	t.Helper()
	out, said, ok := helm(t, append([]string{"template", "demo", chart, "--namespace", "queues", "-f", values}, more...)...)
	if !ok {
		t.Fatalf("helm template: %s", said)
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

func TestDrillChartLint(t *testing.T) {
	for name, values := range valueSets(t) {
		if out, said, ok := helm(t, "lint", "--strict", chart, "-f", values); !ok {
			t.Errorf("%s: %s%s", name, out, said)
		}
	}
}

// What is held to the golden files, and tested beside them, is what Helm's code renders within a test (../chart): the program
// renders the same.
func TestDrillChartGolden(t *testing.T) {
	for name, values := range valueSets(t) {
		got := objects(t, render(t, values))
		golden, err := os.ReadFile(filepath.Join("../chart/testdata/golden", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		want := objects(t, string(golden))
		if len(got) != len(want) {
			t.Fatalf("%s: %d objects, want %d", name, len(got), len(want))
		}
		for i, o := range got {
			elide(o)
			if diff := cmp.Diff(want[i], o); diff != "" {
				t.Errorf("%s: %s (-golden +rendered):\n%s", name, kindAndName(o), diff)
			}
		}
	}
}

// elide leaves out of an object what the golden files do.
func elide(o map[string]any) {
	if o["kind"] == "PrometheusRule" {
		o["spec"] = "…"
	}
	data, _ := o["data"].(map[string]any)
	for k := range data {
		if strings.HasSuffix(k, ".json") {
			data[k] = "…"
		}
	}
}

// The program refuses values by schema and by template, and shows the notes.
func TestDrillChartHelmTells(t *testing.T) {
	const account = "config.accounts[0].name=a,config.accounts[0].connectionString="
	for set, want := range map[string]string{
		account + "${A},watcher.replica=3": "'/watcher': additional properties 'replica' not allowed",
		account + "AccountKey=x":           "config.accounts[0].connectionString is a secret in plain text",
	} {
		if _, said, ok := helm(t, "template", "demo", chart, "--set", set); ok || !strings.Contains(said, want) {
			t.Errorf("accepted %v, want %q in:\n%s", ok, want, said)
		}
	}
	if out, said, ok := helm(t, "install", "demo", chart, "--dry-run=client", "--set", account+"${A}"); !ok || !strings.Contains(out, "KEDA's triggers ask demo-qwatch.default.svc:9782.") {
		t.Errorf("no notes: %s%s", out, said)
	}
}

// The configurations that the chart writes are good ones.
func TestDrillChartConfigurations(t *testing.T) {
	qwatch := build(t)
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			data, _ := o["data"].(map[string]any)
			text, ok := data["qwatch.yaml"].(string)
			if !ok {
				continue
			}
			file := filepath.Join(t.TempDir(), "qwatch.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(qwatch, "config", "validate", "-c", file)
			cmd.Env = append(os.Environ(), "ORDERS_CONNECTION_STRING=UseDevelopmentStorage=true", "POD_IP=10.0.0.1",
				"AZURE_CLIENT_ID=client", "AZURE_TENANT_ID=tenant", "AZURE_FEDERATED_TOKEN_FILE=/var/run/token")
			out, err := cmd.CombinedOutput()
			// This is no pod: it has no volumes, no service account, and no ordinal in its name.
			lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(l string) bool {
				return strings.Contains(l, "no such file or directory") || strings.Contains(l, "warning") ||
					strings.Contains(l, "this is not a pod") || strings.Contains(l, "watch.shard.index: the host is called")
			})
			if err != nil && len(lines) > 0 {
				t.Errorf("%s, %s: %v\n%s\n%s", name, kindAndName(o), err, out, text)
			}
		}
	}
}

// build builds qwatch as a release does.
func build(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "qwatch")
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, "./cmd/qwatch")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build qwatch: %v\n%s", err, said)
	}
	return out
}

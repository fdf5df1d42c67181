//go:build drill

package kube_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// aGroup are values of a group g, scaled by drain on a queue with an objective.
const aGroup = `config:
  accounts: [{name: a, connectionString: "${A}", queues: [{name: orders, objective: {timeInQueue: 5m}}]}]
consumers:
  g:
    queues: [{account: a, name: orders, consumer: {handler: {http: {url: "http://h/"}}}}]
    scaling: {enabled: true}
`

// valuesFile writes values to a file.
func valuesFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// only is the one object of a kind and name.
func only(t testing.TB, all []map[string]any, kind, name string) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, o := range all {
		if kindAndName(o) == kind+"/"+name {
			found = append(found, o)
		}
	}
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

// What drain costs is measured with the settings that `qwatch keda generate` writes: the chart's are the same ones.
func TestDrillChartSetsUpDrainAsKEDAGenerate(t *testing.T) {
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	text := "accounts: [{name: a, connectionString: UseDevelopmentStorage=true, queues: [{name: orders, objective: {timeInQueue: 5m}}]}]\nwatch: {interval: 15s}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(build(t), "keda", "generate", "--strategy", "drain", "-c", config).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := only(t, objects(t, string(out)), "ScaledObject", "orders")
	got := only(t, objects(t, render(t, valuesFile(t, aGroup))), "ScaledObject", "demo-qwatch-g")
	if at(t, want, "spec", "advanced") == nil {
		t.Fatalf("keda generate sets no window:\n%s", out)
	}
	for _, key := range []string{"pollingInterval", "cooldownPeriod", "advanced"} {
		if diff := cmp.Diff(at(t, want, "spec", key), at(t, got, "spec", key)); diff != "" {
			t.Errorf("%s (-keda generate +chart):\n%s", key, diff)
		}
	}
}

func TestDrillChartDrainSettingsMayBeChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		scaling  string
		cooldown any
		advanced any
	}{
		"a strategy that needs the window of Kubernetes": {"strategy: visible", 120.0, nil},
		"a cooldown of zero":                             {"cooldownPeriod: 0", 0.0, hpa(map[string]any{"stabilizationWindowSeconds": 15.0})},
		"a window and a policy of one's own": {
			"cooldownPeriod: 7, advanced: {restoreToOriginalReplicaCount: true, horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 40}}}}", 7.0,
			merged(hpa(map[string]any{"stabilizationWindowSeconds": 40.0}), "restoreToOriginalReplicaCount", true),
		},
		"what goes beside the window": {
			"advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {selectPolicy: Min}}}}", 60.0,
			hpa(map[string]any{"stabilizationWindowSeconds": 15.0, "selectPolicy": "Min"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := strings.Replace(aGroup, "enabled: true", "enabled: true, "+tt.scaling, 1)
			o := only(t, objects(t, render(t, valuesFile(t, values))), "ScaledObject", "demo-qwatch-g")
			if diff := cmp.Diff(tt.cooldown, at(t, o, "spec", "cooldownPeriod")); diff != "" {
				t.Errorf("cooldownPeriod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.advanced, at(t, o, "spec", "advanced")); diff != "" {
				t.Errorf("advanced (-want +got):\n%s", diff)
			}
		})
	}
}

func hpa(scaleDown map[string]any) any {
	return map[string]any{"horizontalPodAutoscalerConfig": map[string]any{"behavior": map[string]any{"scaleDown": scaleDown}}}
}

func merged(of any, key string, value any) any {
	of.(map[string]any)[key] = value
	return of
}

//go:build drill

package kube_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
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

// The grace and the scaler's concurrency follow config.defaults as qwatch's own settings do.
func TestDrillChartFollowsDefaults(t *testing.T) {
	for name, tt := range map[string]struct {
		defaults, consumer string
		grace, concurrency any
	}{
		"none":                            {"[]", "", 75.0, nil},
		"one that matches":                {`[{match: "*", consumer: {drainTimeout: 2m, concurrency: 4}}]`, "", 255.0, 4.0},
		"one that does not":               {`[{match: "invoices*", consumer: {drainTimeout: 2m, concurrency: 4}}]`, "", 75.0, nil},
		"one of another account":          {`[{match: "b/*", consumer: {drainTimeout: 2m, concurrency: 4}}]`, "", 75.0, nil},
		"one of this account":             {`[{match: "a/ord[a-f]r?", consumer: {drainTimeout: 2m, concurrency: 4}}]`, "", 255.0, 4.0},
		"the last that matches wins":      {`[{match: "*", consumer: {drainTimeout: 2m}}, {match: "orders", consumer: {drainTimeout: 1m}}]`, "", 135.0, nil},
		"the queue's own win":             {`[{match: "*", consumer: {drainTimeout: 2m, concurrency: 4}}]`, ", drainTimeout: 10s, concurrency: 2", 35.0, 2.0},
		"a drain that is off":             {`[{match: "*", consumer: {drainTimeout: 2m}}]`, ", drainTimeout: 0", 15.0, nil},
		"the scaler's own concurrency":    {`[{match: "*", scaling: {concurrency: 9}, consumer: {concurrency: 4}}]`, "", 75.0, nil},
		"a dot that is no more than that": {`[{match: "order.", consumer: {drainTimeout: 2m}}]`, "", 75.0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			values := strings.Replace(aGroup, "consumers:\n", "  defaults: "+tt.defaults+"\nconsumers:\n", 1)
			values = strings.Replace(values, `"http://h/"}}`, `"http://h/"}}`+tt.consumer, 1)
			all := objects(t, render(t, valuesFile(t, values)))
			if got := at(t, only(t, all, "Deployment", "demo-qwatch-g"), "spec", "template", "spec", "terminationGracePeriodSeconds"); got != tt.grace {
				t.Errorf("terminationGracePeriodSeconds %v, want %v", got, tt.grace)
			}
			if got := at(t, watched(t, all), "scaling", "concurrency"); got != tt.concurrency {
				t.Errorf("the watcher reckons with a concurrency of %v, want %v", got, tt.concurrency)
			}
		})
	}
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

// An objective counts wherever the watcher learns it from, and then it is in the watcher's file.
func TestDrillChartTakesObjectives(t *testing.T) {
	const own = ", objective: {timeInQueue: 5m}"
	bare := strings.Replace(aGroup, own, "", 1)
	for name, tt := range map[string]struct{ values, there string }{
		"of config":        {aGroup, "5m"},
		"of the group":     {strings.Replace(bare, "name: orders, consumer", "name: orders"+own+", consumer", 1), "5m"},
		"of the defaults":  {strings.Replace(bare, "consumers:\n", "  defaults: [{match: \"*\", objective: {timeInQueue: 5m}}]\nconsumers:\n", 1), ""},
		"of the metadata":  {strings.Replace(bare, "enabled: true", "enabled: true, objectiveFromMetadata: true", 1), ""},
		"of another kind":  {strings.Replace(bare, "enabled: true", "enabled: true, strategy: inflight", 1), ""},
		"of the own files": {"existingConfig: {name: mine}\n" + bare, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects(t, render(t, valuesFile(t, tt.values)))
			only(t, all, "ScaledObject", "demo-qwatch-g")
			if tt.there == "-" {
				return
			}
			if got, _ := at(t, watched(t, all), "objective", "timeInQueue").(string); got != tt.there {
				t.Errorf("the watcher has the objective %q, want %q", got, tt.there)
			}
		})
	}
}

// What works, but not as it seems to, the notes tell.
func TestDrillChartWarns(t *testing.T) {
	for name, tt := range map[string]struct{ scaling, want string }{
		"nothing":                     {"minReplicas: 0", ""},
		"a fallback from nothing":     {"fallback: {failureThreshold: 3, replicas: 2}", "WARNING: its fallback has no effect while there are no replicas"},
		"a fallback from one":         {"minReplicas: 1, fallback: {failureThreshold: 3, replicas: 2}", ""},
		"an activation that is never": {"minReplicas: 2, activationQueueLength: 5", "WARNING: its activationQueueLength has no effect: with scaling.minReplicas 2"},
	} {
		t.Run(name, func(t *testing.T) {
			values := strings.Replace(aGroup, "enabled: true", "enabled: true, "+tt.scaling, 1)
			out, said, ok := helm(t, "install", "demo", chart, "--dry-run=client", "-f", valuesFile(t, values))
			if !ok || !strings.Contains(out, "Consumer group g:") {
				t.Fatalf("no notes: %s%s", out, said)
			}
			if !strings.Contains(out, tt.want) || tt.want == "" && strings.Contains(out, "WARNING") {
				t.Errorf("want %q in:\n%s", tt.want, out[strings.LastIndex(out, "Consumer group g:"):])
			}
		})
	}
}

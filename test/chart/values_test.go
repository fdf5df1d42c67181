package chart_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/qwatch/qwatch/internal/scaler"
	"github.com/qwatch/qwatch/internal/scaler/manifest"
)

// What drain costs is measured with the settings that `qwatch keda generate` writes: the chart's are the same ones.
func TestChartSetsUpDrainAsKEDAGenerate(t *testing.T) {
	out := generate(t, manifest.Options{
		Queues: []manifest.Queue{{Account: "a", Name: "orders", Objective: 5 * time.Minute}}, Strategy: scaler.StrategyDrain, PollInterval: 15 * time.Second,
	})
	want := only(t, objects(t, out), "ScaledObject", "orders")
	got := only(t, objects(t, render(t, aGroup)), "ScaledObject", "demo-qwatch-g")
	if at(t, want, "spec", "advanced") == nil {
		t.Fatalf("keda generate sets no window:\n%s", out)
	}
	for _, key := range []string{"pollingInterval", "cooldownPeriod", "advanced"} {
		if diff := cmp.Diff(at(t, want, "spec", key), at(t, got, "spec", key)); diff != "" {
			t.Errorf("%s (-keda generate +chart):\n%s", key, diff)
		}
	}
}

func TestChartDrainSettingsMayBeChanged(t *testing.T) {
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
			o := only(t, objects(t, render(t, values)), "ScaledObject", "demo-qwatch-g")
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
func TestChartFollowsDefaults(t *testing.T) {
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
			all := objects(t, render(t, values))
			if got := at(t, only(t, all, "Deployment", "demo-qwatch-g"), "spec", "template", "spec", "terminationGracePeriodSeconds"); got != tt.grace {
				t.Errorf("terminationGracePeriodSeconds %v, want %v", got, tt.grace)
			}
			if got := at(t, watched(t, all), "scaling", "concurrency"); got != tt.concurrency {
				t.Errorf("the watcher reckons with a concurrency of %v, want %v", got, tt.concurrency)
			}
		})
	}
}

// An objective counts wherever the watcher learns it from, and then it is in the watcher's file.
func TestChartTakesObjectives(t *testing.T) {
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
			all := objects(t, render(t, tt.values))
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
func TestChartWarns(t *testing.T) {
	for name, tt := range map[string]struct{ scaling, want string }{
		"nothing":                     {"minReplicas: 0", ""},
		"a fallback from nothing":     {"fallback: {failureThreshold: 3, replicas: 2}", "WARNING: its fallback has no effect while there are no replicas"},
		"a fallback from one":         {"minReplicas: 1, fallback: {failureThreshold: 3, replicas: 2}", ""},
		"an activation that is never": {"minReplicas: 2, activationQueueLength: 5", "WARNING: its activationQueueLength has no effect: with scaling.minReplicas 2"},
	} {
		t.Run(name, func(t *testing.T) {
			values := strings.Replace(aGroup, "enabled: true", "enabled: true, "+tt.scaling, 1)
			_, notes, err := helm(t, "demo", values)
			if err != nil || !strings.Contains(notes, "Consumer group g:") {
				t.Fatalf("no notes: %v %s", err, notes)
			}
			if !strings.Contains(notes, tt.want) || tt.want == "" && strings.Contains(notes, "WARNING") {
				t.Errorf("want %q in:\n%s", tt.want, notes)
			}
		})
	}
}

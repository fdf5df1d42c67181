//go:build drill

package kube_test

import (
	"bytes"
	"os"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// What `qwatch alerts generate --format prometheusrule` writes is the operator's type, without a field that it does not know.
func TestDrillGeneratedPrometheusRuleDecodesStrictly(t *testing.T) {
	text, err := os.ReadFile("../../alerts/testdata/prometheusrule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(text, &rule); err != nil {
		t.Fatal(err)
	}
	if rule.Labels["release"] != "kube-prometheus-stack" || len(rule.Spec.Groups) < 9 {
		t.Errorf("labels %v, %d groups", rule.Labels, len(rule.Spec.Groups))
	}
	kept := 0
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			if r.KeepFiringFor != nil {
				kept++
			}
		}
	}
	if kept == 0 {
		t.Error("no rule keeps firing: the field was not understood")
	}
	wrong := bytes.Replace(text, []byte("keep_firing_for"), []byte("keepFiringFor"), 1)
	if err := yaml.UnmarshalStrict(wrong, &monitoringv1.PrometheusRule{}); err == nil {
		t.Error("an unknown field was taken")
	}
}

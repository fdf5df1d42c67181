//go:build drill

package kube_test

import (
	"bytes"
	"testing"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// Every object is one of the real types, without a field that they do not know or that is there twice.
func TestDrillChartDecodesStrictly(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		monitoringv1.AddToScheme, kedav1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	kinds := map[string]bool{}
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			kinds[o["kind"].(string)] = true
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := strict.Decode(text, nil, nil); err != nil {
				t.Errorf("%s: %s: %v", name, kindAndName(o), err)
			}
			// The check itself: a field nobody knows is refused.
			wrong := bytes.Replace(text, []byte("metadata:\n"), []byte("metadata:\n  nobodyKnowsThis: 1\n"), 1)
			if _, _, err := strict.Decode(wrong, nil, nil); err == nil {
				t.Errorf("%s: %s: an unknown field was taken", name, kindAndName(o))
			}
		}
	}
	for _, kind := range []string{
		"ConfigMap", "Deployment", "StatefulSet", "Service", "ServiceAccount", "Role", "RoleBinding", "PodDisruptionBudget",
		"NetworkPolicy", "ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject", "Pod",
	} {
		if !kinds[kind] {
			t.Errorf("no value set renders a %s", kind)
		}
	}
}

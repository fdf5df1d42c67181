//go:build drill

package kube_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/qwatch/qwatch/test/peer"
)

// A cluster is a running API server with its own etcd, and nothing that runs pods.
type cluster struct {
	kubeconfig, url, token string
	client                 *http.Client
	plurals                map[string]resource // by apiVersion/kind
}

type resource struct {
	name       string
	namespaced bool
}

// startCluster starts an API server and installs the CRDs of KEDA and of the Prometheus operator.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	dir := t.TempDir()
	ports := make([]string, 3)
	for i, a := range peer.FreeAddresses(t, 3) {
		_, ports[i], _ = net.SplitHostPort(a)
	}
	peer.Start(t, "kube-apiserver", exec.Command(program(t, "controlplane"), "apiserver", dir, ports[0], ports[1], ports[2]))
	c := &cluster{
		kubeconfig: filepath.Join(dir, "kubeconfig"), url: "https://127.0.0.1:" + ports[0], token: "admin", plurals: map[string]resource{},
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 20 * time.Second},
	}
	t.Cleanup(c.client.CloseIdleConnections)
	eventually(t, 2*time.Minute, "the API server is ready", func() bool {
		_, err := c.do(http.MethodGet, "/readyz", nil)
		return err == nil
	})
	crds, err := filepath.Glob(program(t, "crds") + "/*.yaml")
	if err != nil || len(crds) < 8 {
		t.Fatalf("%d CRDs: %v", len(crds), err)
	}
	for _, f := range crds {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, string(data)) {
			c.apply(t, o)
		}
	}
	eventually(t, time.Minute, "the custom resources are served", func() bool {
		_, err := c.do(http.MethodGet, "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects", nil)
		_, err2 := c.do(http.MethodGet, "/apis/monitoring.coreos.com/v1/namespaces/default/prometheusrules", nil)
		return err == nil && err2 == nil
	})
	return c
}

// do asks the API server, and returns the answer's body.
func (c *cluster) do(method, path string, body any) ([]byte, error) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, c.url+path, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		var status struct{ Message string }
		_ = json.Unmarshal(data, &status) // what is no Status stays as it is
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, status.Message)
	}
	return data, err
}

// path is where objects of a kind are.
func (c *cluster) path(t testing.TB, o map[string]any, namespace string) string {
	t.Helper()
	version, kind := o["apiVersion"].(string), o["kind"].(string)
	base := "/apis/" + version
	if !strings.Contains(version, "/") {
		base = "/api/" + version
	}
	if _, ok := c.plurals[version+"/"+kind]; !ok {
		data, err := c.do(http.MethodGet, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Resources []struct {
				Name, Kind string
				Namespaced bool
			}
		}
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Resources {
			if !strings.Contains(r.Name, "/") {
				c.plurals[version+"/"+r.Kind] = resource{r.Name, r.Namespaced}
			}
		}
	}
	r, ok := c.plurals[version+"/"+kind]
	if !ok {
		t.Fatalf("the API server knows no %s of %s", kind, version)
	}
	if r.namespaced {
		return base + "/namespaces/" + namespace + "/" + r.name
	}
	return base + "/" + r.name
}

// apply creates an object.
func (c *cluster) apply(t testing.TB, o map[string]any) {
	t.Helper()
	meta := o["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	if namespace == "" {
		namespace = "default"
	}
	if _, err := c.do(http.MethodPost, c.path(t, o, namespace), o); err != nil {
		t.Fatalf("create %s: %v", kindAndName(o), err)
	}
}

// applyText creates the objects of a text in YAML.
func (c *cluster) applyText(t testing.TB, text string) {
	t.Helper()
	for _, o := range objects(t, text) {
		c.apply(t, o)
	}
}

// get reads an object.
func (c *cluster) get(path string, into any) error {
	data, err := c.do(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// O6: a real API server, with the CRDs, takes every object of every value set, and refuses what it does not know.
func TestDrillChartOnAPIServer(t *testing.T) {
	c := startCluster(t)
	c.applyText(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: queues, labels: {pod-security.kubernetes.io/enforce: restricted}}\n")
	const strictly = "?dryRun=All&fieldValidation=Strict"
	for name, values := range valueSets(t) {
		for _, o := range objects(t, render(t, values)) {
			path := c.path(t, o, "queues") + strictly
			if _, err := c.do(http.MethodPost, path, o); err != nil {
				t.Errorf("%s: %s: %v", name, kindAndName(o), err)
			}
			c.admitPods(t, name, o)
			spec, ok := o["spec"].(map[string]any)
			if !ok {
				continue
			}
			spec["nobodyKnowsThis"] = true
			if _, err := c.do(http.MethodPost, path, o); err == nil {
				t.Errorf("%s: %s: an unknown field was taken", name, kindAndName(o))
			}
		}
	}
	for name, values := range valueSets(t) {
		out, said, ok := helm(t, "install", "demo", chart, "-n", "queues", "-f", values, "--dry-run=server", "--kubeconfig", c.kubeconfig)
		if !ok {
			t.Errorf("helm install --dry-run=server with %s: %s%s", name, out, said)
		}
	}
	t.Run("install, upgrade, uninstall", func(t *testing.T) { lifecycle(t, c) })
}

// admitPods creates the pods of a workload, in a namespace that enforces the restricted standard.
func (c *cluster) admitPods(t *testing.T, name string, o map[string]any) {
	t.Helper()
	if o["kind"] != "Deployment" && o["kind"] != "StatefulSet" {
		return
	}
	template := o["spec"].(map[string]any)["template"].(map[string]any)
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "admitted", "labels": template["metadata"].(map[string]any)["labels"]}, "spec": template["spec"]}
	if _, err := c.do(http.MethodPost, "/api/v1/namespaces/queues/pods?dryRun=All&fieldValidation=Strict", pod); err != nil {
		t.Errorf("%s: a pod of %s: %v", name, kindAndName(o), err)
	}
}

// lifecycle installs the chart, upgrades it to other values, and takes it away.
func lifecycle(t *testing.T, c *cluster) {
	run := func(args ...string) string {
		t.Helper()
		out, said, ok := helm(t, append(args, "-n", "queues", "--kubeconfig", c.kubeconfig)...)
		if !ok {
			t.Fatalf("helm %q: %s%s", args, out, said)
		}
		return out
	}
	notes := run("install", "demo", chart, "-f", "../chart/testdata/values/minimal.yaml")
	if !strings.Contains(notes, "svc/demo-qwatch 9780") {
		t.Errorf("the notes are:\n%s", notes)
	}
	run("upgrade", "demo", chart, "-f", "../chart/testdata/values/scaled.yaml")
	var deployment struct{ Spec struct{ Replicas *int } }
	if err := c.get("/apis/apps/v1/namespaces/queues/deployments/demo-qwatch-orders", &deployment); err != nil {
		t.Fatal(err)
	}
	// The replicas that KEDA sets survive the next upgrade.
	if _, err := c.do(http.MethodPatch, "/apis/apps/v1/namespaces/queues/deployments/demo-qwatch-orders", map[string]any{"spec": map[string]any{"replicas": 7}}); err != nil {
		t.Fatal(err)
	}
	run("upgrade", "demo", chart, "-f", "../chart/testdata/values/scaled.yaml", "--set", "watcher.logLevel=debug")
	if err := c.get("/apis/apps/v1/namespaces/queues/deployments/demo-qwatch-orders", &deployment); err != nil {
		t.Fatal(err)
	}
	if r := deployment.Spec.Replicas; r == nil || *r != 7 {
		t.Errorf("after an upgrade there are %v replicas, not the 7 that were set", r)
	}
	run("uninstall", "demo")
	var list struct{ Items []any }
	if err := c.get("/api/v1/namespaces/queues/configmaps?labelSelector=app.kubernetes.io%2Finstance%3Ddemo", &list); err != nil || len(list.Items) > 0 {
		t.Errorf("%d ConfigMaps stay: %v", len(list.Items), err)
	}
}

// text is an object in YAML.
func text(t testing.TB, o any) string {
	t.Helper()
	b, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

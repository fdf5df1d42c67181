//go:build drill

package kube_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What qwatch generates for Kubernetes, a real API server takes: the objects of `keda generate`, of `alerts generate` and
// of `dashboards generate`.
func TestDrillGeneratedOnAPIServer(t *testing.T) {
	c, qwatch := startCluster(t), build(t)
	config := filepath.Join(t.TempDir(), "qwatch.yaml")
	text := `accounts:
  - name: orders
    connectionString: UseDevelopmentStorage=true
    queues:
      - {name: orders, objective: {timeInQueue: 5m}, tier: 1}
      - {name: invoices, objective: {timeInQueue: 1h}}
scaling: {handlingTime: 1s}
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]string{
		"scaled objects, external":              "keda generate --scaler external",
		"scaled objects, external push":         "keda generate --scaler external-push --strategy drain",
		"scaled objects, metrics API":           "keda generate --scaler metrics-api --strategy visible",
		"scaled objects, Prometheus":            "keda generate --scaler prometheus --prometheus http://prometheus.monitoring.svc:9090",
		"one scaled object with a fallback":     "keda generate --target workers --min 1 --fallback 3",
		"scaled jobs":                           "keda generate --kind scaledjob --image worker:1",
		"a PrometheusRule":                      "alerts generate --format prometheusrule --label release=monitoring",
		"ConfigMaps with dashboards":            "dashboards generate --format configmap -o DIR",
		"ConfigMaps with dashboards, elsewhere": "dashboards generate --format configmap --namespace default -o DIR",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(qwatch, append(strings.Fields(strings.ReplaceAll(args, "DIR", dir)), "-c", config)...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("qwatch %s: %v", args, err)
			}
			if strings.Contains(args, "DIR") {
				out = out[:0]
				files, err := filepath.Glob(dir + "/*.yaml")
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					data, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					out = append(append(out, "\n---\n"...), data...)
				}
			}
			n := 0
			for _, o := range objects(t, string(out)) {
				n++
				if _, err := c.do(http.MethodPost, c.path(t, o, "default")+"?dryRun=All&fieldValidation=Strict", o); err != nil {
					t.Errorf("%s: %v", kindAndName(o), err)
				}
			}
			if n == 0 {
				t.Errorf("no objects in:\n%s", out)
			}
		})
	}
}
